"""What the report tells of waivers, of people and of attempts, as plain data for its document and its pages."""

from __future__ import annotations

from typing import Any

from gpuburn import strict
from gpuburn.controller import people, waived
from gpuburn.controller.account import Account
from gpuburn.controller.people import Personal
from gpuburn.controller.run import Run
from gpuburn.controller.waived import Told
from gpuburn.standing import Standing
from gpuburn.waiver import Waiver


def of(account: Account) -> dict[str, Any]:
    """The fields of one host. attempt: its number in the delivery, 0 without one."""
    cause = people.cause(account.way.people)
    return {
        "waived": [
            {**strict.plain(waiver), "step": finding.step, "subject": finding.subject, "why": finding.why}
            for finding, waiver in account.waived
        ],
        "person_decisions": [strict.plain(one) for one in said(account)],
        "cause": strict.plain(cause) if cause else None,
        "attempt": len(account.history.lines) if account.history else 0,
        "attempts": attempts(account.history) if account.history else [],
    }


def said(account: Account) -> list[Personal]:
    """The decisions of people about this host, in this run."""
    return people.decisions(account.way.people)


def findings(account: Account) -> list[dict[str, Any]]:
    """The host's findings; one that was waived says by whom."""
    by = {finding: short(waiver) for finding, waiver in account.waived}
    found = account.findings()
    return [{**strict.plain(one), **({"waived": by[one]} if one in by else {})} for one in found]


def short(waiver: Waiver) -> str:
    """A waiver on one line, with its person."""
    return f"{waiver.id} by {waiver.person}, until {waiver.expires}: {waiver.reason}"


def attempts(history: Standing) -> list[dict[str, Any]]:
    """Every attempt that was known when the run was decided, the first one first."""
    return [
        {"number": line.number, "run": line.attempt.run, "kind": line.attempt.kind, "level": line.attempt.level,
         "decision": str(line.attempt.decision), "reason": line.attempt.reason, "cause": line.attempt.cause,
         "changed": line.changed, "note": line.note, "criteria": line.attempt.digest}
        for line in history.lines
    ]  # fmt: skip


def waivers(run: Run, accounts: list[Account]) -> list[dict[str, Any]]:
    """Every waiver of the run and what became of it."""
    return [
        {**strict.plain(one.waiver), "state": one.state, "why": one.why, "hosts": list(one.hosts)}
        for one in listed(run, accounts)[0]
    ]


def listed(run: Run, accounts: list[Account]) -> tuple[list[Told], str]:
    """Every waiver of the run; and why the file of waivers as a whole does not count, "" if it does."""
    held = waived.book(run)
    return waived.told(held, accounts), held.trouble
