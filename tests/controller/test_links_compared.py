"""Which links of a host are up goes to the fleet's comparison; what could not be read compares with nothing."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest
import runs

from gpuburn.controller import named
from gpuburn.measurement import Fact, Reading


@pytest.mark.parametrize(("value", "said"), [
    ("7 of 8 ports", {("infiniband links", "7 of 8 ports")}), ("none: no active port", {
        ("infiniband links", "none: no active port")}),
    ("unknown: mlx5_0: no number", set()),
])  # fmt: skip
def test_what_the_host_says_of_its_links_is_compared(value: str, said: set[tuple[str, str]]) -> None:
    of = runs.plan(runs.hardware(), steps=("host_health",))
    outcome = runs.outcome(of, of.steps[0], [Fact("ib_active", value, subject="host")])
    collected = cast(Any, SimpleNamespace(plan=of, outcomes=[outcome]))
    assert {(one.about, one.value) for one in named.versions(collected, [])} == said


@pytest.mark.parametrize(("multiple", "wanted"), [(None, "pass"), (1.5, "pass"), (2.5, "fail")])
def test_host_memory_is_held_to_the_multiple_that_the_site_set(multiple: float | None, wanted: str) -> None:
    site = {"host_health.memory_ratio": {"min": multiple, "unit": "1", "because": "the contract"}}
    given = ((f"{runs.ISSUED}", site),) if multiple else ()
    of = runs.plan(runs.hardware(site_limits=given), steps=("host_health", "gemm", "host_health_after"))
    taken = runs.answers(of)
    for name in ("host_health", "host_health_after"):
        rest = [one for one in taken[name] if getattr(one, "metric", "") != "memory_ratio"]
        taken[name] = [*rest, Reading("memory_ratio", 2.0, subject="host", at=runs.ISSUED)]
    assert str(runs.verdict(of, runs.outcomes(of, taken))) == wanted
