"""Devices that are gone: later steps run on those that are left, and what was promised of a lost one stays open. Pure.

Gone is a GPU that CUDA no longer shows to a worker, or that NVML stopped to tell of while it told of others. A worker
that crashed, hung or was wrong is no such proof: its device is tried again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from gpuburn.outcome import Outcome, Status, SubjectOutcome
from gpuburn.plan import Plan
from gpuburn.silent import LOST, SAMPLES, SENSORS, SILENT

MISSING = "Missing: "  # how a worker's failure begins whose device is not there (agent/device.py)


def gone(plan: Plan, outcomes: Iterable[Outcome]) -> dict[str, str]:
    """Each planned GPU that is gone, with how that was seen. outcomes: of the steps until now, in their order."""
    gpus = [one.name for one in plan.devices if one.gpu]
    told: set[str] = set()
    found: dict[str, str] = {}
    for outcome in outcomes:
        for name in gpus:
            if why := _missed(outcome, name) or _lost(outcome, name, told):
                found.setdefault(name, f"{why} in step {outcome.step}")
        told |= {m.subject for m in outcome.measurements if m.name.startswith(SENSORS)}
    return found


def _missed(outcome: Outcome, name: str) -> str:
    """That CUDA did not show the device to its worker."""
    said = next((one.why for one in outcome.subjects if one.subject == name), "")
    return "not found by CUDA" if f"{MISSING}{name} " in said else ""


def _lost(outcome: Outcome, name: str, told: set[str]) -> str:
    """That NVML, which answered as a whole, told nothing of the device any more."""
    numbers = {(m.name, m.subject): m.value for m in outcome.measurements if m.name.startswith(SENSORS)}
    host = {metric: value for (metric, _), value in numbers.items() if metric in (SAMPLES, SILENT)}
    if host.get(SILENT, 0.0) >= host.get(SAMPLES, 0.0):
        return ""
    if numbers.get((LOST, name)):
        return f"lost at {numbers[LOST, name]:g} looks of the sampler"
    silent = name in told and SILENT in host and not any(subject == name for _, subject in numbers)
    return "silent at every look of the sampler" if silent else ""


def given_none(gone: Mapping[str, str]) -> list[SubjectOutcome]:
    """How devices fared that were given no work."""
    return [SubjectOutcome(name, Status.ERRORED, f"given no work: {why}") for name, why in gone.items()]
