"""Which rows of a policy can ever decide about a host with a given plan. Stops before any verdict."""

from __future__ import annotations

from gpuburn.plan import Plan
from gpuburn.policy import Decision, Policy, Row

# What no plan can rule out: values near an edge, what a guest or an account cannot see, what people and reruns do.
ALWAYS = frozenset({"marginal", "not_observable", "waived", "unexplained"})


def rows(policy: Policy | None, plan: Plan) -> list[Row]:
    """The rows that can match, in the policy's order, without those that an earlier one always stands before."""
    found: list[Row] = []
    for row in policy.rows if policy else []:
        if _can(row, plan) and not any(_before(earlier, row) for earlier in found):
            found.append(row)
    return found


def _can(row: Row, plan: Plan) -> bool:
    asked: tuple[tuple[tuple[str, ...], str], ...] = (
        (row.kinds, plan.kind),
        (row.levels, plan.level),
        (row.environments, plan.environment),
    )
    possible = ALWAYS | marks(plan)
    return all(not wanted or value in wanted for wanted, value in asked) and (
        not row.marks or any(mark in possible for mark in row.marks)
    )


def marks(plan: Plan) -> frozenset[str]:
    """What the plan itself makes of a pass."""
    found = {"uncalibrated"} if any(limit.uncalibrated for limit in plan.limits) else set()
    return frozenset(found | ({"loosened"} if any(limit.loosened for limit in plan.limits) else set()))


def _before(earlier: Row, row: Row) -> bool:
    """Whether the earlier row matches wherever this one does, so that this one never decides and adds no condition."""
    if row.condition and earlier.decision is row.decision is Decision.CONDITIONAL:
        return False
    pairs: tuple[tuple[tuple[object, ...], tuple[object, ...]], ...] = (
        (earlier.reached, row.reached),
        (earlier.verdicts, row.verdicts),
        (earlier.marks, row.marks),
    )
    return all(not wide or (narrow and set(narrow) <= set(wide)) for wide, narrow in pairs)
