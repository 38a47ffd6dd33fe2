"""The judgement: a pure function of the plan and of what came back. No clock, no disk, no device.

The plan decides what must exist: every step, every limit, on every subject and at every point that it expects.
What came back only answers. Whatever is missing is incomplete, which is never a pass.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from gpuburn import events, health, identity, parts, plan as plans, silent, workers, xids
from gpuburn.attribution import Attribution
from gpuburn.comparison import Asked, compare
from gpuburn.finding import Finding, Verdict, finding
from gpuburn.identity import HostRecord
from gpuburn.outcome import Outcome, Status, SubjectOutcome
from gpuburn.plan import Plan, Step
from gpuburn.probe import Probe, discover

PASS, FAIL, INCOMPLETE, NOT_APPLICABLE = Verdict
MET = ("limit.met", "fact.met")  # what a pass rests on: a demand on a quantity, and an answer within it
BESIDE = ("identity.", "gpu_health.", "host_health.")
EVENTS = "events.jsonl"
HARDWARE_GUARDS = ("temperature",)


def judge(plan: Plan, outcomes: Iterable[Outcome], record: HostRecord) -> list[Finding]:
    """Every demand of the plan against what came back, in the plan's order."""
    probes = discover()
    by_step = {outcome.step: outcome for outcome in outcomes}
    findings = [*_host(plan, by_step.values(), record)]
    for step in plan.steps:
        outcome = by_step.get(step.name)
        findings += _step(plan, step, outcome, probes)
        for limit in plan.limits:
            if step.name in limit.when.steps:
                wanted = list(plans.demanded(plan, limit, step, probes))
                promised = plans.promise(limit, step, probes)
                told, other = plans.explained(step, probes), plans.reference(limit, step, probes)
                asked = Asked(
                    limit, step, promised, wanted, plan.decision_rule, plan.environment, told, other, unseen(plan)
                )
                findings += compare(asked, outcome)
    return [
        *findings, *health.growth(plan, by_step, probes), *health.changes(plan, by_step, probes),
        *workers.findings(plan, by_step.values()), *silent.findings(plan, by_step),
    ]  # fmt: skip


def blind(plan: Plan) -> str:
    """Why not everything of the host can be seen in this run; "" where it can."""
    if plan.privileges == "user" or plan.environment != "bare_metal":
        return f"not to be seen with {plan.privileges} privileges in environment {plan.environment}"
    return ""


def unseen(plan: Plan) -> str:
    """The same for the numbers of a step: a run that is no hardware's proves nothing of the host around it."""
    return blind(plan) or ("" if plan.kind == "hardware" else f"a run of kind {plan.kind} proves nothing of it")


def fold(findings: Iterable[Finding], profile: str) -> Verdict:
    """The verdict of a profile: its worst finding wins, and where nothing was demanded and met nothing passes."""
    mine = [f for f in findings if profile in f.profiles]
    for worst in (FAIL, INCOMPLETE):
        if any(f.verdict is worst for f in mine):
            return worst
    return PASS if any(proves(f) for f in mine) else INCOMPLETE


def proves(one: Finding) -> bool:
    """Whether a pass can rest on this: a demand on what a device did, met. To be there is no proof."""
    return one.verdict is PASS and one.code in MET and not one.about.startswith(BESIDE)


def verdicts(plan: Plan, findings: list[Finding]) -> dict[str, Verdict]:
    return {profile: fold(findings, profile) for profile in plan.profiles}


def _host(plan: Plan, outcomes: Iterable[Outcome], record: HostRecord) -> Iterable[Finding]:
    yield replace(_boots(plan, record), evidence=EVENTS)
    yield from (replace(one, evidence="identity.json") for one in _identity(plan, record))
    yield from (replace(one, evidence="identity.json") for one in _fixed(plan, record))
    yield from (replace(one, evidence="identity.json") for one in _parts(plan, record))
    yield replace(_kernel_log(plan, record), evidence=EVENTS)
    outcomes = list(outcomes)
    where, told = Attribution(plan, outcomes), events.distinct(record.events)
    yield from xids.findings(told, where, outcomes, plan.profiles, EVENTS)
    yield from events.findings(told, where, plan.profiles, EVENTS)


def _boots(plan: Plan, record: HostRecord) -> Finding:
    count = len({boot.boot_id for boot in record.boots})
    if count == 0:
        return finding("host.boot_unknown", "host", INCOMPLETE, "no boot was recorded", "plan", plan.profiles)
    if count > 1:
        why = f"the host booted {count - 1} time(s) during the run; no reboot was planned"
        return finding("host.rebooted", "host", FAIL, why, "event", plan.profiles)
    return finding("host.one_boot", "host", PASS, "one boot over the whole run", "plan", plan.profiles)


def _identity(plan: Plan, record: HostRecord) -> Iterable[Finding]:
    for name in (*identity.REQUIRED, *identity.NEEDS_ROOT):
        seen = [look.value(name) for look in record.identities]
        about = f"identity.{name}"
        if seen and all(seen) and len(set(seen)) == 1:
            yield finding("identity.known", about, PASS, seen[0], "plan", plan.profiles)
        elif len(set(seen) - {""}) > 1:
            why = f"changed during the run: {', '.join(sorted(set(seen)))}"
            yield finding("identity.changed", about, FAIL, why, "plan", plan.profiles)
        elif blind(plan) and name in identity.NEEDS_ROOT:
            yield finding("not_observable", about, NOT_APPLICABLE, blind(plan), "plan", plan.profiles)
        else:
            reasons = {look.missing.get(name, "absent") for look in record.identities} or {"no identity was taken"}
            yield finding("identity.missing", about, INCOMPLETE, "; ".join(sorted(reasons)), "plan", plan.profiles)


def _fixed(plan: Plan, record: HostRecord) -> Iterable[Finding]:
    """One finding for each value that may be absent and may not change, and did. Firmware too: it is no part."""
    for name in identity.FIXED:
        seen = {value for look in record.identities if (value := look.value(name))}
        if len(seen) > 1:
            why = f"changed during the run: {', '.join(sorted(seen))}"
            yield finding("identity.changed", f"identity.{name}", FAIL, why, "plan", plan.profiles)
    for change in parts.firmware(record.identities):
        why = f"changed during the run: {change.why}"
        yield finding("identity.changed", f"identity.{change.kind}.firmware", FAIL, why, "plan", plan.profiles)


def _parts(plan: Plan, record: HostRecord) -> Iterable[Finding]:
    """One finding for each part that was lost, came new, was replaced or moved from one look to the next."""
    for change in parts.changes(record.identities):
        about = f"identity.{change.kind}"
        yield finding("identity.changed", about, FAIL, f"changed during the run: {change.why}", "plan", plan.profiles)


def _kernel_log(plan: Plan, record: HostRecord) -> Finding:
    overrun = next((event.text for event in record.events if event.code == "kernel_log.overrun"), "")
    if overrun:
        return finding("kernel_log.unreadable", "host", INCOMPLETE, overrun, "event", plan.profiles)
    if record.kernel_log == "read":
        return finding("kernel_log.read", "host", PASS, "followed over the whole run", "event", plan.profiles)
    if plan.privileges == "user" or plan.environment == "container":
        return finding("not_observable", "kernel_log", NOT_APPLICABLE, record.kernel_log, "event", plan.profiles)
    return finding("kernel_log.unreadable", "host", INCOMPLETE, record.kernel_log, "event", plan.profiles)


def _step(plan: Plan, step: Step, outcome: Outcome | None, probes: dict[str, Probe]) -> Iterable[Finding]:
    if outcome is None:
        yield finding("step.never_ran", step.name, INCOMPLETE, "never ran", "plan", step.profiles, step=step.name)
        return
    for trip in outcome.trips:
        verdict = FAIL if trip.guard in HARDWARE_GUARDS else INCOMPLETE  # a full disk is no broken GPU
        yield finding("guard.tripped", trip.guard, verdict, trip.why, "guard", step.profiles, step=step.name,
                      subject=trip.subject)  # fmt: skip
    if outcome.revision != step.revision or outcome.probe != step.probe:
        why = f"ran {outcome.probe} revision {outcome.revision}, planned was {step.probe} revision {step.revision}"
        yield finding("step.other_revision", step.name, INCOMPLETE, why, "plan", step.profiles, step=step.name)
    if outcome.params != step.params:
        why = "ran with other parameters than planned"
        yield finding("step.other_parameters", step.name, INCOMPLETE, why, "plan", step.profiles, step=step.name)
    if outcome.status is not Status.COMPLETED:
        yield finding(f"step.{outcome.status}", step.name, INCOMPLETE, outcome.why or str(outcome.status), "plan",
                      step.profiles, step=step.name, evidence=f"steps/{step.name}/outcome.json")  # fmt: skip
    by_subject = {one.subject: one for one in outcome.subjects}
    for subject in plans.subjects(plan, step):
        yield _worked(step, subject, by_subject.get(subject), probes[step.probe])


def _worked(step: Step, subject: str, one: SubjectOutcome | None, probe: Probe) -> Finding:
    where: dict[str, Any] = {"step": step.name, "subject": subject, "evidence": f"steps/{step.name}/outcome.json"}
    if one is None:
        return finding("step.silent", step.name, INCOMPLETE, "said nothing", "plan", step.profiles, **where)
    if one.status is not Status.COMPLETED:
        why = one.why or str(one.status)
        return finding(f"step.{one.status}", step.name, INCOMPLETE, why, "plan", step.profiles, **where)
    idle = [name for name in probe.work if not getattr(one.work, name) > 0]
    if idle:
        why = f"completed without proof of work: no {', '.join(idle)}"
        return finding("step.no_work", step.name, INCOMPLETE, why, "plan", step.profiles, **where)
    done = ", ".join(f"{getattr(one.work, name):,} {name}" for name in probe.work) or "ran"
    return finding("step.worked", step.name, PASS, done, "plan", step.profiles, **where)
