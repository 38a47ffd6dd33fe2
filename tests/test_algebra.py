"""What must hold of every plan and every answer: less never earns more, and order says nothing."""

from __future__ import annotations

import dataclasses
import itertools

import pytest
import runs
from hypothesis import given, strategies as st

from gpuburn import policy as policies
from gpuburn.decision import Case, decide, marks, worst
from gpuburn.finding import Finding, Verdict
from gpuburn.limit import Limit
from gpuburn.measurement import Measurement
from gpuburn.outcome import Outcome
from gpuburn.plan import Plan
from gpuburn.policy import Decision
from gpuburn.verdict import judge, verdicts

PLANS = {"rehearsal": runs.plan(), "hardware": runs.plan(runs.hardware(count=2, level="standard"))}
GOOD = {Verdict.PASS: 0, Verdict.INCOMPLETE: 1, Verdict.FAIL: 1}  # incomplete and fail are both no pass
each_plan = pytest.mark.parametrize("plan", PLANS.values(), ids=PLANS)
# What may go wrong before anything goes missing: (step, measurement, times its value).
faults = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 40), st.sampled_from([0.0, 0.5, 0.9, 1.1, 3.0, -1.0])))


def answered(plan: Plan, wrong: list[tuple[int, int, float]] = []) -> list[Outcome]:  # noqa: B006  (never changed)
    """The plan answered in full, with some values changed."""
    outcomes = list(runs.outcomes(plan).values())
    for step, index, times in wrong:
        one = outcomes[step % len(outcomes)]
        if one.measurements:
            at = index % len(one.measurements)
            changed = _times(one.measurements[at], times)
            many = [changed if number == at else m for number, m in enumerate(one.measurements)]
            outcomes[step % len(outcomes)] = dataclasses.replace(one, measurements=many)
    return outcomes


def _times(m: Measurement, times: float) -> Measurement:
    moved = m.value * times if m.value else times - 1
    return dataclasses.replace(m, value=moved, low=moved, high=moved)


def verdict(plan: Plan, outcomes: list[Outcome]) -> Verdict:
    return verdicts(plan, judge(plan, outcomes, runs.record()))[plan.profiles[0]]


def decision(plan: Plan, findings: list[Finding]) -> Decision:
    profile = plan.profiles[0]
    said = verdicts(plan, findings)[profile]
    case = Case("judged", said, plan.kind, plan.level, plan.environment, marks(findings, profile))
    return decide(policies.load(), case).decision


def no_better(now: Verdict, before: Verdict) -> bool:
    return GOOD[now] >= GOOD[before]


@each_plan
def test_a_plan_answered_in_full_passes(plan: Plan) -> None:
    assert verdict(plan, answered(plan)) is Verdict.PASS


@each_plan
@given(wrong=faults, at=st.integers(0, 2))
def test_a_missing_outcome_never_improves_a_verdict(plan: Plan, wrong: list[tuple[int, int, float]], at: int) -> None:
    outcomes = answered(plan, wrong)
    rest = [one for index, one in enumerate(outcomes) if index != at % len(outcomes)]
    assert verdict(plan, rest) is not Verdict.PASS
    assert no_better(verdict(plan, rest), verdict(plan, outcomes))


@each_plan
@given(wrong=faults, at=st.integers(0, 2), which=st.integers(0, 40), what=st.sampled_from(["measurements", "facts"]))
def test_a_missing_answer_never_improves_a_verdict(
    plan: Plan, wrong: list[tuple[int, int, float]], at: int, which: int, what: str
) -> None:
    outcomes = answered(plan, wrong)
    one = outcomes[at % len(outcomes)]
    many = getattr(one, what)
    if many:
        less = [m for index, m in enumerate(many) if index != which % len(many)]
        outcomes_now = [dataclasses.replace(o, **{what: less}) if o is one else o for o in outcomes]
        assert no_better(verdict(plan, outcomes_now), verdict(plan, outcomes))


@each_plan
@given(wrong=faults, at=st.integers(0, 2), which=st.integers(0, 7))
def test_a_missing_subject_never_passes(plan: Plan, wrong: list[tuple[int, int, float]], at: int, which: int) -> None:
    outcomes = answered(plan, wrong)
    one = outcomes[at % len(outcomes)]
    less = [s for index, s in enumerate(one.subjects) if index != which % len(one.subjects)]
    rest = [dataclasses.replace(o, subjects=less) if o is one else o for o in outcomes]
    assert verdict(plan, rest) is not Verdict.PASS


@each_plan
@pytest.mark.parametrize("lost", ["boots", "identities", "kernel_log"])
def test_a_record_that_lacks_something_never_passes(plan: Plan, lost: str) -> None:
    record = runs.record(**{lost: "not read" if lost == "kernel_log" else []})
    found = judge(plan, answered(plan), record)
    if not (lost == "kernel_log" and plan.privileges == "user"):  # which cannot read it, and is listed as such
        assert verdicts(plan, found)[plan.profiles[0]] is not Verdict.PASS


@each_plan
@given(wrong=faults, dice=st.randoms(use_true_random=False))
def test_the_order_of_outcomes_subjects_and_measurements_changes_nothing(
    plan: Plan, wrong: list[tuple[int, int, float]], dice: object
) -> None:
    outcomes = answered(plan, wrong)
    mixed = []
    for one in outcomes:
        parts = {name: list(getattr(one, name)) for name in ("subjects", "measurements", "facts")}
        for many in parts.values():
            dice.shuffle(many)  # type: ignore[attr-defined]
        mixed.append(dataclasses.replace(one, **parts))
    dice.shuffle(mixed)  # type: ignore[attr-defined]
    assert judge(plan, mixed, runs.record()) == judge(plan, outcomes, runs.record())


def _tighter(limit: Limit, by: float) -> Limit:
    """The same limit with its bounds closer together; one without bounds as it is."""
    if not limit.numeric:
        return limit
    low = None if limit.min is None else limit.min + by
    high = None if limit.max is None else limit.max - by
    if low is not None and high is not None and low > high:
        return limit
    return dataclasses.replace(limit, min=low, max=high)


@each_plan
@given(wrong=faults, which=st.integers(0, 200), by=st.floats(0, 10), seen=st.floats(-5, 5))
def test_tightening_a_limit_never_turns_a_fail_into_a_pass(
    plan: Plan, wrong: list[tuple[int, int, float]], which: int, by: float, seen: float
) -> None:
    at = which % len(plan.limits)
    tight = [_tighter(one, by) if index == at else one for index, one in enumerate(plan.limits)]
    outcomes = answered(plan, [*wrong, (which, which, seen)])
    before, now = (judge(dataclasses.replace(plan, limits=limits), outcomes, runs.record())
                   for limits in (plan.limits, tight))  # fmt: skip
    profile = plan.profiles[0]
    assert no_better(verdicts(plan, now)[profile], verdicts(plan, before)[profile])
    if decision(plan, before) in (Decision.REJECTED, Decision.TRIAL_FAILED):
        assert not decision(plan, now).good


@each_plan
@given(which=st.integers(0, 200), floor=st.floats(0.01, 100), seen=st.floats(0.01, 100))
def test_a_demand_on_what_was_only_recorded_never_improves_a_verdict(
    plan: Plan, which: int, floor: float, seen: float
) -> None:
    open_ = [one for one in plan.limits if one.informational and one.about == "gemm.tflops"]
    if open_:
        hard = dataclasses.replace(
            open_[0], informational="", uncalibrated=False, unit="TFLOP/s", because="r", min=floor
        )
        changed = dataclasses.replace(plan, limits=[hard if one is open_[0] else one for one in plan.limits])
        outcomes = answered(plan, [(which, which, seen)])
        assert no_better(verdict(changed, outcomes), verdict(plan, outcomes))


@each_plan
@given(wrong=faults, which=st.integers(0, 500))
def test_one_finding_more_never_improves_a_verdict_that_was_a_pass_or_a_fail(
    plan: Plan, wrong: list[tuple[int, int, float]], which: int
) -> None:
    found = judge(plan, answered(plan, wrong), runs.record())
    more = found[which % len(found)]
    for end in (Verdict.FAIL, Verdict.INCOMPLETE):
        now = [*found, dataclasses.replace(more, verdict=end)]
        profile = plan.profiles[0]
        if profile in more.profiles:
            assert verdicts(plan, now)[profile] is not Verdict.PASS
            assert not decision(plan, now).good or not decision(plan, found).good or end is Verdict.PASS


@given(st.lists(st.sampled_from(list(Decision)), max_size=6), st.sampled_from(list(Decision)))
def test_one_profile_more_never_improves_a_hosts_decision(many: list[Decision], one: Decision) -> None:
    order = list(Decision)
    if many:
        assert order.index(worst([*many, one])) >= order.index(worst(many))
    assert len({worst(mixed) for mixed in itertools.islice(itertools.permutations([*many, one]), 24)}) == 1


LESS = [("accepted", "conditional", "trial passed"), ("undecided", "untested", "trial failed", "rejected")]


@pytest.mark.parametrize("kind", ["hardware", "rehearsal", "simulated"])
@pytest.mark.parametrize("level", ["smoke", "quick", "standard", "soak"])
@pytest.mark.parametrize("environment", ["bare_metal", "vm", "container"])
@given(
    marked=st.frozensets(st.sampled_from(["uncalibrated", "not_observable", "marginal", "waived", "unexplained"])),
    reached=st.sampled_from(["never_reached", "not_started", "lost", "vanished", "uncollected", "refused"]),
)
def test_a_host_that_did_not_come_home_is_never_better_than_one_that_passed(
    kind: str, level: str, environment: str, marked: frozenset[str], reached: str
) -> None:
    policy, order = policies.load(), list(Decision)
    passed = decide(policy, Case("judged", Verdict.PASS, kind, level, environment, marked)).decision
    for verdict in (None, Verdict.PASS, Verdict.INCOMPLETE):
        other = decide(policy, Case(reached, verdict, kind, level, environment, marked)).decision  # type: ignore[arg-type]
        assert str(other) in LESS[1]
        assert order.index(other) > order.index(passed)
    more = decide(policy, Case("judged", Verdict.PASS, kind, level, environment, marked | {"marginal"})).decision
    assert order.index(more) >= order.index(passed)
