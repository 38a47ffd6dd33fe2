"""The judgement: a pure function of the plan and of what came back. No clock, no disk, no device.

The plan decides what must exist: every step, every limit, on every subject and at every point that it expects.
What came back only answers. Whatever is missing is incomplete, which is never a pass.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable
from dataclasses import dataclass, replace

from gpuburn import identity, plan as plans
from gpuburn.agreement import disagreeing
from gpuburn.identity import HostRecord
from gpuburn.limit import Limit
from gpuburn.measurement import NOWHERE, Measurement, Observed, Point
from gpuburn.outcome import Outcome, Status, SubjectOutcome
from gpuburn.plan import HOST, Plan, Step
from gpuburn.probe import Probe, discover


class Verdict(str, enum.Enum):
    """What a finding says; a profile's verdict is the worst of pass, fail and incomplete."""

    PASS = "pass"
    FAIL = "fail"
    INCOMPLETE = "incomplete"
    NOT_APPLICABLE = "not_applicable"

    def __str__(self) -> str:
        return str(self.value)


PASS, FAIL, INCOMPLETE, NOT_APPLICABLE = Verdict
MET = ("limit.met", "fact.met")  # what a pass rests on: a demand on a quantity, and an answer within it
SEVERITY = {FAIL: "major", INCOMPLETE: "minor"}
EVENTS = "events.jsonl"
HARDWARE_GUARDS = ("temperature",)
RETEST = "repeat the run; if it repeats, return the part with this evidence"
ALONE = {
    "alone": "the plan has no other that could agree",
    "cohort": "one host cannot tell what the cohort says, and this version does not compare hosts",
}
ACTIONS = {
    "limit.failed": RETEST,
    "fact.failed": RETEST,
    "guard.tripped": "check cooling, power and disk of the host, then repeat the run",
    "step.unkillable": "power-cycle the host; a process that cannot be killed hangs in the driver",
    "host.rebooted": "look at the BMC's log; a host that reboots under load is returned",
    "kernel.xid": "look the Xid up in NVIDIA's catalogue; under our own load it is a reason to ask the vendor",
}


@dataclass(frozen=True, slots=True)
class Finding:
    """One demand against what was seen.

    code: what was demanded and how it ended, stable for machines. about: probe.metric, step or host.
    profiles: whose verdicts it enters. evidence: the file in the run folder that shows it.
    """

    code: str
    about: str
    verdict: Verdict
    why: str
    source: str
    profiles: tuple[str, ...]
    step: str = ""
    subject: str = HOST
    point: Point = NOWHERE
    marginal: bool = False
    severity: str = ""
    action: str = ""
    evidence: str = ""


def judge(plan: Plan, outcomes: Iterable[Outcome], record: HostRecord) -> list[Finding]:
    """Every demand of the plan against what came back, in the plan's order."""
    probes = discover()
    by_step = {outcome.step: outcome for outcome in outcomes}
    findings = [*_host(plan, record)]
    for step in plan.steps:
        outcome = by_step.get(step.name)
        findings += _step(plan, step, outcome, probes)
        for limit in plan.limits:
            if step.name in limit.when.steps:
                findings += _limit(plan, limit, step, outcome, probes)
    return findings


def fold(findings: Iterable[Finding], profile: str) -> Verdict:
    """The verdict of a profile: its worst finding wins, and where nothing was demanded and met nothing passes."""
    mine = [f for f in findings if profile in f.profiles]
    for worst in (FAIL, INCOMPLETE):
        if any(f.verdict is worst for f in mine):
            return worst
    return PASS if any(f.verdict is PASS and f.code in MET for f in mine) else INCOMPLETE


def verdicts(plan: Plan, findings: list[Finding]) -> dict[str, Verdict]:
    return {profile: fold(findings, profile) for profile in plan.profiles}


def finding(code: str, about: str, verdict: Verdict, why: str, source: str, profiles: tuple[str, ...], **more: object
            ) -> Finding:  # fmt: skip
    """A finding with the severity and the suggested action that its code and verdict bring."""
    action = "" if verdict in (PASS, NOT_APPLICABLE) else ACTIONS.get(code, "repeat the run")
    return Finding(
        code, about, verdict, why, source, profiles, severity=SEVERITY.get(verdict, ""), action=action,
        **more,  # type: ignore[arg-type]
    )  # fmt: skip


def _host(plan: Plan, record: HostRecord) -> Iterable[Finding]:
    yield replace(_boots(plan, record), evidence=EVENTS)
    yield from (replace(one, evidence="identity.json") for one in _identity(plan, record))
    yield replace(_kernel_log(plan, record), evidence=EVENTS)
    for event in record.events:
        if event.code == "kernel.xid":
            why = f"{event.about}: {event.text}; this version does not class Xids, so it is never a pass"
            yield finding("kernel.xid", "host", INCOMPLETE, why, "event", plan.profiles, evidence=EVENTS)


def _boots(plan: Plan, record: HostRecord) -> Finding:
    count = len({boot.boot_id for boot in record.boots})
    if count == 0:
        return finding("host.boot_unknown", "host", INCOMPLETE, "no boot was recorded", "plan", plan.profiles)
    if count > 1:
        why = f"the host booted {count - 1} time(s) during the run; no reboot was planned"
        return finding("host.rebooted", "host", FAIL, why, "event", plan.profiles)
    return finding("host.one_boot", "host", PASS, "one boot over the whole run", "plan", plan.profiles)


def _identity(plan: Plan, record: HostRecord) -> Iterable[Finding]:
    blind = plan.privileges == "user" or plan.environment != "bare_metal"
    for name in (*identity.REQUIRED, *identity.NEEDS_ROOT):
        seen = [look.value(name) for look in record.identities]
        about = f"identity.{name}"
        if seen and all(seen) and len(set(seen)) == 1:
            yield finding("identity.known", about, PASS, seen[0], "plan", plan.profiles)
        elif len(set(seen) - {""}) > 1:
            why = f"changed during the run: {', '.join(sorted(set(seen)))}"
            yield finding("identity.changed", about, FAIL, why, "plan", plan.profiles)
        elif blind and name in identity.NEEDS_ROOT:
            why = f"not to be seen with {plan.privileges} privileges in environment {plan.environment}"
            yield finding("not_observable", about, NOT_APPLICABLE, why, "plan", plan.profiles)
        else:
            reasons = {look.missing.get(name, "absent") for look in record.identities} or {"no identity was taken"}
            yield finding("identity.missing", about, INCOMPLETE, "; ".join(sorted(reasons)), "plan", plan.profiles)


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
    where = {"step": step.name, "subject": subject, "evidence": f"steps/{step.name}/outcome.json"}
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


def _limit(
    plan: Plan, limit: Limit, step: Step, outcome: Outcome | None, probes: dict[str, Probe]
) -> Iterable[Finding]:
    wanted = list(plans.demanded(plan, limit, step, probes))
    if isinstance(plans.promise(limit, step, probes), Observed):
        yield from _facts(limit, step, outcome, wanted)
        return
    seen = {(m.name, m.subject, m.point): m for m in (outcome.measurements if outcome else [])}
    for subject, point in wanted:
        yield _number(limit, step, subject, point, seen.get((limit.about, subject, point)))


def _number(limit: Limit, step: Step, subject: str, point: Point, m: Measurement | None) -> Finding:
    where = {"step": step.name, "subject": subject, "point": point, "evidence": f"steps/{step.name}"}
    profiles = limit.when.profiles
    if m is None or m.count < 1:
        return finding("limit.unmeasured", limit.about, INCOMPLETE, f"not measured; needs {limit}", "limit", profiles,
                       **where)  # fmt: skip
    seen = f"{m.value:.6g} {m.unit}"
    if limit.informational:
        why = f"{seen}; no limit: {limit.informational}"
        code = "uncalibrated" if limit.uncalibrated else "informational"
        return finding(code, limit.about, NOT_APPLICABLE, why, "limit", profiles, **where)
    if m.unit != limit.unit:
        why = f"measured in {m.unit!r}, limited in {limit.unit!r}"
        return finding("limit.other_unit", limit.about, INCOMPLETE, why, "limit", profiles, **where)
    if limit.admits(m.value):
        return finding("limit.met", limit.about, PASS, f"{seen}; needs {limit}", "limit", profiles,
                       marginal=limit.marginal(m.value), **where)  # fmt: skip
    if limit.can_reject:
        return finding("limit.failed", limit.about, FAIL, f"{seen}; needs {limit}", "limit", profiles, **where)
    why = f"{seen}; outside {limit}, a number of {limit.confidence} confidence, which may not reject"
    return finding("limit.outside", limit.about, PASS, why, "limit", profiles, marginal=True, **where)


def _facts(limit: Limit, step: Step, outcome: Outcome | None, wanted: list[tuple[str, Point]]) -> Iterable[Finding]:
    said: dict[tuple[str, Point], set[str]] = {key: set() for key in wanted}
    for fact in outcome.facts if outcome else []:
        if fact.name == limit.about and (fact.subject, fact.point) in said:
            said[fact.subject, fact.point].add(fact.value)
    for point in dict.fromkeys(point for _, point in wanted):
        here = {subject: values for (subject, at), values in said.items() if at == point}
        odd = disagreeing({s: next(iter(v)) for s, v in here.items() if len(v) == 1}) if limit.agree else {}
        among = "cohort" if limit.agree == "cohort" else "alone" if limit.agree and len(here) == 1 else ""
        for subject, values in here.items():
            yield _fact(limit, step, subject, point, sorted(values), odd.get(subject, among))


def _fact(limit: Limit, step: Step, subject: str, point: Point, values: list[str], odd: str) -> Finding:
    where = {"step": step.name, "subject": subject, "point": point, "evidence": f"steps/{step.name}"}
    profiles = limit.when.profiles
    if not values:
        return finding("fact.unobserved", limit.about, INCOMPLETE, f"not observed; needs {limit}", "limit", profiles,
                       **where)  # fmt: skip
    if limit.informational:
        why = f"{values[0][:120]}; no limit: {limit.informational}"
        return finding("informational", limit.about, NOT_APPLICABLE, why, "limit", profiles, **where)
    if len(values) > 1:
        why = f"said {len(values)} different things in one step: {', '.join(v[:40] for v in values[:3])}"
        return finding("fact.failed", limit.about, FAIL, why, "limit", profiles, **where)
    if odd == "minority":
        why = f"{values[0][:60]} differs from what most others say"
        return finding("fact.failed", limit.about, FAIL, why, "limit", profiles, **where)
    if odd == "undecided":
        why = f"{values[0][:60]} differs from another, and nothing tells which is right"
        return finding("fact.disagrees", limit.about, INCOMPLETE, why, "limit", profiles, **where)
    if odd in ALONE:
        why = f"{values[0][:120]}; {ALONE[odd]}"
        return finding(f"fact.{odd}", limit.about, NOT_APPLICABLE, why, "limit", profiles, **where)
    if limit.equals is not None and values[0] != limit.equals:
        return finding("fact.failed", limit.about, FAIL, f"{values[0][:60]}; needs {limit}", "limit", profiles, **where)
    return finding("fact.met", limit.about, PASS, f"{values[0][:120]}; needs {limit}", "limit", profiles, **where)
