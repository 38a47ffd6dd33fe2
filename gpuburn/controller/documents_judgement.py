"""The generated tables of docs/decisions.md: the codes of findings, the policy's rows, the exit statuses."""

from __future__ import annotations

from gpuburn import finding, policy as policies
from gpuburn.controller import status
from gpuburn.policy import Row


def codes() -> list[tuple[str, ...]]:
    """Every code with what it means, how grave it is and what to do about it."""
    return [(f"`{name}`", one.severity, one.doc, one.action) for name, one in finding.codes().items()]


def policy() -> list[tuple[str, ...]]:
    """The rows in their order; an empty condition matches everything."""
    return [
        (str(number), _when(row), str(row.decision), row.because,
         f"{row.condition} ({row.owner}, {row.due_days} days)" if row.condition else "")
        for number, row in enumerate(policies.load().rows, 1)
    ]  # fmt: skip


def _when(row: Row) -> str:
    asked = (
        ("reached", row.reached), ("verdict", row.verdicts), ("kind", row.kinds), ("level", row.levels),
        ("environment", row.environments), ("mark", row.marks),
    )  # fmt: skip
    return "; ".join(f"{name} {' or '.join(map(str, many))}" for name, many in asked if many) or "always"


def statuses() -> list[tuple[str, ...]]:
    """The exit statuses, in order of precedence."""
    return [(f"`{number}`", meaning) for number, meaning in status.MEANING.items()]
