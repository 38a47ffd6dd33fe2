"""A GPU that tells its sensors in one step and none in the next: one failure, of that GPU, in that step."""

from __future__ import annotations

import pytest
import runs

from gpuburn import silent
from gpuburn.finding import Verdict
from gpuburn.measurement import Reading
from gpuburn.outcome import Outcome
from gpuburn.plan import Plan
from gpuburn.telemetry import TELEMETRY

STEPS = ("idle", "gemm", "memory_bandwidth_hot", "train")


@pytest.fixture
def plan() -> Plan:
    return runs.plan(runs.hardware(count=2), steps=STEPS)


def said(of: Plan, *steps: str, lost_in: str = "", blind_in: str = "") -> dict[str, Outcome]:
    """All is well, but gpu1 tells no sensor in these steps. lost_in: the sampler itself saw it go. blind_in: the
    sampler saw nothing at all."""
    taken = runs.answers(of)
    for step in steps:
        taken[step] = [
            one for one in taken[step]
            if not (isinstance(one, Reading) and one.metric in TELEMETRY.metrics and one.subject == "gpu1")
        ]  # fmt: skip
    if lost_in:
        taken[lost_in].append(Reading("lost", 1.0, subject="gpu1"))
    if blind_in:
        taken[blind_in] = [one for one in taken[blind_in] if getattr(one, "metric", "") not in TELEMETRY.metrics]
    return runs.outcomes(of, taken)


def found(of: Plan, outcomes: dict[str, Outcome]) -> list[tuple[str, str, str]]:
    return [(f.code, f.step, f.subject) for f in silent.findings(of, outcomes)]


def test_gpus_that_tell_in_every_step_are_no_finding(plan: Plan) -> None:
    assert found(plan, said(plan)) == [] and runs.bad(runs.judged(plan, said(plan))) == []


def test_a_gpu_that_falls_off_the_bus_between_two_steps_fails_once(plan: Plan) -> None:
    outcomes = said(plan, "memory_bandwidth_hot", "train")
    assert found(plan, outcomes) == [("gpu.silent", "memory_bandwidth_hot", "gpu1")]
    [one] = [f for f in runs.judged(plan, outcomes) if f.verdict is Verdict.FAIL]
    assert (one.code, one.subject, one.severity) == ("gpu.silent", "gpu1", "critical")
    assert one.why == "told its sensors in step gemm, and nothing in step memory_bandwidth_hot"


def test_a_gpu_that_comes_back_was_silent_all_the_same(plan: Plan) -> None:
    assert found(plan, said(plan, "gemm")) == [("gpu.silent", "gemm", "gpu1")]


def test_a_gpu_that_never_told_anything_is_no_failure(plan: Plan) -> None:
    assert found(plan, said(plan, *STEPS)) == []


def test_one_that_was_lost_within_a_step_is_accused_there_alone(plan: Plan) -> None:
    assert found(plan, said(plan, "memory_bandwidth_hot", "train", lost_in="gemm")) == []


@pytest.mark.parametrize("step", ["gemm", "memory_bandwidth_hot"])
def test_where_the_sampler_saw_nothing_nobody_is_accused(plan: Plan, step: str) -> None:
    assert found(plan, said(plan, blind_in=step)) == []
    outcomes = said(plan, "train", blind_in=step)
    assert found(plan, outcomes) == [("gpu.silent", "train", "gpu1")]


@pytest.mark.parametrize(("passes", "accused"), [(3, []), (2, [("gpu.silent", "memory_bandwidth_hot", "gpu1")])])
def test_where_nvml_answered_at_no_look_nobody_is_accused(plan: Plan, passes: int, accused: list[object]) -> None:
    taken = runs.answers(plan)
    mine = [one for one in taken["memory_bandwidth_hot"]
            if not (getattr(one, "metric", "") in TELEMETRY.metrics and one.subject == "gpu1")]  # fmt: skip
    mine = [one for one in mine if getattr(one, "metric", "") not in ("samples", "silent")]
    counted = [Reading("samples", 3.0, subject="host"), Reading("silent", float(passes), subject="host")]
    taken["memory_bandwidth_hot"] = [*mine, *counted]
    assert found(plan, runs.outcomes(plan, taken)) == accused


def test_where_evidence_of_before_tells_nothing_of_nvml_a_gpu_is_accused_beside_one_that_told(plan: Plan) -> None:
    taken = runs.answers(plan)
    for name in taken:
        taken[name] = [one for one in taken[name] if getattr(one, "metric", "") != "silent"]
    whole = taken["gemm"]
    for silent_ones, accused in ((("gpu0", "gpu1"), []), (("gpu1",), [("gpu.silent", "gemm", "gpu1")])):
        taken["gemm"] = [one for one in whole if not (
            getattr(one, "metric", "") in TELEMETRY.metrics and one.subject in silent_ones)]  # fmt: skip
        assert found(plan, runs.outcomes(plan, taken)) == accused


def test_a_step_that_never_ran_accuses_nobody(plan: Plan) -> None:
    outcomes = said(plan)
    del outcomes["memory_bandwidth_hot"]
    assert found(plan, outcomes) == []
