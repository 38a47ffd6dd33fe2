"""Which criteria are laxer than others, which are merely others, and which are at least as strict."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest
import runs

from gpuburn import criteria, policy
from gpuburn.attempt import Attempt, Laxer
from gpuburn.criteria import Criteria
from gpuburn.decision import Case
from gpuburn.finding import Verdict
from gpuburn.plan import Guard
from gpuburn.standing import stand

HERE = criteria.of(runs.plan(runs.hardware(count=2, level="standard")))
POLICY = policy.load()


def but(**changed: Any) -> Criteria:
    return dataclasses.replace(HERE, **changed)


def step(name: str, **params: Any) -> Criteria:
    return but(steps=[dataclasses.replace(one, params={**one.params, **params}) if one.name == name else one
                      for one in HERE.steps])  # fmt: skip


def guard(**changed: Any) -> Criteria:
    return but(guards=[dataclasses.replace(HERE.guards[0], **changed), *HERE.guards[1:]])


@pytest.mark.parametrize(
    ("now", "why"),
    [
        (but(), ""),
        (but(policy="f" * 64), f"other criteria: policy was {HERE.policy[:12]}, is ffffffffffff"),
        (but(judgement="f" * 64), f"other criteria: judgement was {HERE.judgement[:12]}, is ffffffffffff"),
        (but(count=8), "other criteria: count was 2, is 8"),
        (but(sku="h20"), f"other criteria: sku was {HERE.sku}, is h20"),
        (but(level="quick"), "level was standard, is quick"),
        (but(decision_rule="guard_band"), ""),
        (but(privileges="user"), "privileges was root, is user"),
        (but(steps=HERE.steps[1:]), f"step {HERE.steps[0].name} is no longer demanded"),
        (but(guards=HERE.guards[1:]), f"guard {HERE.guards[0].name} is no longer demanded"),
        (but(steps=[dataclasses.replace(one, timeout=1.0, expected=1.0) for one in HERE.steps]), ""),
        (step("gemm", seconds=1), "other criteria: step gemm: seconds was "),
        (but(limits=HERE.limits[1:], level="soak"), None),
    ],
)
def test_what_is_laxer_other_or_at_least_as_strict(now: Criteria, why: str | None) -> None:
    found = criteria.laxer(now, HERE)
    if why is None:
        assert "is no longer demanded" in found or not HERE.limits[0].can_reject
    else:
        assert found == why or (why.endswith("was ") and found.startswith(why))


def test_what_became_stricter_is_laxer_the_other_way_round() -> None:
    assert criteria.laxer(HERE, but(privileges="user")) == ""
    assert criteria.laxer(HERE, but(decision_rule="guard_band")) == "decision_rule was guard_band, is simple"
    assert criteria.laxer(HERE, but(judgement="")) == "", "an earlier version named none"


def test_a_higher_level_runs_its_steps_in_its_own_way() -> None:
    assert criteria.laxer(dataclasses.replace(step("gemm", seconds=1), level="soak"), HERE) == ""


def test_a_guard_is_at_least_as_tight() -> None:
    tight = Guard("temperature", "C", "x", max=85.0)
    for changed, fits in (({"max": 85.0}, True), ({"max": 80.0}, True), ({"max": 90.0}, False), ({"max": None}, False)):
        now = but(guards=[dataclasses.replace(tight, **changed)])  # type: ignore[arg-type]
        assert (criteria.laxer(now, but(guards=[tight])) == "") is fits
    low = Guard("disk_free", "GiB", "x", min=5.0)
    found = criteria.laxer(but(guards=[dataclasses.replace(low, min=1.0)]), but(guards=[low]))
    assert found == "guard disk_free: was min 5 GiB, is min 1 GiB"


def attempt(number: int, verdict: Verdict, by: policy.Policy) -> Attempt:
    case = Case("judged", verdict, "hardware", "standard")
    mine = but(policy=by.digest, decision_rule=by.decision_rule)
    return Attempt(f"2026010{number}T000000Z-0000", "a", float(number), "hardware", "standard", {"training": case}, by,
                   by.digest, mine, cause="riser")  # fmt: skip


@pytest.mark.parametrize(
    ("change", "decides"),
    [
        (lambda: dataclasses.replace(POLICY, decision_rule="guard_band"), 2),
        (lambda: dataclasses.replace(POLICY, peers="fail"), 1),
        (lambda: dataclasses.replace(POLICY, peers="fail", decision_rule="guard_band"), 1),
    ],
)
def test_a_guard_band_may_follow_the_simple_rule_and_another_policy_is_told_as_such(
    change: Callable[[], policy.Policy], decides: int
) -> None:
    found = stand([attempt(1, Verdict.FAIL, POLICY), attempt(2, Verdict.PASS, change())])
    assert found.decides == decides
    if decides == 1:
        assert found.lines[1].note.startswith("never supersedes, other criteria: policy was ")
        assert found.lines[1].changed[-1].startswith("other criteria: policy was ")
    back = stand([attempt(1, Verdict.FAIL, change()), attempt(2, Verdict.PASS, POLICY)], laxer=Laxer())
    assert back.decides == 1
