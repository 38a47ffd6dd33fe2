"""What a plan demands, for a person who has bought and run nothing yet: each limit, its number and where that is from.

Stops at facts: explain_text and criteria_page make text and a document of them.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import Any, Literal

from gpuburn import criteria, sku, strict
from gpuburn.controller import applicable
from gpuburn.limit import Limit
from gpuburn.measurement import Metric
from gpuburn.plan import HOST, Plan, Step, promise, subjects
from gpuburn.policy import Policy
from gpuburn.probe import discover
from gpuburn.rotation import base
from gpuburn.telemetry import TELEMETRY

Does = Literal["rejects", "warns", "uncalibrated", "recorded"]
DOES: tuple[Does, ...] = ("rejects", "warns", "uncalibrated", "recorded")
RESULT = "measured in the same result"


@dataclass(frozen=True, slots=True)
class Group:
    """Hosts with equal criteria, and the plan of one of them. policy: None where the one that was meant is not here.

    allowed: seconds from the start to the deadline, the longest of theirs. variables: quantity -> who in the
    inventory sets it. hosts: empty where the order is known and its hosts are not.
    """

    plan: Plan
    policy: Policy | None
    hosts: list[str]
    allowed: float
    variables: dict[str, list[str]] = field(default_factory=dict)

    @property
    def digest(self) -> str:
        return criteria.digest(self.plan)


@dataclass(frozen=True, slots=True)
class Demand:
    """One demand, which many steps may share. limits: those of the plan that it stands for, one for each step.

    wish: what is demanded; edge: where a pass is marginal; per: whom it is about. profiles: only where it is for fewer
    than its steps serve. number: where the number comes from, and source: who published it. cannot: why it can not
    reject.
    """

    about: str
    unit: str
    does: Does
    wish: str
    edge: str
    per: str
    point: str
    profiles: tuple[str, ...]
    doc: str
    because: str
    number: str
    source: str
    cannot: str
    action: str
    loosened: str
    limits: tuple[Limit, ...]

    @property
    def steps(self) -> list[str]:
        """Where it is demanded; the turns of a rotation are one step."""
        return list(dict.fromkeys(base(step) for one in self.limits for step in one.when.steps))


def demands(group: Group) -> list[Demand]:
    """Every limit of the plan; those that differ in nothing but the step are one demand. Speed first, sensors last."""
    found: dict[Demand, list[Limit]] = {}
    for limit in group.plan.limits:
        for name in limit.when.steps:
            step = group.plan.step(name)
            assert step is not None  # plan.check
            found.setdefault(_demand(group, limit, step), []).append(limit)
    named = performance(group.plan).can
    order = sorted(found, key=lambda one: (one.about not in named, one.about.startswith(f"{TELEMETRY.name}.")))
    return [dataclasses.replace(one, limits=tuple(found[one])) for one in order]


WHOM = {"host": "the host", "pair": "each ordered pair of devices"}


def _demand(group: Group, limit: Limit, step: Step) -> Demand:
    declared = promise(limit, step, discover())
    whom = declared.per or ("host" if subjects(group.plan, step) == [HOST] else "device")
    narrower = limit.when.profiles if set(limit.when.profiles) != set(step.profiles) else ()
    number, source = origin(limit, group.variables.get(limit.about, []))
    unit = declared.unit if isinstance(declared, Metric) else "fact"
    return Demand(
        limit.about, unit, does(limit), wish(limit), edge(limit), WHOM.get(whom, "each device"),
        str(limit.when.point), narrower, declared.doc, limit.because or limit.informational, number, source,
        cannot(limit), limit.action, limit.loosened, (),
    )  # fmt: skip


def does(limit: Limit) -> Does:
    """What a value can do: reject, make a pass marginal, or inform; uncalibrated: it would judge, had it a number."""
    if limit.informational:
        return "uncalibrated" if limit.uncalibrated else "recorded"
    return "rejects" if limit.can_reject else "warns"


def cannot(limit: Limit) -> str:
    """Why a limit can not reject; "" if it can."""
    if limit.can_reject:
        return ""
    if limit.informational:
        return limit.informational
    if limit.confidence != "high":
        return f"a number of {limit.confidence} confidence may not reject"
    return "it has only a bound that warns"


def wish(limit: Limit) -> str:
    """What must hold for the value not to be missed."""
    if limit.informational:
        return ""
    if limit.equals is not None:
        return f"= {limit.equals}"
    if limit.agree:
        return f"the same over the {limit.agree}"
    low, high = (limit.fail_below, limit.fail_above) if limit.of else (limit.min, limit.max)
    if low is not None and low == high:
        return f"= {low:.6g}{_unit(limit)}"
    return " and ".join(_bounds(limit, (">=", low), ("<=", high)))


def edge(limit: Limit) -> str:
    """Where a value that is not missed is marginal all the same."""
    return " or ".join(_bounds(limit, ("<", limit.warn_below), (">", limit.warn_above)))


def _bounds(limit: Limit, *sides: tuple[str, float | None]) -> list[str]:
    return [f"{sign} {bound:.6g}{_unit(limit)}" for sign, bound in sides if bound is not None]


def _unit(limit: Limit) -> str:
    if limit.of:
        return f" x {limit.of}"
    return "" if limit.unit == "1" else f" {limit.unit}"


def origin(limit: Limit, variables: list[str]) -> tuple[str, str]:
    """Where the number comes from, and its source."""
    if limit.informational:
        return "", ""
    if limit.source == "contract" and not variables:
        return "the order", ""
    if limit.of:
        return f"a share of {limit.of}, {RESULT}", limit.source
    if limit.reference is not None:
        one = limit.reference
        bound = next(b for b in (limit.min, limit.max, limit.warn_below, limit.warn_above) if b is not None)
        told = f"{bound / one.value:.4g} x {one.value:.6g} {limit.unit}, {one.name}"
        how = f", method {one.method}" if one.method else ""
        return f"{told}{how}, confidence {limit.confidence}", one.source
    if limit.source in ("site", "contract"):
        return "the contract or site", ", ".join(variables) or "the inventory"
    return "absolute", limit.source


@dataclass(frozen=True, slots=True)
class Performance:
    """The quantities that machines are compared by: those that can reject, and why each of the others cannot."""

    can: list[str]
    cannot: dict[str, list[str]]


def performance(plan: Plan) -> Performance:
    """Every such quantity that a step of the plan promises, judged or not."""
    named: dict[str, None] = {}
    for step in plan.steps:
        for probe in (discover()[step.probe], TELEMETRY):
            for name, one in probe.metrics.items():
                if one.better and plan.kind in one.kinds:
                    named[f"{probe.name}.{name}"] = None
    can = [one for one in named if any(limit.about == one and limit.can_reject for limit in plan.limits)]
    return Performance(can, {one: list(_why_not(plan, one)) for one in named if one not in can})


def _why_not(plan: Plan, about: str) -> dict[str, None]:
    told = {cannot(limit): None for limit in plan.limits if limit.about == about}
    silent = {one.why: None for one in plan.left_out if one.what.startswith(f"{about} in step ")}
    return told or silent or {"no limit speaks of it": None}


def counts(plan: Plan) -> dict[Does, int]:
    """How many limits do what."""
    return {name: sum(does(limit) == name for limit in plan.limits) for name in DOES}


def in_short(plan: Plan) -> str:
    """How much of the plan can reject, in one line."""
    one = performance(plan)
    total = len(one.can) + len(one.cannot)
    return f"{len(plan.limits)} limits, {counts(plan)['rejects']} can reject; " + (
        f"{len(one.cannot)} of {total} performance metrics cannot" if one.cannot else "every performance metric can"
    )


def peak_kw(plan: Plan) -> float:
    """What the GPUs of one host may draw together: their board power; 0 where nobody says, or none is loaded."""
    power = sku.load(plan.sku).number("power") if plan.sku else None
    return power.value * len(plan.devices) / 1e3 if power and plan.kind == "hardware" else 0.0


def energy_kwh(plan: Plan) -> float:
    """What the GPUs of one host may take at most: their peak over all the time that the steps are expected to take."""
    return peak_kw(plan) * plan.expected() / 3600


def told(group: Group) -> dict[str, Any]:
    """The same for machines."""
    plan, quick = group.plan, performance(group.plan)
    return {
        "hosts": group.hosts, "criteria": group.digest, "policy": plan.policy, "kind": plan.kind, "level": plan.level,
        "environment": plan.environment, "profiles": list(plan.profiles), "sku": plan.sku, "count": len(plan.devices),
        "limits": [_limit(group, one) for one in plan.limits], "counts": counts(plan),
        "performance": {"can_reject": quick.can, "cannot_reject": quick.cannot},
        "left_out": strict.plain(plan.left_out), "guards": strict.plain(plan.guards),
        "decision_rule": plan.decision_rule, "rows": strict.plain(applicable.rows(group.policy, plan)),
        "steps": [{"step": s.name, "profiles": list(s.profiles), "because": s.because, "expected": s.expected,
                   "timeout": s.timeout} for s in plan.steps],
        "expected": plan.expected(), "allowed": group.allowed, "gpus_peak_kw": peak_kw(plan),
        "gpus_energy_kwh": energy_kwh(plan),
    }  # fmt: skip


def _limit(group: Group, limit: Limit) -> dict[str, Any]:
    number, source = origin(limit, group.variables.get(limit.about, []))
    return {
        **strict.plain(limit), "does": does(limit), "can_reject": limit.can_reject, "wish": wish(limit),
        "marginal": edge(limit), "number": number, "number_source": source, "cannot": cannot(limit),
    }  # fmt: skip
