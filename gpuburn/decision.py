"""From verdicts to a decision: the first row of the policy that matches, with its reason and conditions. Pure."""

from __future__ import annotations

import datetime
from collections.abc import Iterable
from dataclasses import dataclass, field

from gpuburn.finding import Finding, Verdict
from gpuburn.policy import Decision, Policy, Reached, Row
from gpuburn.strict import Refused

DAY = 86400.0
MARKS = {"uncalibrated": "uncalibrated", "not_observable": "not_observable", "limit.loosened": "loosened"}


@dataclass(frozen=True, slots=True)
class Condition:
    """What an acceptance still waits for, who owes it, and until when (YYYY-MM-DD)."""

    condition: str
    owner: str
    due: str


@dataclass(frozen=True, slots=True)
class Decided:
    """The decision for one profile: why, and where it is conditional every condition, not only the first."""

    decision: Decision
    because: str
    conditions: list[Condition] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Case:
    """What is decided about. verdict: None where there is no result; marks as marks() tells."""

    reached: Reached
    verdict: Verdict | None
    kind: str
    level: str
    environment: str = "bare_metal"
    marks: frozenset[str] = frozenset()

    def fits(self, row: Row) -> bool:
        return row.fits(
            self.reached, str(self.verdict or ""), self.kind, self.level, self.environment, self.marks
        )  # fmt: skip


def decide(policy: Policy, case: Case, at: float = 0.0) -> Decided:
    """The decision for one profile. at: unix seconds of the run, from which conditions fall due."""
    rows = [row for row in policy.rows if case.fits(row)]
    if not rows:
        raise Refused(f"policy.yml: no row for {case}")
    first = rows[0]
    conditions = [
        Condition(row.condition, row.owner, _day(at + row.due_days * DAY))
        for row in rows
        if row.decision is first.decision and row.condition
    ]
    return Decided(first.decision, first.because, conditions)


def _day(at: float) -> str:
    return datetime.datetime.fromtimestamp(at, datetime.timezone.utc).strftime("%Y-%m-%d")


def marks(findings: Iterable[Finding], profile: str) -> frozenset[str]:
    """What qualifies a pass: passes near an edge, numbers without a reference, what could not be seen,
    what the site demands less of."""
    mine = [one for one in findings if profile in one.profiles]
    marked = {MARKS[one.code] for one in mine if one.code in MARKS}
    return frozenset(marked | ({"marginal"} if any(one.marginal for one in mine) else set()))


def worst(decisions: Iterable[Decision]) -> Decision:
    """The decision for the host: the worst of its profiles; none at all is untested."""
    order = list(Decision)
    return max(decisions, key=order.index, default=Decision.UNTESTED)
