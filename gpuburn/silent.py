"""GPUs that told their sensors in one step and nothing in a later one, although the sampler looked. Pure.

Within a step the sampler counts such passes itself (telemetry.lost); it begins anew with every step, so that a GPU
that falls off the bus between two of them is known only by looking at both. A step in which NVML as a whole did not
answer says nothing of a single GPU (telemetry.silent).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from gpuburn.finding import Finding, Verdict, finding
from gpuburn.outcome import Outcome
from gpuburn.plan import Plan

SENSORS = "telemetry."
LOST, SAMPLES, SILENT = f"{SENSORS}lost", f"{SENSORS}samples", f"{SENSORS}silent"


def findings(plan: Plan, outcomes: Mapping[str, Outcome]) -> Iterator[Finding]:
    """At most one for each GPU, in the first step of its silence; one that was lost within a step is accused there."""
    last: dict[str, str] = {}  # the step in which a GPU last told its sensors; "" where it was accused
    for step in plan.steps:
        told = _told(outcomes.get(step.name))
        if told.get(SILENT, 0.0) >= told.get(SAMPLES, 0.0):
            continue  # nobody looked, or NVML answered at no look
        gpus = [one.name for one in plan.devices if one.gpu]
        answered = SILENT in told or any(name in told for name in gpus)  # evidence of before told nothing of NVML
        for device in gpus:
            if told.get(f"{LOST} {device}"):
                last[device] = ""
            elif device in told:
                last.setdefault(device, step.name)
                last[device] = last[device] and step.name
            elif last.get(device) and answered:
                why = f"told its sensors in step {last[device]}, and nothing in step {step.name}"
                yield finding("gpu.silent", LOST, Verdict.FAIL, why, "plan", step.profiles, step=step.name,
                              subject=device, evidence=f"steps/{step.name}")  # fmt: skip
                last[device] = ""


def _told(outcome: Outcome | None) -> dict[str, float]:
    """Who told any sensor in a step; how often each was lost, and how often the sampler looked in vain and at all."""
    found: dict[str, float] = {}
    for one in outcome.measurements if outcome else []:
        if one.name in (SAMPLES, SILENT):
            found[one.name] = one.value
        elif one.name == LOST:
            found[f"{LOST} {one.subject}"] = one.value
        if one.name.startswith(SENSORS):
            found[one.subject] = 1.0
    return found
