"""A waiver made from a run: the serials of the parts that fail a quantity there. Stops at the text of the entry."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterable
from dataclasses import dataclass

from gpuburn import waiver as waivers
from gpuburn.controller.account import Account
from gpuburn.controller.waived import serials
from gpuburn.finding import Verdict
from gpuburn.strict import Refused, known
from gpuburn.waiver import IN_DOUBT, Waiver


@dataclass(frozen=True, slots=True)
class Scope:
    """What the serials are taken from; empty is everything. code: of the findings."""

    about: str
    code: str = ""
    hosts: tuple[str, ...] = ()
    racks: tuple[str, ...] = ()
    skus: tuple[str, ...] = ()

    def holds(self, account: Account) -> bool:
        e = account.expected
        asked = ((self.hosts, e.host), (self.racks, e.rack), (self.skus, e.sku))
        return all(not globs or any(fnmatch.fnmatchcase(value, one) for one in globs) for globs, value in asked)


@dataclass(frozen=True, slots=True)
class Found:
    """serials: of the parts that fail. nameless: "host subject" of those that say no serial."""

    serials: tuple[str, ...]
    parts: int
    nameless: tuple[str, ...]


def failing(accounts: Iterable[Account], scope: Scope) -> Found:
    """The serials of what fails the quantity within the scope, one for each part: its serial, or its UUID."""
    known(scope.about, waivers.abouts(), "--about")
    found: dict[str, None] = {}
    nameless: dict[str, None] = {}
    parts: dict[tuple[str, str], None] = {}
    for account in accounts:
        for one in (*(account.judged.findings if account.judged else []), *account.fleet):
            fits = one.about == scope.about and one.verdict is Verdict.FAIL and one.code not in IN_DOUBT
            if not fits or (scope.code and one.code != scope.code) or not scope.holds(account):
                continue
            parts[(account.expected.host, one.subject)] = None
            name = _name(account, one.subject)
            if name:
                found[name] = None
            else:
                nameless[f"{account.expected.host} {one.subject}"] = None
    return Found(tuple(found), len(parts), tuple(nameless))


def _name(account: Account, subject: str) -> str:
    """The part's serial, else its UUID or whatever number it has; "" where it says none."""
    mine = {
        part.kind: part.value for part in (account.judged.parts if account.judged else []) if part.subject == subject
    }
    every = serials(account.way, subject)
    return next((mine[kind] for kind in ("serial", "uuid", "board", "chassis") if mine.get(kind) in every), "")


def entry(scope: Scope, found: Found, by: str, reason: str, date: str, expires: str) -> Waiver:
    """The waiver. Refused where nothing fails, or what fails has no serial to be named by."""
    if not found.parts:
        raise Refused(f"nothing fails {scope.about} there; only what failed can be waived")
    if found.nameless:
        raise Refused(f"{found.nameless[0]} fails {scope.about} and says no serial; a waiver lists serials")
    made = Waiver(f"{scope.about}-{date}", by, scope.about, found.serials, reason, date, expires, scope.code)
    return waivers.check([made], "waiver")[0]
