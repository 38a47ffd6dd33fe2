"""The criteria: all that a host is judged by, without the host. Their digest stands on every plan, result and report.

Two parties can agree on them before a delivery; whoever changes a step, a limit or the policy changes the digest.
"""

from __future__ import annotations

from dataclasses import dataclass

from gpuburn import strict
from gpuburn.limit import Limit, as_tight
from gpuburn.plan import LEVELS, Environment, Guard, Kind, LeftOut, Level, Plan, Step


@dataclass(frozen=True, slots=True)
class Criteria:
    """policy, judgement: SHA-256 of both. decision_rule: as the plan has it. No host and no moment is named."""

    kind: Kind
    environment: Environment
    level: Level
    profiles: tuple[str, ...]
    sku: str
    count: int
    seed: int
    decision_rule: str
    policy: str
    judgement: str
    privileges: str
    steps: list[Step]
    limits: list[Limit]
    guards: list[Guard]
    left_out: list[LeftOut]


def of(plan: Plan) -> Criteria:
    return Criteria(
        plan.kind, plan.environment, plan.level, plan.profiles, plan.sku, len(plan.devices), plan.seed,
        plan.decision_rule, plan.policy, plan.judgement, plan.privileges, plan.steps, plan.limits, plan.guards,
        plan.left_out,
    )  # fmt: skip


def digest(plan: Plan) -> str:
    """SHA-256 of the canonical criteria of a plan."""
    return strict.digest(strict.encode(of(plan)))


OTHER = "other criteria: "  # begins the words for what is neither laxer nor stricter, since nobody can tell
MEASURED = ("probe", "scope", "revision", "threads")  # of a step, beside params and env; how long it may take is not


def laxer(now: Criteria, before: Criteria) -> str:
    """Why `now` is not the same as or stricter than `before`; "" if it is. The first difference, in words."""
    ways = (_others, _weaker, _steps, _guards)
    return next((why for way in ways if (why := way(now, before))), "") or next(
        (why for one in before.limits if (why := _loosened(one, now.limits))), ""
    )


def _others(now: Criteria, before: Criteria) -> str:
    for name in ("kind", "environment", "sku", "count", "policy", "judgement"):
        was, has = getattr(before, name), getattr(now, name)
        if was != has and (was or name != "judgement"):  # a plan of an earlier version names no judgement
            short = name in ("policy", "judgement")
            return f"{OTHER}{name} was {was[:12] if short else was}, is {has[:12] if short else has}"
    return ""


def _weaker(now: Criteria, before: Criteria) -> str:
    """What has an order: a guard band decides less than the simple rule, a user sees less than root."""
    if LEVELS.index(now.level) < LEVELS.index(before.level):
        return f"level was {before.level}, is {now.level}"
    for name, strict_one in (("decision_rule", "guard_band"), ("privileges", "root")):
        was, has = getattr(before, name), getattr(now, name)
        if was != has and has != strict_one:
            return f"{name} was {was}, is {has}"
    return ""


def _steps(now: Criteria, before: Criteria) -> str:
    """Whether everything is still run; at the same level, in the same way."""
    steps = {step.name: step for step in now.steps}
    for what, was, has in (
        ("profile", set(before.profiles), set(now.profiles)),
        ("step", {step.name for step in before.steps}, set(steps)),
    ):
        if not was <= has:
            return f"{what} {', '.join(sorted(was - has))} is no longer demanded"
    if now.level != before.level:
        return ""
    return next((why for one in before.steps if (why := _otherwise(one, steps[one.name]))), "")


def _otherwise(before: Step, now: Step) -> str:
    """What of a step is measured in another way; "" if nothing is."""
    was, has = ({**{f: getattr(one, f) for f in MEASURED}, **one.env, **one.params} for one in (before, now))
    for name in sorted({*was, *has}):
        if was.get(name) != has.get(name):
            return f"{OTHER}step {before.name}: {name} was {was.get(name, 'not set')}, is {has.get(name, 'not set')}"
    return ""


def _guards(now: Criteria, before: Criteria) -> str:
    """Whether every guard still ends a step at least as early."""
    for one in before.guards:
        mine = [guard for guard in now.guards if (guard.name, guard.unit) == (one.name, one.unit)]
        if not mine:
            return f"guard {one.name} is no longer demanded"
        if not any(_tight(guard, one) for guard in mine):
            return f"guard {one.name}: was {_bounds(one)}, is {_bounds(mine[0])}"
    return ""


def _tight(one: Guard, before: Guard) -> bool:
    low = before.min is None or (one.min is not None and one.min >= before.min)
    return low and (before.max is None or (one.max is not None and one.max <= before.max))


def _bounds(one: Guard) -> str:
    named = (("min", one.min), ("max", one.max))
    return ", ".join(f"{name} {value:g} {one.unit}" for name, value in named if value is not None)


def _loosened(before: Limit, limits: list[Limit]) -> str:
    """Why no limit of the later criteria is at least as tight as this one; "" if one is, or if it judged nothing."""
    if before.informational:
        return ""
    mine = [one for one in limits if _covers(one, before)]
    if any(as_tight(one, before) for one in mine):
        return ""
    where = f"{before.about} in step {', '.join(before.when.steps)}"
    return f"{where}: was {before}, is {mine[0]}" if mine else f"{where}: {before} is no longer demanded"


def _covers(one: Limit, before: Limit) -> bool:
    same = one.about == before.about and set(before.when.steps) <= set(one.when.steps)
    return same and set(before.when.profiles) <= set(one.when.profiles) and one.when.point.includes(before.when.point)
