"""The run folder as evidence: what its files say of steps and host, read strictly by host and controller alike."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from gpuburn import events as told, evidence, strict
from gpuburn.attribution import address
from gpuburn.evidence import NVML_EVENTS
from gpuburn.identity import Boot, Event, HostRecord, Identity
from gpuburn.measurement import Work
from gpuburn.outcome import Outcome
from gpuburn.plan import HOST, Plan, Step, pairs
from gpuburn.probe import Probe, discover
from gpuburn.strict import MEBIBYTE, Refused
from gpuburn.telemetry import TELEMETRY

EVENTS = 16 * MEBIBYTE
NVML_LISTED, NVML_ALL, NVML_TEXT = 1000, 4000, 300  # events of one step and of a run; characters of one
NVML_CODES = (told.NVML_XID, told.NVML_DBE, told.NVML_ABSENT, told.NVML_LOST, told.NVML_MORE)
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
    them = [*names, *pairs(names)]
    own = evidence.declared(evidence.read(folder / "steps" / step.name, evidence.WORKERS), [probe], them)
    beside = evidence.declared(evidence.sampled(folder / "steps" / step.name), [sampler], names)
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
    return HostRecord(boots, identities, [*other, *nvml_events(folder)], kernel_log)


def nvml_events(folder: Path) -> list[Event]:
    """What NVML told during the steps, also those cut short. Files that are not usable are an event that says so."""
    found: list[Event] = []
    for path in sorted(path for place in ("steps", "interrupted") for path in folder.glob(f"{place}/*/{NVML_EVENTS}")):
        where = path.relative_to(folder).as_posix()
        try:
            found += _nvml_events(path, where)
        except Refused as error:
            found.append(Event(told.NVML_UNREADABLE, 0.0, "host", str(error)[:NVML_TEXT]))
    if len(found) > NVML_ALL:
        more = Event(told.NVML_UNREADABLE, 0.0, "host", f"{len(found)} events, at most {NVML_ALL} are taken")
        failing = sorted(found, key=lambda one: not told.failing(one))  # stable: these first, each in its order
        return [*failing[:NVML_ALL], more]
    return found


def step_events(folder: Path) -> list[Event]:
    """What NVML told in a step until now; nothing of a file that is not usable, which is told when the step ends."""
    try:
        return _nvml_events(folder / NVML_EVENTS, folder.name)
    except Refused:
        return []


def _nvml_events(path: Path, where: str) -> list[Event]:
    try:
        events = read_events(path, where)
    except Refused as error:
        # The message of a file that is no file names where it lies, which host and controller say differently.
        raise Refused(str(error).replace(str(path), where)) from None
    for one in events:
        strict.known(one.code, NVML_CODES, where)
        names = (HOST, *NVML_CODES) if one.code == told.NVML_MORE else (HOST,)
        if (one.about not in names and address(one.about) is None) or len(one.text) > NVML_TEXT:
            raise Refused(f"{where}: an event about {strict.short(one.about)}, or with too long a text")
    if len(events) > NVML_LISTED:
        raise Refused(f"{where}: {len(events)} events, at most {NVML_LISTED} are read")
    return events


def read_events(path: Path, where: str = "events.jsonl") -> list[Event]:
    """The events of a run; a last line that a crash cut short is left out."""
    if not path.exists():
        return []
    whole, _, _ = strict.load_file(path, EVENTS).rpartition(b"\n")
    return [
        strict.build(Event, strict.loads(text, f"{where}:{number}"), f"{where}:{number}")
        for number, text in enumerate(whole.splitlines(), 1)
    ]
