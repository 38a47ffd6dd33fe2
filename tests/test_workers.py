"""The GPU that a step really computed on, beside what the plan, NVML and the other steps say of it."""

from __future__ import annotations

import dataclasses

import pytest
import runs

from gpuburn import evidence, workers
from gpuburn.finding import Verdict
from gpuburn.measurement import Fact
from gpuburn.outcome import Outcome
from gpuburn.plan import Plan
from gpuburn.probe import Probe, discover
from gpuburn.strict import Refused

GOOD, OTHER = "GPU-1111", "GPU-2222"


@pytest.fixture
def plan() -> Plan:
    return runs.plan(runs.hardware(count=2), steps=("identity", "gemm", "memory_bandwidth_hot"))


def said(of: Plan, **uuids: str) -> dict[str, Outcome]:
    """All is well, and gpu0 says these UUIDs: identity for NVML's, else the step's worker's."""
    taken = runs.answers(of)
    for step, uuid in uuids.items():
        if step == "identity":
            taken[step] = [
                dataclasses.replace(one, value=uuid)
                if isinstance(one, Fact) and one.name == "gpu_uuid" and one.subject == "gpu0"
                else one
                for one in taken[step]
            ]
        else:
            taken[step].append(Fact(evidence.WORKER_UUID, uuid, subject="gpu0"))
    return runs.outcomes(of, taken)


def found(of: Plan, outcomes: dict[str, Outcome]) -> list[tuple[str, str, str]]:
    return [(f.step, f.subject, f.why) for f in workers.findings(of, outcomes.values())]


def test_the_same_gpu_throughout_is_no_finding(plan: Plan) -> None:
    outcomes = said(plan, identity=GOOD, gemm=GOOD, memory_bandwidth_hot=GOOD)
    assert found(plan, outcomes) == [] and runs.bad(runs.judged(plan, outcomes)) == []


def test_a_step_on_another_gpu_than_nvml_shows_fails(plan: Plan) -> None:
    outcomes = said(plan, identity=GOOD, gemm=OTHER)
    [one] = [f for f in runs.judged(plan, outcomes) if f.verdict is Verdict.FAIL]
    assert (one.code, one.step, one.subject, one.severity) == ("identity.other_device", "gemm", "gpu0", "critical")
    assert one.why == f"computed on {OTHER}; NVML says {GOOD}"


def test_two_steps_on_two_gpus_fail_where_nvml_is_silent(plan: Plan) -> None:
    outcomes = said(plan, gemm=GOOD, memory_bandwidth_hot=OTHER)
    del outcomes["identity"]
    assert found(plan, outcomes) == [
        ("memory_bandwidth_hot", "gpu0", f"computed on {OTHER}; step gemm says {GOOD}"),
    ]  # fmt: skip


def test_another_gpu_than_the_plan_names_fails(plan: Plan) -> None:
    devices = [dataclasses.replace(plan.devices[0], uuid=GOOD), *plan.devices[1:]]
    outcomes = said(plan, gemm=OTHER)
    del outcomes["identity"]
    named = dataclasses.replace(plan, devices=devices)
    assert found(named, outcomes) == [("gemm", "gpu0", f"computed on {OTHER}; the plan says {GOOD}")]


def test_the_fact_is_evidence_of_every_step_and_no_promise(plan: Plan) -> None:
    one = Fact(evidence.WORKER_UUID, GOOD, subject="gpu0")
    assert evidence.declared([one], [discover()["gemm"]], ["gpu0"]) == [one]
    assert evidence.amounts([one], [discover()["gemm"]])[1] == [one]
    with pytest.raises(Refused, match="which the plan does not have"):
        evidence.declared([dataclasses.replace(one, subject="gpu9")], [discover()["gemm"]], ["gpu0"])


def test_no_probe_can_promise_a_name_with_a_dot() -> None:
    probes: list[Probe] = list(discover().values())
    assert not [name for one in probes for name in one.promises if "." in name]
