"""What a host's verified evidence amounts to, small enough to hold ten thousand; kept beside that evidence.

Written once, when the evidence was verified; its digest goes into the run's journal, and a file with another digest is
made anew from the evidence. Stops before the fleet and before decisions.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

from gpuburn import __version__, judgement, resolve, strict
from gpuburn.controller import named
from gpuburn.controller.collect import Collected
from gpuburn.controller.manifest.shown import shown
from gpuburn.controller.named import Part, Said, facts
from gpuburn.controller.series import Series, Table, What
from gpuburn.decision import marks
from gpuburn.finding import Finding, Verdict
from gpuburn.measurement import Metric
from gpuburn.plan import Plan, Step, owner
from gpuburn.probe import discover
from gpuburn.verdict import proves

SCHEMA: Literal["gpuburn/judged/1"] = "gpuburn/judged/1"
KEPT = 3  # raised when more is kept of the same evidence
LIMIT = 16 * strict.MEBIBYTE


@dataclass(frozen=True, slots=True)
class Referred:
    """The number that a limit of the plan is a share of; warn: the share (a ratio) below or above which it warns."""

    about: str
    step: str
    point: str
    name: str
    value: float
    warn: float


@dataclass(frozen=True, slots=True)
class Trend:
    """How one compared quantity of one subject went over a long step: worse by this share, over hours."""

    step: str
    about: str
    subject: str
    point: str
    profiles: list[str]
    change: float
    hours: float
    why: str


@dataclass(frozen=True, slots=True)
class Judged:
    """findings: those that are no plain pass (fail, incomplete, marginal). cohort: whom the host is compared with.

    met: the profiles for which some demand was met: without one, nothing passes. checks: findings per verdict.
    inputs: SHA-256 of the plan and the sealed file that it was made from; with others it says nothing.
    shown: what the host tells of the things that a manifest lists (manifest/shown.py).
    itself: what the host says of itself that its BMC says too (dmi.product_uuid, dmi.product_serial, gpus).
    """

    schema: Literal["gpuburn/judged/1"]
    host: str
    version: str
    criteria: str
    finished: bool
    refused: list[str]
    verdicts: dict[str, Verdict]
    marks: dict[str, list[str]]
    findings: list[Finding]
    parts: list[Part]
    versions: list[Said]
    facts: list[Said]
    cohort: str
    series: Table
    references: list[Referred] = field(default_factory=list)
    trends: list[Trend] = field(default_factory=list)
    met: list[str] = field(default_factory=list)
    deadline: float = 0.0
    demanded: dict[str, Any] = field(default_factory=dict)
    checks: dict[str, int] = field(default_factory=dict)
    inputs: dict[str, str] = field(default_factory=dict)
    shown: str = ""
    itself: dict[str, str] = field(default_factory=dict)


def version() -> str:
    """Of this program and its way of judging: what another version kept is verified anew."""
    return f"{__version__}/{judgement.digest()[:16]}/{KEPT}"


def judged(collected: Collected, trends: Iterable[Trend] = ()) -> Judged:
    """The digest of what was collected. trends: of its long steps (trend.py)."""
    plan, findings = collected.plan, collected.findings
    looks = collected.result.record.identities if collected.result else []
    told = [*named.versions(collected, looks)]
    met = {profile for f in findings if proves(f) for profile in f.profiles}
    return Judged(
        SCHEMA, plan.host, version(), plan.criteria, collected.result is not None, collected.refused,
        collected.verdicts, {profile: sorted(marks(findings, profile)) for profile in plan.profiles},
        [one for one in findings if one.marginal or one.verdict in (Verdict.FAIL, Verdict.INCOMPLETE)],
        [*named.parts(collected, looks)], told,
        [*_shared(collected)],
        _cohort(plan, told, collected), Table.of(series(collected)), [*references(plan)], [*trends], sorted(met),
        plan.deadline, demanded(plan),
        {str(v): sum(one.verdict is v for one in findings) for v in Verdict}, shown=shown(collected).kept(),
        itself=named.itself(collected, looks),
    )  # fmt: skip


def demanded(plan: Plan) -> dict[str, Any]:
    """What a plan demands of whom: compared with what was expected of the host."""
    return {
        "host": plan.host, "kind": plan.kind, "level": plan.level, "environment": plan.environment,
        "profiles": list(plan.profiles), "delivery": plan.delivery, "sku": plan.sku, "count": len(plan.devices),
    }  # fmt: skip


def references(plan: Plan) -> Iterator[Referred]:
    for one in plan.limits:
        warn = one.warn_below if one.warn_below is not None else one.warn_above
        if one.reference and warn is not None:
            point, share = str(one.when.point), warn / one.reference.value
            yield Referred(one.about, one.when.steps[0], point, one.reference.name, one.reference.value, share)


def _shared(collected: Collected) -> Iterator[Said]:
    """The facts that the plan wants to be the same over the cohort."""
    yield from facts(collected, {one.about for one in collected.plan.limits if one.agree == "cohort"})


def _cohort(plan: Plan, versions: list[Said], collected: Collected) -> str:
    """Who is comparable: the same kind, model, driver, torch and power limit; a rehearsal's CPU is its model."""
    told = {one.about: one.value for one in versions}
    model = plan.sku or next((fact.value for fact in facts(collected, ["identity.cpu_model"])), "unknown CPU")
    limits = {round(m.value) for o in collected.outcomes for m in o.measurements if m.name == "telemetry.power_limit"}
    power = f"{min(limits)}-{max(limits)} W" if len(limits) > 1 else f"{limits.pop()} W" if limits else ""
    parts = (plan.kind, model, told.get("driver", ""), f"torch {told.get('torch', '?')}", power)
    return ", ".join(part for part in parts if part)


def series(collected: Collected) -> Iterator[Series]:
    """Every quantity that hosts are compared by, one entry per step, metric and point."""
    probes = discover()
    for outcome in collected.outcomes:
        step = collected.plan.step(outcome.step)
        if step is None:
            continue
        found: dict[tuple[str, str], list[Any]] = {}
        for m in outcome.measurements:
            probe, _, name = m.name.partition(".")
            metric = owner(probe, step, probes).metrics.get(name)
            if metric and metric.better:
                found.setdefault((m.name, str(m.point)), []).append((metric, m))
        method = resolve.method(step)
        for (about, point), many in found.items():
            metric, mine = many[0][0], [m for _, m in many]
            yield _series(step, about, metric, point, method, mine)


def _series(step: Step, about: str, metric: Metric, point: str, method: str, mine: list[Any]) -> Series:
    subjects = tuple(m.subject for m in mine)
    what = What(step.name, about, metric.unit, metric.better, point, method, subjects, tuple(step.profiles))
    return Series(what, [m.value for m in mine], [m.cv for m in mine], [m.count for m in mine])


def encode(one: Judged) -> bytes:
    return strict.line(one)


PLAIN: dict[str, type] = {"parts": Part, "versions": Said, "facts": Said, "references": Referred, "trends": Trend}


def decode(data: bytes) -> Judged:
    """Read one of our own files, whose digest the caller has checked: what is many and flat is taken as it is."""
    document = json.loads(data)
    flat: dict[str, Any] = {name: [kind(**one) for one in document.pop(name)] for name, kind in PLAIN.items()}
    built: Judged = strict.build(Judged, {**document, **{name: [] for name in flat}}, "judged.json")
    return dataclasses.replace(built, **flat)
