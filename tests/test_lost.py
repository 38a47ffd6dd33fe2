"""A device that is gone is given no more work; one that only failed is tried again."""

from __future__ import annotations

import dataclasses

import pytest
import runs

from gpuburn import lost
from gpuburn.measurement import Reading
from gpuburn.outcome import Outcome, Status, SubjectOutcome
from gpuburn.plan import Plan
from gpuburn.telemetry import TELEMETRY

STEPS = ("idle", "gemm", "memory_bandwidth_hot", "train")


@pytest.fixture
def plan() -> Plan:
    return runs.plan(runs.hardware(count=2), steps=STEPS)


def gone(of: Plan, outcomes: dict[str, Outcome]) -> dict[str, str]:
    return lost.gone(of, [outcomes[step.name] for step in of.steps])


def without(of: Plan, *steps: str, who: tuple[str, ...] = ("gpu1",), silent: float = 0.0) -> dict[str, Outcome]:
    """All is well, but these tell no sensor in the steps. silent: how many of the looks NVML answered not at all."""
    taken = runs.answers(of)
    for step in steps:
        taken[step] = [
            one for one in taken[step]
            if not (isinstance(one, Reading) and one.metric in TELEMETRY.metrics and one.subject in who)
        ]  # fmt: skip
        taken[step] = [*(one for one in taken[step] if getattr(one, "metric", "") != "silent"),
                       Reading("silent", silent, subject="host")]  # fmt: skip
    return runs.outcomes(of, taken)


def failed(of: Plan, step: str, why: str) -> dict[str, Outcome]:
    outcomes = runs.outcomes(of)
    subjects = [SubjectOutcome("gpu0", Status.COMPLETED), SubjectOutcome("gpu1", Status.ERRORED, why)]
    outcomes[step] = dataclasses.replace(outcomes[step], status=Status.ERRORED, subjects=subjects)
    return outcomes


def test_while_all_tell_their_sensors_nobody_is_gone(plan):
    assert gone(plan, runs.outcomes(plan)) == {}


def test_a_gpu_that_cuda_does_not_show_is_gone(plan):
    said = failed(plan, "gemm", "Missing: gpu1 (0000:3b:00.0) is not among 1 devices")
    assert gone(plan, said) == {"gpu1": "not found by CUDA in step gemm"}


@pytest.mark.parametrize("why", ["RuntimeError: CUDA error", "ended with signal 11: no words", "Missing: gpu10 is not"])
def test_a_worker_that_failed_is_no_proof_that_its_gpu_is_gone(plan, why):
    assert gone(plan, failed(plan, "gemm", why)) == {}


def test_a_gpu_that_the_sampler_saw_go_is_gone(plan):
    taken = runs.answers(plan)
    taken["gemm"].append(Reading("lost", 3.0, subject="gpu1"))
    assert gone(plan, runs.outcomes(plan, taken)) == {"gpu1": "lost at 3 looks of the sampler in step gemm"}


def test_a_gpu_that_falls_silent_between_two_steps_is_gone(plan):
    said = without(plan, "memory_bandwidth_hot", "train")
    assert gone(plan, said) == {"gpu1": "silent at every look of the sampler in step memory_bandwidth_hot"}


def test_a_driver_that_does_not_answer_takes_no_gpu_away(plan):
    assert gone(plan, without(plan, "gemm", who=("gpu0", "gpu1"), silent=1e9)) == {}


def test_a_gpu_that_never_told_anything_is_tried(plan):
    assert gone(plan, without(plan, *STEPS)) == {}


def test_a_rehearsals_process_is_never_gone():
    plan = runs.plan(runs.request())
    outcomes = runs.outcomes(plan)
    assert lost.gone(plan, outcomes.values()) == {}
