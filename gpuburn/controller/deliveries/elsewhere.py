"""Who failed in a run that is not of the host's own history: in another delivery, in none, or under another name.

Each run notes in its journal who failed in it, with the serials; a later run of a host with such a serial says so, and
of hosts without a delivery one of the same name, too. Of journals that name nobody no line is parsed.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from gpuburn import journal
from gpuburn.controller import people
from gpuburn.controller.run import RUN, Run
from gpuburn.controller.waived import SERIALS
from gpuburn.finding import Verdict
from gpuburn.journal import Entry
from gpuburn.plan import members

if TYPE_CHECKING:
    from gpuburn.attempt import Attempt
    from gpuburn.controller.account import Account

EVENT = "failures"  # the journal's line that names hosts that failed: {host: serials as JSON}
FOLLOWED = "followed"  # that a host failed elsewhere: run, why
GPU = "gpu"  # how the subject of a device begins
AT_ONCE = 25  # hosts of one line, with the numbers of some thirty parts each


@dataclass
class Failures:
    """In which run something failed last without a recorded cause: {name: run} of hosts without a delivery, and
    {serial: {(delivery, host): run}}. nameless: {name: {delivery: run}} of hosts that left no serial when they failed.

    unread: runs on hardware whose journal does not tell, in words.
    """

    by_host: dict[str, str] = field(default_factory=dict)
    by_serial: dict[str, dict[tuple[str, str], str]] = field(default_factory=dict)
    nameless: dict[str, dict[str, str]] = field(default_factory=dict)
    unread: list[str] = field(default_factory=list)

    def add(self, run: str, host: str, delivery: str, serials: Iterable[str]) -> None:
        """It failed, and nobody said why."""
        if not delivery:
            self.by_host[host] = max(run, self.by_host.get(host, ""))
        told = list(serials)
        for serial in told:
            mine = self.by_serial.setdefault(serial, {})
            mine[delivery, host] = max(run, mine.get((delivery, host), ""))
        if not told:
            self.nameless.setdefault(host, {})[delivery] = run

    def why(self, host: str, delivery: str, serials: Iterable[str]) -> str:
        """That this machine failed, in words; "" if it did not. Its own history in its delivery is not told here."""
        own = (delivery, host) if delivery else None
        found = {
            (run, of): "a host with the same serial"
            for serial in serials
            for of, run in self.by_serial.get(serial, {}).items()
            if of != own
        }
        if not delivery and host in self.by_host:
            found[self.by_host[host], ("", host)] = "it"
        found |= {(run, (of, host)): "it" for of, run in self.nameless.get(host, {}).items() if (of, host) != own}
        if not found:
            return ""
        (run, (where, name)), who = max(found.items())
        who = who if name != host or where == delivery else "it"
        return f"{who} failed in run {run}, which belongs to {f'delivery {where}' if where else 'no delivery'}"


def speaks(account: Account) -> bool:
    """Whether the run's word on this host is about hardware."""
    return account.expected.kind == "hardware"


def serials(account: Account) -> list[str]:
    return [part.value for part in (account.judged.parts if account.judged else []) if part.kind in SERIALS]


def failed(account: Account) -> list[str]:
    """The serials to remember: of the devices that failed and of the host, or of everything where the host did."""
    bad = {one.subject for one in (*(account.judged.findings if account.judged else []), *account.fleet)
           if one.verdict is Verdict.FAIL or one.code == people.HELD}  # fmt: skip
    devices = {name for one in bad if one.startswith(GPU) for name in members(one)}
    parts = account.judged.parts if account.judged else []
    mine = [part for part in parts if part.kind in SERIALS]
    if devices and all(one.startswith(GPU) for one in bad):
        mine = [part for part in mine if part.subject in devices or not part.subject.startswith(GPU)]
    return [part.value for part in mine]


def followed(run: Run) -> dict[str, str]:
    """{host: why} of failures that this run noted in runs that are not beside it."""
    last: dict[str, tuple[str, str]] = {}
    for entry in run.told():
        if entry.event == FOLLOWED:
            last[entry.host] = (entry.details.get("run", ""), entry.details.get("why", ""))
    return {host: why for host, (other, why) in last.items() if why and not (run.folder.parent / other).is_dir()}


def follow(run: Run, whys: dict[str, str], at: float) -> None:
    """Note which failures elsewhere the run's hosts have behind them, and which no longer."""
    before = {one.host: one.details.get("why", "") for one in run.told() if one.event == FOLLOWED}
    for host in sorted({*whys, *before}):
        why = whys.get(host, "")
        if why != before.get(host, ""):
            other = RUN.search(why)
            run.note(at, FOLLOWED, host, run=other[0] if other else "", why=why)


def judged(found: Failures, attempts: Iterable[Attempt], delivery: str) -> None:
    """What failed in these attempts of a delivery, reported or not."""
    for one in attempts:
        if one.kind == "hardware" and one.bad and not one.cause:
            found.add(one.run, one.host, delivery, one.suspects)


def note(run: Run, accounts: Iterable[Account], at: float) -> None:
    """Write down who failed, and who no longer does, where the journal does not say so already."""
    entries = run.told()
    before = _noted(entries)
    now = {a.expected.host: json.dumps(failed(a)) if people.said_of(a) == people.FAILED else "" for a in accounts
           if speaks(a)}  # fmt: skip
    fresh = [(host, said) for host, said in sorted(now.items()) if said != before.get(host, "")]
    for start in range(0, len(fresh), AT_ONCE):
        journal.append(run.journal, at, EVENT, "", dict(fresh[start : start + AT_ONCE]))


def failures(reports: Path, before: str = "~") -> Failures:
    """Who failed in the runs of this folder, up to a run id."""
    found = Failures()
    for folder in sorted(reports.iterdir()) if reports.is_dir() else []:
        if RUN.fullmatch(folder.name) and folder.name < before:
            run = Run(folder.name, folder)
            if _speaks(run.journal):
                _add(found, run)
            elif not run.journal.is_file() or run.journal.stat().st_size > journal.LIMIT:
                _unread(found, run, "is missing" if not run.journal.exists() else "cannot be read")
    return found


def _unread(found: Failures, run: Run, why: str) -> None:
    """A run on hardware whose journal does not tell who failed in it."""
    if (run.folder / "expected.json").is_file() and any(one.kind == "hardware" for one in run.expected()):
        found.unread.append(f"run {run.id}: its journal {why}, and may name hosts that failed; put it back")


def _speaks(book: Path) -> bool:
    """Whether a journal may name somebody who failed; it is searched, not parsed."""
    return book.is_file() and book.stat().st_size <= journal.LIMIT and MARK in book.read_bytes()


MARK = json.dumps({"event": EVENT}, separators=(",", ":"))[1:-1].encode()


def _add(found: Failures, run: Run) -> None:
    entries, wrong = run.followed()
    if wrong:
        _unread(found, run, f"does not hold ({wrong})")
    by_host: dict[str, list[Entry]] = {}
    for entry in entries:
        by_host.setdefault(entry.host, []).append(entry)
    deliveries = {one.host: one.delivery for one in run.expected()}
    for host, said in _noted(entries).items():
        if said and not people.cause(by_host.get(host, []), people.FAILED):
            found.add(run.id, host, deliveries.get(host, ""), json.loads(said))


def _noted(entries: Iterable[Entry]) -> dict[str, str]:
    noted: dict[str, str] = {}
    for entry in entries:
        if entry.event == EVENT:
            noted.update(entry.details)
    return noted
