"""From verdicts to a decision: the first row of policy.yml that matches, with its reason. Data, and replayable."""

from __future__ import annotations

import enum
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from gpuburn import strict
from gpuburn.plan import Kind, Level
from gpuburn.strict import Refused
from gpuburn.verdict import Finding, Verdict

FILE = Path(__file__).parent / "policy.yml"

# How far a host came, as the controller knows it.
Reached = Literal["judged", "never_reached", "not_started", "lost", "vanished", "uncollected", "refused"]

# What qualifies a pass.
Mark = Literal["uncalibrated", "not_observable", "marginal"]


class Decision(str, enum.Enum):
    """What is done with a host for one profile, best first."""

    ACCEPTED = "accepted"
    CONDITIONAL = "conditional"
    TRIAL_PASSED = "trial passed"
    UNDECIDED = "undecided"
    UNTESTED = "untested"
    TRIAL_FAILED = "trial failed"
    REJECTED = "rejected"

    def __str__(self) -> str:
        return str(self.value)

    @property
    def good(self) -> bool:
        """Whether the playbook's last task lets the host be."""
        return self in (Decision.ACCEPTED, Decision.CONDITIONAL, Decision.TRIAL_PASSED)


@dataclass(frozen=True, slots=True)
class Row:
    """One rule: empty conditions match everything."""

    decision: Decision
    because: str
    reached: tuple[Reached, ...] = ()
    verdicts: tuple[Verdict, ...] = ()
    kinds: tuple[Kind, ...] = ()
    levels: tuple[Level, ...] = ()
    marks: tuple[Mark, ...] = ()

    def matches(self, reached: str, verdict: str, kind: str, level: str, marked: frozenset[str]) -> bool:
        asked: tuple[tuple[tuple[str, ...], str], ...] = (
            (self.reached, reached),
            (self.verdicts, verdict),
            (self.kinds, kind),
            (self.levels, level),
        )
        fits = all(not wanted or value in wanted for wanted, value in asked)
        return fits and (not self.marks or bool(marked & set(self.marks)))


def load(path: Path = FILE) -> list[Row]:
    """The policy's rows, in order."""
    document = strict.load_yaml(path)
    rows = document.get("rows") if isinstance(document, dict) else None
    if not isinstance(rows, list):
        raise Refused(f"{path.name}: wanted are rows: a list of rules")
    return [strict.build(Row, row, f"{path.name}: row {number}") for number, row in enumerate(rows, 1)]


def decide(
    rows: list[Row],
    reached: Reached,
    verdict: Verdict | None,
    kind: str,
    level: str,
    marked: frozenset[str] = frozenset(),
) -> tuple[Decision, str]:
    """The decision for one profile, and why. verdict is None where there is no result; marked as marks() tells."""
    for row in rows:
        if row.matches(reached, str(verdict or ""), kind, level, marked):
            return row.decision, row.because
    raise Refused(f"policy.yml: no row for reached={reached} verdict={verdict} kind={kind} level={level}")


def marks(findings: Iterable[Finding], profile: str) -> frozenset[str]:
    """What qualifies a pass: passes near an edge, numbers without a reference, what could not be seen."""
    mine = [one for one in findings if profile in one.profiles]
    marked = {one.code for one in mine if one.code in ("uncalibrated", "not_observable")}
    return frozenset(marked | ({"marginal"} if any(one.marginal for one in mine) else set()))


def worst(decisions: list[Decision]) -> Decision:
    """The decision for the host: the worst of its profiles; none at all is untested."""
    order = list(Decision)
    return max(decisions, key=order.index, default=Decision.UNTESTED)
