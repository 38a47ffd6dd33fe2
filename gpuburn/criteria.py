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


def laxer(now: Criteria, before: Criteria) -> str:
    """Why `now` is not the same as or stricter than `before`; "" if it is. The first difference, in words."""
    for name in ("kind", "environment", "sku", "count", "policy", "decision_rule"):
        if getattr(now, name) != getattr(before, name):
            return f"{name} was {getattr(before, name)!r}, is {getattr(now, name)!r}"
    if LEVELS.index(now.level) < LEVELS.index(before.level):
        return f"level was {before.level}, is {now.level}"
    for what, was, has in (
        ("profile", set(before.profiles), set(now.profiles)),
        ("step", {step.name for step in before.steps}, {step.name for step in now.steps}),
    ):
        if not was <= has:
            return f"{what} {', '.join(sorted(was - has))} is no longer demanded"
    return next((why for one in before.limits if (why := _loosened(one, now.limits))), "")


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
