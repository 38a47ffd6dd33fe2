"""What people say of a host in the run's journal: a decision of their own, the cause of a failure.

Written beside what the policy decides, never over it; what a person may not say is refused here.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gpuburn.controller.run import Expected, Run
from gpuburn.decision import Case, Condition, decide
from gpuburn.finding import Verdict
from gpuburn.journal import Entry
from gpuburn.policy import Decision, Policy
from gpuburn.strict import Refused, known
from gpuburn.waiver import day

if TYPE_CHECKING:
    from gpuburn.controller.account import Account

DECIDED, CAUSE = "decided", "cause"
LISTED = "listed"  # an acceptance of a delivery was written: its number and SHA-256
EVENTS = (DECIDED, CAUSE, LISTED)  # none of them changes what was judged
LONGEST = 400  # the journal keeps 500 characters of a value
GOOD = (Decision.ACCEPTED, Decision.CONDITIONAL)
BAD = (Decision.REJECTED, Decision.TRIAL_FAILED)
FAILED, OPEN = "failed", "open"
HELD = "fleet.held"  # the code of a finding whose breaker nobody has released


@dataclass(frozen=True, slots=True)
class Personal:
    """A person's decision about a host, or about one of its profiles."""

    decision: Decision
    by: str
    reason: str
    at: float = 0.0
    profile: str = ""
    condition: Condition | None = None


@dataclass(frozen=True, slots=True)
class Cause:
    """Why an attempt failed, as a person recorded it. of: what had become of it then; it is of nothing else."""

    by: str
    reason: str
    at: float = 0.0
    of: str = ""

    def __str__(self) -> str:
        return f"{self.reason} ({self.by})"


def decisions(entries: Iterable[Entry]) -> list[Personal]:
    """Every decision of a person among a host's entries, in the order in which they were made."""
    return [_personal(entry) for entry in entries if entry.event == DECIDED]


def _personal(entry: Entry) -> Personal:
    said = entry.details
    asked = [said.get(name, "") for name in ("condition", "owner", "due")]
    condition = Condition(*asked) if all(asked) else None
    wanted = [one for one in Decision if str(one) == said.get("as")]
    decision = wanted[0] if wanted else Decision.UNDECIDED
    return Personal(decision, said.get("by", ""), said.get("reason", ""), entry.at, said.get("profile", ""), condition)


def cause(entries: Iterable[Entry], of: str = "") -> Cause | None:
    """The cause that was recorded last. of: of what; what was recorded before a host failed is no cause of that."""
    causes = [Cause(one.details.get("by", ""), one.details.get("reason", ""), one.at, one.details.get("of", ""))
              for one in entries if one.event == CAUSE]  # fmt: skip
    return next((one for one in reversed(causes) if not of or one.of in ("", of)), None)


def said_of(account: Account) -> str:
    """What a cause that is recorded now is of: of a failure, or of an attempt that came to no decision."""
    held = any(one.code == HELD for one in (*(account.judged.findings if account.judged else ()), *account.fleet))
    return FAILED if account.decision in BAD or account.waived or held else OPEN


def named(run: Run, host: str) -> Expected:
    """The host as the run expects it."""
    expected = {one.host: one for one in run.expected()}
    known(host, expected, f"run {run.id}: host")
    return expected[host]


def record(run: Run, expected: Expected, said: Personal, policy: Policy) -> None:
    """Write a person's decision into the journal. Raises Refused for what a person may not say of this host."""
    signed(said.by, said.reason)
    if said.profile:
        known(said.profile, expected.profiles, f"host {expected.host}: --profile")
    if said.decision in GOOD and not acceptable(expected, policy):
        raise Refused(
            f"host {expected.host}: --as {said.decision}: a {expected.kind} run at level {expected.level} "
            "may reject, never accept"
        )
    _conditional(said)
    c = said.condition
    more = {"condition": c.condition, "owner": c.owner, "due": c.due} if c else {}
    run.note(said.at, DECIDED, expected.host, **{"as": str(said.decision), "by": said.by, "reason": said.reason},
             **({"profile": said.profile} if said.profile else {}), **more)  # fmt: skip


def record_cause(run: Run, expected: Expected, said: Cause, failed: bool) -> None:
    """Write the cause of an attempt that failed, or that came to no decision, into the journal."""
    signed(said.by, said.reason)
    if not failed:
        raise Refused(f"host {expected.host} passed in run {run.id}; there is no cause to record")
    run.note(said.at, CAUSE, expected.host, by=said.by, reason=said.reason, of=said.of)


def acceptable(expected: Expected, policy: Policy) -> bool:
    """Whether the policy could accept a host of this kind at this level, if it passed."""
    best = Case("judged", Verdict.PASS, expected.kind, expected.level, expected.environment)
    return decide(policy, best).decision in GOOD


def _conditional(said: Personal) -> None:
    c, is_one = said.condition, said.decision is Decision.CONDITIONAL
    if not is_one and c is not None:
        raise Refused(f"--as {said.decision}: --condition, --owner and --due go with conditional")
    if not is_one:
        return
    if c is None or not all(one.strip() for one in (c.condition, c.owner, c.due)):
        raise Refused("--as conditional: wanted are --condition, --owner and --due, all three")
    _bounded({"--condition": c.condition, "--owner": c.owner})
    day(c.due, "--due")
    if said.at and c.due < datetime.datetime.fromtimestamp(said.at, datetime.timezone.utc).strftime("%Y-%m-%d"):
        raise Refused(f"--due is {c.due}, which is over; wanted is a day to come")


def signed(by: str, reason: str) -> None:
    """Whoever decides, releases or accepts has a name, and says why, each on one line."""
    if not by.strip():
        raise Refused("--by is empty; wanted is the name of the person who decides")
    if not reason.strip():
        raise Refused("--reason is empty; wanted is why")
    _bounded({"--by": by, "--reason": reason})


def _bounded(said: dict[str, str]) -> None:
    for option, text in said.items():
        if len(text) > LONGEST or not text.isprintable():
            raise Refused(f"{option}: wanted is one line of at most {LONGEST} printable characters")
