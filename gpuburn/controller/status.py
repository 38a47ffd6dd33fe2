"""The exit statuses of `gpuburn`, one meaning each. Documented in docs/decisions.md, from here."""

from __future__ import annotations

from collections.abc import Iterable

from gpuburn.policy import Decision

ACCEPTED, REJECTED, UNDECIDED, USAGE, INTERNAL, CONDITIONAL = range(6)

# In order of precedence: the first that any host asks for. An error of the program or its input stands before all.
MEANING = {
    INTERNAL: "an error inside gpuburn: nothing is said about any host",
    USAGE: "wrong usage or refused input: nothing is said about any host",
    REJECTED: "some host is rejected, or its trial failed",
    UNDECIDED: "some host is undecided or untested, and none is rejected",
    CONDITIONAL: "some host is conditional, and none is worse",
    ACCEPTED: "every host is accepted, or its trial passed; for a command that decides nothing: done",
}
ASKS = {
    Decision.REJECTED: REJECTED, Decision.TRIAL_FAILED: REJECTED, Decision.UNDECIDED: UNDECIDED,
    Decision.UNTESTED: UNDECIDED, Decision.CONDITIONAL: CONDITIONAL, Decision.ACCEPTED: ACCEPTED,
    Decision.TRIAL_PASSED: ACCEPTED,
}  # fmt: skip


class Ended(Exception):
    """A command has told its decisions, and ends with the status that they ask for."""

    def __init__(self, status: int) -> None:
        super().__init__(status)
        self.status = status


def of(decisions: Iterable[Decision]) -> int:
    """The status for these hosts together; none at all is undecided: nothing was shown."""
    asked = {ASKS[one] for one in decisions}
    return next((status for status in MEANING if status in asked), UNDECIDED)
