"""Which of a run's waivers waives what, and which does not, and why. Stops before decisions."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from gpuburn import waiver as waivers
from gpuburn.controller.manifest.shown import Shown
from gpuburn.controller.reach import Way
from gpuburn.controller.run import WAIVERS, Run
from gpuburn.finding import Finding, Verdict
from gpuburn.manifest import COLUMNS
from gpuburn.plan import members
from gpuburn.strict import Refused
from gpuburn.waiver import Waiver

if TYPE_CHECKING:
    from gpuburn.controller.account import Account

Waived = tuple[Finding, Waiver]
SERIALS = ("uuid", "serial", "board")  # what names one part; a chassis may hold several hosts
NONE = waivers.digest([])  # what the journal tells of a run without waivers; an older one says nothing
NAMED = 3  # reasons that are told of one unused waiver


@dataclass(frozen=True, slots=True)
class Book:
    """A run's waivers. by_about: those that hold on the day of the run. refused: {id: why} of the others.

    trouble: why the file itself does not count, "" where it does: nothing is waived then.
    """

    waivers: list[Waiver] = field(default_factory=list)
    by_about: dict[str, list[Waiver]] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)
    trouble: str = ""


@dataclass(frozen=True, slots=True)
class Told:
    """One waiver as the report lists it. hosts: where it was used."""

    waiver: Waiver
    state: Literal["used", "refused", "unused"]
    why: str = ""
    hosts: tuple[str, ...] = ()


def book(run: Run) -> Book:
    """The waivers that the run began with, as of its day: the same evidence is judged the same next year."""
    try:
        mine = run.waivers()
    except (Refused, OSError) as error:
        return Book(trouble=f"no waiver is applied: {error}")
    began = run.as_begun("waivers")
    if began is None and mine:
        return Book(
            trouble=f"no waiver is applied: {run.journal.name} does not say whether the run began with {WAIVERS}"
        )
    if began is not None and (began or NONE) != waivers.digest(mine):
        began = began or NONE
        why = "came later, the run began with none" if began == NONE else f"is not the one that run {run.id} began with"
        return Book(trouble=f"no waiver is applied: {WAIVERS} {why}")
    day, made = of_run(run), Book(mine)
    for one in mine:
        why = waivers.unusable(one, day)
        if why:
            made.refused[one.id] = why
        else:
            made.by_about.setdefault(one.about, []).append(one)
    return made


def of_run(run: Run) -> str:
    """The run's day, YYYY-MM-DD."""
    return datetime.datetime.fromtimestamp(run.began(), datetime.timezone.utc).strftime("%Y-%m-%d")


def waived(held: Book, one: Way, fleet: Iterable[Finding]) -> list[Waived]:
    """Every failed finding that a waiver waives, with the first that does."""
    if not held.by_about or one.judged is None or one.judged.refused:
        return []
    found = []
    for finding in (*one.judged.findings, *fleet):
        if finding.verdict is Verdict.FAIL:
            mine = serials(one, finding.subject)
            fits = (w for w in held.by_about.get(finding.about, []) if not waivers.mismatch(w, finding, mine))
            if first := next(fits, None):
                found.append((finding, first))
    return found


def serials(one: Way, subject: str) -> set[str]:
    """Every serial and UUID that the subject says of itself; of a pair those of both devices."""
    if one.judged is None:
        return set()
    if "." in subject:  # a part beside the GPUs: a disk, an interface, a module
        mine = Shown.read(one.judged.shown).parts.get(subject, {})
        return {value for column, value in mine.items() if COLUMNS[column].form in ("serial", "mac")}
    return {part.value for part in one.judged.parts if part.subject in members(subject) and part.kind in SERIALS}


def told(held: Book, accounts: list[Account]) -> list[Told]:
    """Every waiver of the run: used, refused, or unused with why."""
    used: dict[str, dict[str, None]] = {}
    for account in accounts:
        for _, one in account.waived:
            used.setdefault(one.id, {})[account.expected.host] = None
    return [
        Told(one, "used", "", tuple(used[one.id])) if one.id in used
        else Told(one, "refused", held.refused[one.id]) if one.id in held.refused
        else Told(one, "unused", _unused(one, accounts))
        for one in held.waivers
    ]  # fmt: skip


def _unused(one: Waiver, accounts: list[Account]) -> str:
    why = list(dict.fromkeys(_misses(one, accounts)))
    if why:
        return "; ".join([*why[:NAMED], *([f"{len(why) - NAMED} more"] if len(why) > NAMED else [])])
    there = any(part.value in one.serials for a in accounts if a.judged for part in a.judged.parts)
    return f"nothing failed about {one.about}" + ("" if there else "; none of its serials is in this run")


def _misses(one: Waiver, accounts: list[Account]) -> Iterator[str]:
    for account in accounts:
        for finding in (*(account.judged.findings if account.judged else []), *account.fleet):
            if finding.about == one.about and finding.verdict in (Verdict.FAIL, Verdict.INCOMPLETE):
                why = waivers.mismatch(one, finding, serials(account.way, finding.subject))
                yield f"{account.expected.host} {finding.subject}: {why or 'waived by another'}"
