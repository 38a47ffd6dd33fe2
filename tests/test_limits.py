"""limits.yml: every promise of every probe has an entry for each kind of run that it is made in, and all fit."""

from __future__ import annotations

from typing import get_args

import pytest

from gpuburn import limit as limits
from gpuburn.plan import LEVELS, Kind, fits
from gpuburn.probe import Probe, discover
from gpuburn.telemetry import TELEMETRY

BOOK = limits.load()
PROBES: dict[str, Probe] = {**discover(), "telemetry": TELEMETRY}


PLANNED = {
    ("identity.gpus", "hardware"),
    ("identity.gpu_sku", "hardware"),
}  # the plan itself adds what was ordered (planning._ordered)


@pytest.mark.parametrize("probe", PROBES.values(), ids=PROBES)
def test_every_promise_has_an_entry_in_each_kind_of_run(probe: Probe) -> None:
    missing = [
        f"{probe.name}.{name} ({kind})"
        for name, promised in probe.promises.items()
        for kind in promised.kinds
        if (f"{probe.name}.{name}", kind) not in PLANNED
        and not any(one.about == f"{probe.name}.{name}" and kind in (one.when.kinds or get_args(Kind)) for one in BOOK)
    ]
    assert not missing, f"no entry in limits.yml; mark it informational, with the reason: {missing}"


@pytest.mark.parametrize("one", BOOK, ids=lambda one: one.about)
def test_every_entry_fits_the_metric_or_fact_that_it_is_about(one: limits.Limit) -> None:
    probe, _, name = one.about.partition(".")
    assert probe in PROBES, f"{one.about}: no such probe"
    assert name in PROBES[probe].promises, f"{one.about}: no such metric or fact"
    fits(one, PROBES[probe], "limits.yml")
    assert set(one.when.kinds) <= set(get_args(Kind))
    assert set(one.when.levels) <= set(LEVELS)


@pytest.mark.parametrize("one", BOOK, ids=lambda one: one.about)
def test_every_entry_has_its_reason(one: limits.Limit) -> None:
    assert len((one.because or one.informational).split()) >= 3


def test_every_measuring_probe_can_fail_by_something() -> None:
    """A probe of which every promise is only recorded could never reject anything."""
    recorders = {"idle", "identity"}
    for probe in discover().values():
        mine = [one for one in BOOK if one.about.startswith(f"{probe.name}.")]
        assert probe.name in recorders or any(one.can_reject for one in mine), probe.name


def test_no_two_entries_answer_the_same_question_differently() -> None:
    for index, one in enumerate(BOOK):
        for two in BOOK[index + 1 :]:
            assert (one.about, one.when) != (two.about, two.when), one.about
