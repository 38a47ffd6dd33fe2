"""The run folder as evidence: what its files say of steps and host, read strictly by host and controller alike."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from gpuburn import evidence, strict
from gpuburn.identity import Boot, Event, HostRecord, Identity
from gpuburn.measurement import Work
from gpuburn.outcome import Outcome
from gpuburn.plan import Plan, Step
from gpuburn.probe import Probe, discover
from gpuburn.strict import MEBIBYTE, Refused
from gpuburn.telemetry import TELEMETRY

EVENTS = 16 * MEBIBYTE
BOOT, KERNEL_LOG_READ, KERNEL_LOG_LOST = "host.boot", "kernel_log.read", "kernel_log.unreadable"


def probes_of(step: Step) -> list[Probe]:
    """The declarations that a step's evidence may speak of."""
    return [discover()[step.probe], TELEMETRY]


def outcomes(folder: Path, plan: Plan) -> list[Outcome]:
    """The outcomes of the plan's steps that were written, in the plan's order."""
    found = []
    for step in plan.steps:
        path = folder / "steps" / step.name / "outcome.json"
        if path.exists():
            where = f"steps/{step.name}/outcome.json"
            one = strict.build(Outcome, strict.loads(strict.load_file(path), where), where)
            if one.step != step.name:
                raise Refused(f"{where}: is about step {strict.short(one.step)}")
            found.append(one)
    return found


def amounts(folder: Path, plan: Plan, step: Step, outcome: Outcome) -> Outcome:
    """The same outcome with measurements, facts and work made anew from the step's evidence files."""
    probe, sampler = probes_of(step)
    names = plan.device_names()
    own = evidence.declared(evidence.read(folder / "steps" / step.name, evidence.WORKERS), [probe], names)
    beside = evidence.declared(evidence.read(folder / "steps" / step.name, evidence.SAMPLER), [sampler], names)
    measurements, facts, work = evidence.amounts(own, [probe])
    sampled, told, _ = evidence.amounts(beside, [sampler])
    measurements, facts = [*measurements, *sampled], [*facts, *told]
    named = [
        dataclasses.replace(one, work=work.get(one.subject, Work(subject=one.work.subject)))
        for one in outcome.subjects
    ]  # fmt: skip
    return dataclasses.replace(outcome, measurements=measurements, facts=facts, subjects=named)


def record(folder: Path) -> HostRecord:
    """What the host went through: its looks at itself (identity.json) and its events (events.jsonl)."""
    identities: list[Identity] = []
    if (folder / "identity.json").exists():
        looks = strict.loads(strict.load_file(folder / "identity.json"), "identity.json")
        identities = strict.build(list[Identity], looks, "identity.json")
    events = read_events(folder / "events.jsonl")
    boots = [Boot(event.text, event.at) for event in events if event.code == BOOT]
    lost = [event.text for event in events if event.code == KERNEL_LOG_LOST]
    read = any(event.code == KERNEL_LOG_READ for event in events)
    kernel_log = lost[0] if lost else "read" if read else "not read"
    other = [event for event in events if event.code not in (BOOT, KERNEL_LOG_READ, KERNEL_LOG_LOST)]
    return HostRecord(boots, identities, other, kernel_log)


def read_events(path: Path) -> list[Event]:
    """The events of a run; a last line that a crash cut short is left out."""
    if not path.exists():
        return []
    whole, _, _ = strict.load_file(path, EVENTS).rpartition(b"\n")
    return [
        strict.build(Event, strict.loads(text, f"events.jsonl:{number}"), f"events.jsonl:{number}")
        for number, text in enumerate(whole.splitlines(), 1)
    ]
