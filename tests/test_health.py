"""Counters before and after the work, for any probe that is planned twice: one grows in a test, one finding is told."""

from __future__ import annotations

import dataclasses

import pytest
import runs

from gpuburn import health
from gpuburn.finding import Finding, Verdict
from gpuburn.measurement import UNTOLD, Fact, Point, Reading
from gpuburn.outcome import Outcome
from gpuburn.plan import Plan
from gpuburn.probe import discover

PROBE = discover()["host_health"]
COUNTERS = {name: metric.counter for name, metric in PROBE.metrics.items() if metric.counter}


def points(metric: str) -> list[Point]:
    return PROBE.points(PROBE.metrics[metric], PROBE.settled({}, "host_health"))


@pytest.fixture
def plan() -> Plan:
    return runs.plan(runs.hardware(count=2), steps=("host_health", "gemm", "host_health_after"))


def said(of: Plan, step: str, metric: str, value: float | None) -> dict[str, Outcome]:
    """All is well, but this one number in this step is another, at its first point; None takes it away at every one."""
    taken, at = runs.answers(of), points(metric)[: None if value is None else 1]
    rest = [one for one in taken[step] if getattr(one, "metric", "") != metric or getattr(one, "point", "") not in at]
    taken[step] = rest if value is None else [*rest, Reading(metric, value, at[0], "host", runs.ISSUED)]
    return runs.outcomes(of, taken)


def standing_in(of: Plan, step: str, metric: str, fact: str, value: str) -> dict[str, Outcome]:
    """This number is absent, and the fact that stands in for it says this."""
    taken = runs.answers(of)
    taken[step] = [
        dataclasses.replace(one, value=value) if isinstance(one, Fact) and one.name == fact else one
        for one in taken[step]
        if getattr(one, "metric", "") != metric
    ]
    return runs.outcomes(of, taken)


def told(of: Plan, outcomes: dict[str, Outcome]) -> list[Finding]:
    return list(health.growth(of, outcomes, discover()))


def test_where_nothing_grew_every_counter_says_so_and_the_host_passes(plan: Plan) -> None:
    found = told(plan, runs.outcomes(plan))
    assert sorted(f.about for f in found) == sorted(f"host_health.{name}" for name in COUNTERS for _ in points(name))
    assert {(f.code, f.verdict, f.step) for f in found} == {("health.steady", Verdict.PASS, "host_health_after")}
    assert runs.bad(runs.judged(plan)) == [] and runs.verdict(plan) is Verdict.PASS


@pytest.mark.parametrize("name", [name for name, kind in COUNTERS.items() if kind == "errors"])
def test_an_error_under_load_fails_and_is_told_with_both_numbers(plan: Plan, name: str) -> None:
    first = next(m.value for m in runs.outcomes(plan)["host_health"].measurements if m.name == f"host_health.{name}")
    outcomes = said(plan, "host_health_after", name, first + 3)
    [one] = [f for f in runs.judged(plan, outcomes) if f.code == "health.grew"]
    assert (one.about, one.verdict, one.step) == (f"host_health.{name}", Verdict.FAIL, "host_health_after")
    wanted = f"3 count more under load: {first:g} in step host_health, {first + 3:g} in step host_health_after"
    assert one.why == wanted and one.severity == "critical" and one.action
    assert runs.verdict(plan, outcomes) is Verdict.FAIL


@pytest.mark.parametrize("name", [name for name, kind in COUNTERS.items() if kind == "corrected"])
def test_corrected_errors_under_load_are_a_marginal_pass(plan: Plan, name: str) -> None:
    outcomes = said(plan, "host_health_after", name, 99.0)
    [one] = [f for f in told(plan, outcomes) if f.code != "health.steady"]
    assert (one.code, one.about, one.verdict, one.marginal) == (
        "health.corrected", f"host_health.{name}", Verdict.PASS, True,
    )  # fmt: skip
    assert runs.bad(runs.judged(plan, outcomes)) == []


def test_a_counter_that_went_back_proves_nothing(plan: Plan) -> None:
    outcomes = said(plan, "host_health", "aer_correctable", 50.0)
    [one] = [f for f in told(plan, outcomes) if f.code != "health.steady"]
    assert (one.code, one.verdict) == ("health.restarted", Verdict.INCOMPLETE)
    assert runs.verdict(plan, outcomes) is Verdict.INCOMPLETE


@pytest.mark.parametrize("step", ["host_health", "host_health_after"])
def test_a_counter_that_one_look_lacks_is_missed_by_its_limit(plan: Plan, step: str) -> None:
    outcomes = said(plan, step, "aer_fatal", None)
    assert "host_health.aer_fatal" not in [f.about for f in told(plan, outcomes)]
    assert runs.bad(runs.judged(plan, outcomes)) == [("limit.unmeasured", step, "host", "incomplete")]


def test_a_step_of_a_pair_that_never_ran_is_missed(plan: Plan) -> None:
    outcomes = runs.outcomes(plan)
    del outcomes["host_health_after"]
    assert told(plan, outcomes) == []
    assert ("step.never_ran", "host_health_after", "host", "incomplete") in runs.bad(runs.judged(plan, outcomes))


def test_a_gauge_may_change(plan: Plan) -> None:
    assert not [f for f in told(plan, said(plan, "host_health_after", "nic_up", 9.0)) if f.code != "health.steady"]


GPU_FACTS = [name for name, fact in discover()["gpu_health"].facts.items() if fact.fixed]


def swapped(name: str, value: str) -> list[tuple[str, str, str, str]]:
    """(code, quantity, step, subject) of all that is bad where the second look at gpu1 tells this."""
    of = runs.plan(runs.hardware(count=2), steps=("gpu_health", "gemm", "gpu_health_after"))
    whose = discover()["gpu_health"].facts[name].per == "host"
    taken = runs.answers(of)
    taken["gpu_health_after"] = [
        dataclasses.replace(one, value=value)
        if isinstance(one, Fact) and one.name == name and one.subject == ("host" if whose else "gpu1") else one
        for one in taken["gpu_health_after"]
    ]  # fmt: skip
    found = runs.judged(of, runs.outcomes(of, taken))
    return [(f.code, f.about, f.step, f.subject) for f in found if f.verdict in (Verdict.FAIL, Verdict.INCOMPLETE)]


@pytest.mark.parametrize("name", GPU_FACTS)
def test_a_gpu_that_is_another_one_after_the_work_fails(name: str) -> None:
    subject = "host" if name == "cuda_driver" else "gpu1"
    assert swapped(name, "another") == [("identity.changed", f"gpu_health.{name}", "gpu_health_after", subject)]
    assert swapped(name, "none: GPU is lost")[0][0] == "identity.missing", "no longer told is not known to be the same"
    assert swapped(name, "the same") == []
    assert {"uuid", "serial", "vbios", "part"} <= set(GPU_FACTS)


def test_any_probe_that_is_planned_twice_is_compared(plan: Plan) -> None:
    """Whatever it is called: the pair is told by the steps' names, the counters by the probe's declaration."""
    names = {"host_health": "ports", "host_health_after": "ports_after"}
    steps = [dataclasses.replace(step, name=names.get(step.name, step.name)) for step in plan.steps]
    renamed = {names.get(name, name): one for name, one in said(plan, "host_health_after", "aer_fatal", 7.0).items()}
    found = told(dataclasses.replace(plan, steps=steps), renamed)
    assert [f.step for f in found if f.code == "health.grew"] == ["ports_after"]


def test_two_steps_of_different_probes_are_no_pair(plan: Plan) -> None:
    steps = [dataclasses.replace(one, probe="idle") if one.name == "host_health" else one for one in plan.steps]
    assert list(health.pairs(dataclasses.replace(plan, steps=steps))) == []


def test_what_the_host_does_not_have_is_not_demanded_and_is_listed(plan: Plan) -> None:
    outcomes = standing_in(plan, "host_health", "ib_down", "infiniband", "none: no InfiniBand port")
    [one] = [f for f in runs.judged(plan, outcomes) if f.code == "limit.no_part"]
    assert (one.about, one.verdict) == ("host_health.ib_down", Verdict.NOT_APPLICABLE)
    assert "no InfiniBand port" in one.why


def test_what_could_not_be_asked_on_bare_metal_is_incomplete_with_its_reason(plan: Plan) -> None:
    outcomes = standing_in(plan, "host_health", "disk_warnings", "smart_warns", "unknown: smartctl is not installed")
    found = [f for f in runs.judged(plan, outcomes) if f.verdict is Verdict.INCOMPLETE]
    assert [f.point for f in found] == points("disk_warnings")
    assert {(f.code, f.about) for f in found} == {("limit.unmeasured", "host_health.disk_warnings")}
    assert all("smartctl is not installed" in f.why for f in found)


def test_a_host_without_data_disks_owes_no_number_of_them_and_still_owes_the_system_disks(plan: Plan) -> None:
    outcomes = standing_in(plan, "host_health", "disk_warnings", "smart_warns", "none: no data disk that shows")
    one = outcomes["host_health"]
    system = [f for f in one.facts if (f.name, str(f.point)) == ("host_health.smart_warns", "role=system")]
    facts = [f for f in one.facts if f not in system]
    outcomes["host_health"] = dataclasses.replace(one, facts=[*facts, dataclasses.replace(system[0], value="1 disks")])
    found = {str(f.point): f.code for f in runs.judged(plan, outcomes) if f.about == "host_health.disk_warnings"
             and f.step == "host_health"}  # fmt: skip
    assert found == {"role=data": "limit.no_part", "role=system": "limit.unmeasured"}


@pytest.mark.parametrize("changed", [{"environment": "vm"}, {"environment": "container"}, {"privileges": "user"}])
def test_what_a_guest_or_a_user_cannot_ask_is_not_observable(changed: dict[str, str]) -> None:
    plan = runs.plan(runs.hardware(count=2, **changed), steps=("host_health", "gemm", "host_health_after"))
    outcomes = standing_in(plan, "host_health", "disk_warnings", "smart_warns", "unknown: needs root")
    found = [f for f in runs.judged(plan, outcomes) if f.code == "not_observable" and f.step]
    assert [f.point for f in found] == points("disk_warnings")
    assert {(f.about, f.verdict) for f in found} == {("host_health.disk_warnings", Verdict.NOT_APPLICABLE)}
    assert runs.verdict(plan, outcomes) is Verdict.PASS


def test_a_guest_that_is_silent_without_a_reason_is_incomplete_all_the_same() -> None:
    plan = runs.plan(runs.hardware(count=2, environment="vm"), steps=("host_health", "gemm", "host_health_after"))
    outcomes = said(plan, "host_health", "disk_warnings", None)
    assert runs.bad(runs.judged(plan, outcomes)) == [("limit.unmeasured", "host_health", "host", "incomplete")] * 2


@pytest.mark.parametrize(
    ("metric", "unless"), [(name, one.unless) for name, one in PROBE.metrics.items() if one.unless]
)
def test_a_number_and_its_stand_in_are_told_apart_by_the_facts_first_word(metric: str, unless: str) -> None:
    assert unless in PROBE.facts and unless not in PROBE.metrics
    assert UNTOLD == ("unknown: ", "none: ")


@pytest.mark.parametrize("metric", [
    "aer_nonfatal", "aer_fatal", "memory_uncorrected", "disk_warnings", "disk_media_errors", "driver_differs",
    "fabric_differs",
])  # fmt: skip
@pytest.mark.parametrize("step", ["host_health", "host_health_after"])
def test_each_look_has_its_absolute_limits(plan: Plan, step: str, metric: str) -> None:
    found = [f for f in runs.judged(plan, said(plan, step, metric, 1.0)) if f.code == "limit.failed"]
    assert [(f.about, f.step) for f in found] == [(f"host_health.{metric}", step)]


def test_a_clock_that_nobody_keeps_is_a_marginal_pass(plan: Plan) -> None:
    found = [
        f
        for f in runs.judged(plan, said(plan, "host_health", "clock_unsynchronised", 1.0))
        if f.code == "limit.outside"
    ]
    assert [(f.about, f.marginal, f.verdict) for f in found] == [
        ("host_health.clock_unsynchronised", True, Verdict.PASS)
    ]
