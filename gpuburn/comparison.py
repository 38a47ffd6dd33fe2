"""One limit against what a step gave: measurements within bounds, facts equal or agreeing. Pure.

A limit that is a share of another measurement of the same result is resolved here. No limit is tighter than three
times the spread with which the device repeats itself (what misses it by more than that has failed all the same), and
under the guard band nothing is decided within twice that spread.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from gpuburn.agreement import disagreeing
from gpuburn.finding import Finding, Verdict, finding
from gpuburn.limit import Limit, Reference
from gpuburn.measurement import NOWHERE, UNTOLD, Measurement, Metric, Observed, Point, reasons
from gpuburn.outcome import Outcome
from gpuburn.plan import HOST, Step
from gpuburn.telemetry import CONTAINED

PASS, FAIL, INCOMPLETE, NOT_APPLICABLE = Verdict
Seen = Mapping[tuple[str, str, Point], Measurement]
LACKING = ("Not Supported",)  # NVML's own words (nvmlErrorString) for what a board does not have
HIDDEN = (*LACKING, "Insufficient Permissions", "Function Not Found")
TIGHTEST = 3.0  # coefficients of variation: a tighter limit accuses healthy devices (docs/methods.md)
SLACK = 10.0  # times: the commonest slip in published tables is a factor of ten or more (DCGM's A100, H200, L40)
MEDIAN = math.sqrt(math.pi / 2)  # the standard error of a median over that of a mean, normal readings
GUARD = 2.0  # expanded uncertainty, coverage factor 2 (JCGM 100:2008, 6.2; decision rule as ILAC-G8:09/2019)
ALONE = {
    "alone": "the plan has no other that could agree",
    "cohort": "one host cannot tell what the cohort says; the report compares the hosts",
}


@dataclass(frozen=True, slots=True)
class Asked:
    """What a limit asks of one step: the promise behind it, and every subject and point that must answer.

    blind: why this environment or account may not see everything; "" where it must.
    """

    limit: Limit
    step: Step
    promise: Metric | Observed
    wanted: list[tuple[str, Point]]
    rule: str = "simple"
    environment: str = "bare_metal"
    explained: tuple[str, ...] = ()  # full names of the facts that say why a number is absent
    reference: Metric | None = None  # behind the number that the limit is a share of
    blind: str = ""  # why not everything of the host can be seen in this run

    def finding(self, code: str, verdict: Verdict, why: str, subject: str, point: Point, marginal: bool = False
                ) -> Finding:  # fmt: skip
        limit = self.limit
        return finding(
            code, limit.about, verdict, why, limit.source if limit.source != "limits.yml" else "limit",
            limit.when.profiles, limit.action, marginal, step=self.step.name, subject=subject, point=point,
            evidence=f"steps/{self.step.name}",
        )  # fmt: skip


def compare(asked: Asked, outcome: Outcome | None) -> Iterable[Finding]:
    """One finding per subject and point that the limit demands, and one where the site demands less than we do."""
    if asked.limit.loosened:
        why = f"the site demands: {asked.limit}; gpuburn itself: {asked.limit.loosened}"
        yield asked.finding("limit.loosened", NOT_APPLICABLE, why, HOST, NOWHERE)
    if isinstance(asked.promise, Observed):
        yield from _facts(asked, outcome)
        return
    seen = {(m.name, m.subject, m.point): m for m in (outcome.measurements if outcome else [])}
    for subject, point in asked.wanted:
        found = seen.get((asked.limit.about, subject, point))
        if found is None or found.count < 1:
            yield _absent(asked, asked.promise, subject, point, outcome)
        elif asked.reference and not _referred(asked.limit.of, subject, point, seen):
            yield _no_reference(asked, asked.reference, found, outcome)
        else:
            yield _unproven(asked, _number(asked, asked.promise, subject, point, seen), outcome)


def _gap(asked: Asked, metric: Metric, subject: str, point: Point, outcome: Outcome | None) -> str:
    """What the fact that stands in for a number says of its absence: "none: why", "unknown: why", or ""."""
    where = {(f"{asked.step.probe}.{metric.unless}", who, at) for who in (subject, HOST) for at in (point, NOWHERE)}
    said = {f.value for f in (outcome.facts if outcome else []) if (f.name, f.subject, f.point) in where}
    return next(iter(said)) if metric.unless and len(said) == 1 and min(said).startswith(UNTOLD) else ""


def _absent(asked: Asked, metric: Metric, subject: str, point: Point, outcome: Outcome | None) -> Finding:
    """A number that is not there is missed, unless there is no such part, the device is excused (_excuse) and no SKU
    denies it, or it may not be seen from here."""
    gap, limit = _gap(asked, metric, subject, point, outcome), asked.limit
    how, _, told = gap.partition(": ")
    if how == "none":
        return asked.finding("limit.no_part", NOT_APPLICABLE, f"{told}; needs {limit}", subject, point)
    if gap and asked.blind:
        return asked.finding("not_observable", NOT_APPLICABLE, f"{told}; {asked.blind}", subject, point)
    why = told or _why(asked, limit.about, subject, outcome)
    code = "" if limit.reference else _excuse(asked, metric, why)
    if code:
        return asked.finding(code, NOT_APPLICABLE, f"{why}: {metric.absent}".removesuffix(": "), subject, point)
    reason = f"not measured: {why}" if why else "not measured"
    must = f", and {limit.built}" if why in LACKING and limit.built else ""
    return asked.finding("limit.unmeasured", INCOMPLETE, f"{reason}{must}; needs {limit}", subject, point)


def _no_reference(asked: Asked, metric: Metric, m: Measurement, outcome: Outcome | None) -> Finding:
    """The number that a limit is a share of is not there."""
    limit, at = asked.limit, (m.subject, m.point)
    why = _why(asked, limit.of, m.subject, outcome)
    code = _excuse(asked, metric, why)
    if code:
        return asked.finding(code, NOT_APPLICABLE, f"{m.value:.6g} {m.unit}; {limit.of}: {why}: {metric.absent}", *at)
    told = f"{m.value:.6g} {m.unit}; needs {limit}, and {limit.of} was not measured in {m.unit} on {m.subject}"
    return asked.finding("limit.no_reference", INCOMPLETE, told, *at)


def _why(asked: Asked, about: str, subject: str, outcome: Outcome | None) -> str:
    """Why the subject did not tell a number, in NVML's words; "" where it says nothing of it."""
    probe, _, name = about.partition(".")
    for fact in outcome.facts if outcome else []:
        mine = fact.name in asked.explained and fact.subject == subject and fact.name.startswith(f"{probe}.")
        if mine and (why := reasons(fact.value).get(name)):
            return why[:120]
    return ""


def _excuse(asked: Asked, metric: Metric | Observed, why: str) -> str:
    """The code of an absence that is no fault: its SKU may lack it and it says so, or the environment hides it."""
    if why in (HIDDEN if metric.absent else (CONTAINED,)) and asked.environment != "bare_metal":
        return "not_observable"
    built = asked.limit.built and metric.part == asked.promise.part
    return "not_supported" if metric.absent and why in LACKING and not built else ""


def _referred(of: str, subject: str, point: Point, seen: Seen) -> Measurement | None:
    return seen.get((of, subject, point)) or seen.get((of, subject, NOWHERE))


def _unproven(asked: Asked, one: Finding, outcome: Outcome | None) -> Finding:
    """What is outside our own watching, with the reason that the watcher gave."""
    why = _why(asked, one.about, one.subject, outcome) if one.code == "limit.unproven" else ""
    return dataclasses.replace(one, why=f"{one.why}; {why}") if why else one


def _number(asked: Asked, metric: Metric, subject: str, point: Point, seen: Seen) -> Finding:
    limit, at = asked.limit, (subject, point)
    m = seen[limit.about, subject, point]
    value = f"{m.value:.6g} {m.unit}"
    if limit.informational:
        code = "uncalibrated" if limit.uncalibrated else "informational"
        return asked.finding(code, NOT_APPLICABLE, f"{value}; no limit: {limit.informational}", *at)
    if m.unit != limit.unit:
        why = f"measured in {m.unit!r}, limited in {limit.unit!r}"
        return asked.finding("limit.other_unit", INCOMPLETE, why, *at)
    if limit.of:
        other = _referred(limit.of, subject, point, seen)
        if other is None or not other.value > 0 or other.unit != m.unit:
            why = f"{value}; needs {limit}, and {limit.of} was not measured in {m.unit} on {subject}"
            return asked.finding("limit.no_reference", INCOMPLETE, why, *at)
        limit = limit.resolved(Reference(limit.of, other.value, "measured in this result"))
    return _judged(asked, metric, limit, m, *at)


def _judged(asked: Asked, metric: Metric, limit: Limit, m: Measurement, subject: str, point: Point) -> Finding:
    """A value against bounds in numbers."""
    wish = _wish(limit, m.unit)
    value = f"{m.value:.6g} {m.unit}"
    guarded = _guarded(metric, limit, m) if asked.rule == "guard_band" else ""
    if guarded:
        return asked.finding("limit.within_guard", INCOMPLETE, f"{value}; {wish}; {guarded}", subject, point)
    loose = _unrepeatable(limit, metric, m)
    if loose:
        return asked.finding("limit.unrepeatable", INCOMPLETE, f"{value}; {wish}; {loose}", subject, point)
    if _slack(asked, metric, m.value):
        why = f"{value}; {wish}; the site's limit is {SLACK:g} times away from it, and can hardly fail anything"
        return asked.finding("limit.slack", PASS, why, subject, point, True)
    if limit.admits(m.value):
        return asked.finding("limit.met", PASS, f"{value}; {wish}", subject, point, limit.marginal(m.value))
    if limit.missed == "incomplete":
        return asked.finding("limit.unproven", INCOMPLETE, f"{value}; {wish}", subject, point)
    if limit.can_reject:
        return asked.finding("limit.failed", FAIL, f"{value}; {wish}", subject, point)
    why = f"{value}; outside: {wish}, a number of {limit.confidence} confidence, which may not reject"
    return asked.finding("limit.outside", PASS, why, subject, point, True)


def _wish(limit: Limit, unit: str) -> str:
    """What is needed, with the reference that it comes from."""
    if limit.reference is None:
        return f"needs {limit}"
    one = limit.reference
    bound = next(b for b in (limit.min, limit.max, limit.warn_below, limit.warn_above) if b is not None)
    return f"needs {limit}: {bound / one.value:.3g} of {one.name} {one.value:.6g} {unit}"


def _unrepeatable(limit: Limit, metric: Metric, m: Measurement) -> str:
    """Why a limit with a reference is too tight for this measurement; "" where it is not, or cannot be said."""
    if metric.reduce != "median":
        return ""
    if limit.tolerance is None:
        return _unsteady(limit, metric, m)
    if m.cv is None:
        return "one reading tells nothing of how well the device repeats itself"
    if limit.tolerance < TIGHTEST * m.cv and not _clearly_outside(limit, m.value, TIGHTEST * m.cv * abs(m.value)):
        return (
            f"the limit leaves {limit.tolerance:.1%} below its reference, and the readings vary by {m.cv:.1%}: "
            f"wanted is at least {TIGHTEST:g} times that"
        )
    return ""


def _unsteady(limit: Limit, metric: Metric, m: Measurement) -> str:
    """A number without a reference has no tolerance: what must be told apart from it is the median itself.

    Three standard errors of the median of independent readings, 1.2533 cv / sqrt(n) each (Kenney and Keeping 1962).
    """
    if m.count < 2 and metric.better and limit.source in ("site", "contract"):
        return "one reading tells nothing of how well the device repeats itself"
    error = TIGHTEST * MEDIAN * (m.cv or 0.0) * abs(m.value) / math.sqrt(m.count)
    if not error or not _near(limit, m.value, error):
        return ""
    return f"the readings vary by {m.cv:.1%}: their median is known to {error:.3g} {m.unit}, and the limit is nearer"


def _guarded(metric: Metric, limit: Limit, m: Measurement) -> str:
    """Why a median is not told under the guard band; "" where it is clear of its limit."""
    if metric.reduce != "median":
        return ""
    if m.cv is None:
        return "one reading has no spread to guard with"
    band = GUARD * m.cv * abs(m.value)
    if not band or not _near(limit, m.value, band):
        return ""
    return f"within the guard band of {band:.3g} {m.unit} around it (twice the readings' spread)"


def _slack(asked: Asked, metric: Metric, value: float) -> bool:
    """Whether a site's number is so far off that it judges nothing: a slip in its unit, or a floor of nought."""
    limit = asked.limit
    if limit.source not in ("site", "contract") or not metric.better or not limit.admits(value):
        return False
    if metric.better == "higher":
        return limit.min is None or limit.min * SLACK <= value
    return limit.max is None or limit.max >= value * SLACK


def _clearly_outside(limit: Limit, value: float, spread: float) -> bool:
    """Whether a value misses its limit by more than its readings' spread: then a tight limit accuses nobody wrongly."""
    return not limit.admits(value) and not _near(limit, value, spread)


def _near(limit: Limit, value: float, band: float) -> bool:
    return any(bound is not None and abs(value - bound) <= band for bound in (limit.min, limit.max))


def _facts(asked: Asked, outcome: Outcome | None) -> Iterable[Finding]:
    limit = asked.limit
    said: dict[tuple[str, Point], set[str]] = {key: set() for key in asked.wanted}
    for fact in outcome.facts if outcome else []:
        if fact.name == limit.about and (fact.subject, fact.point) in said:
            said[fact.subject, fact.point].add(fact.value)
    for point in dict.fromkeys(point for _, point in asked.wanted):
        here = {subject: values for (subject, at), values in said.items() if at == point}
        odd = disagreeing({s: next(iter(v)) for s, v in here.items() if len(v) == 1}) if limit.agree else {}
        among = ("cohort" if limit.agree == "cohort" else "alone") if limit.agree and len(here) == 1 else ""
        for subject, values in here.items():
            yield _fact(asked, subject, point, sorted(values), odd.get(subject, among))


def _fact(asked: Asked, subject: str, point: Point, values: list[str], odd: str) -> Finding:
    limit, at = asked.limit, (subject, point)
    if not values:
        return asked.finding("fact.unobserved", INCOMPLETE, f"not observed; needs {limit}", *at)
    if limit.informational:
        return asked.finding(
            "informational", NOT_APPLICABLE, f"{values[0][:120]}; no limit: {limit.informational}", *at
        )
    if len(values) > 1:
        why = f"said {len(values)} different things in one step: {', '.join(v[:40] for v in values[:3])}"
        return asked.finding("fact.failed", FAIL, why, *at)
    if odd == "minority":
        return asked.finding("fact.failed", FAIL, f"{values[0][:60]} differs from what most others say", *at)
    if odd == "undecided":
        why = f"{values[0][:60]} differs from another, and nothing tells which is right"
        return asked.finding("fact.disagrees", INCOMPLETE, why, *at)
    if odd in ALONE:
        return asked.finding(f"fact.{odd}", NOT_APPLICABLE, f"{values[0][:120]}; {ALONE[odd]}", *at)
    why = values[0].removeprefix(UNTOLD[1])
    code = _excuse(asked, asked.promise, why) if values[0].startswith(UNTOLD[1]) else ""
    if code:
        return asked.finding(code, NOT_APPLICABLE, f"{why}: {asked.promise.absent}", *at)
    if limit.equals is not None and values[0].startswith(UNTOLD):
        must = f", and {limit.built}" if why in LACKING and limit.built else ""
        return asked.finding("fact.untold", INCOMPLETE, f"{values[0][:120]}{must}; needs {limit}", *at)
    if limit.equals is not None and values[0] != limit.equals:
        return asked.finding("fact.failed", FAIL, f"{values[0][:60]}; needs {limit}", *at)
    shared = f"; on the host's own devices: {ALONE['cohort']}" if limit.agree == "cohort" else ""
    return asked.finding("fact.met", PASS, f"{values[0][:120]}; needs {limit}{shared}", *at)
