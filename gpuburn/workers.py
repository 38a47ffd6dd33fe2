"""Which GPU a worker really computed on, by CUDA's own word, beside what the plan and NVML say of that device. Pure.

The worker writes it into its evidence before anything else (agent/worker.py). A CPU has nothing to tell.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from gpuburn.evidence import WORKER_UUID as UUID
from gpuburn.finding import Finding, Verdict, finding
from gpuburn.outcome import Outcome
from gpuburn.plan import Plan

NVML = "identity.gpu_uuid"


def findings(plan: Plan, outcomes: Iterable[Outcome]) -> Iterator[Finding]:
    """One finding for each device and step that computed on another GPU than the plan, NVML or an earlier step say."""
    held = list(outcomes)
    said = {device.name: {device.uuid: "the plan"} if device.uuid else {} for device in plan.devices}
    for outcome in held:
        for fact in outcome.facts:
            if fact.name == NVML and fact.subject in said:
                said[fact.subject].setdefault(fact.value, "NVML")
    for outcome in held:
        for fact in outcome.facts:
            if fact.name == UUID and fact.subject in said:
                others = {uuid: who for uuid, who in said[fact.subject].items() if uuid != fact.value}
                if others:
                    yield _other(plan, outcome, fact.subject, fact.value, others)
                said[fact.subject].setdefault(fact.value, f"step {outcome.step}")


def _other(plan: Plan, outcome: Outcome, subject: str, uuid: str, others: dict[str, str]) -> Finding:
    step = plan.step(outcome.step)
    beside = ", ".join(f"{who} says {other}" for other, who in sorted(others.items()))
    return finding(
        "identity.other_device", UUID, Verdict.FAIL, f"computed on {uuid}; {beside}", "plan",
        step.profiles if step else plan.profiles, step=outcome.step, subject=subject, evidence=f"steps/{outcome.step}",
    )  # fmt: skip
