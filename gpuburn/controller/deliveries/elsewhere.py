"""Runs that belong to no delivery: who failed in one is noted in its journal, and a later run of the same host, or of a
host with the same serial, says so. Only journals are read, and of those only such as name somebody who failed.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from gpuburn import journal
from gpuburn.attempt import FAILED
from gpuburn.controller import people
from gpuburn.controller.run import RUN, Run
from gpuburn.controller.waived import SERIALS
from gpuburn.journal import Entry

if TYPE_CHECKING:
    from gpuburn.controller.account import Account

EVENT = "failures"  # the journal's line that names hosts of no delivery that failed: {host: its serials as JSON}
AT_ONCE = 25  # hosts of one line, with the numbers of some thirty parts each


@dataclass
class Failures:
    """In which run a host of this name, or one with this serial, failed last without a recorded cause."""

    by_host: dict[str, str] = field(default_factory=dict)
    by_serial: dict[str, str] = field(default_factory=dict)

    def why(self, account: Account) -> str:
        """That the host failed before, in words; "" if it did not."""
        runs = [self.by_host.get(account.expected.host, ""), *(self.by_serial.get(one, "") for one in serials(account))]
        last = max(runs)
        same = "it" if last == runs[0] else "a host with the same serial"
        return f"{same} failed in run {last}, which belongs to no delivery" if last else ""


def alone(account: Account) -> bool:
    """Whether a host belongs to no delivery, and its word is about hardware."""
    return not account.expected.delivery and account.expected.kind == "hardware"


def serials(account: Account) -> list[str]:
    return [part.value for part in (account.judged.parts if account.judged else []) if part.kind in SERIALS]


def note(run: Run, accounts: Iterable[Account], at: float) -> None:
    """Write down who failed, and who no longer does, where the journal does not say so already."""
    entries = run.told()
    before = _noted(entries)
    now = {a.expected.host: json.dumps(serials(a)) if a.decision in FAILED else "" for a in accounts if alone(a)}
    fresh = [(host, said) for host, said in sorted(now.items()) if said != before.get(host, "")]
    for start in range(0, len(fresh), AT_ONCE):
        journal.append(run.journal, at, EVENT, "", dict(fresh[start : start + AT_ONCE]))


def failures(run: Run) -> Failures:
    """Who failed in the runs before this one in its folder."""
    found = Failures()
    for folder in sorted(run.folder.parent.iterdir()):
        if RUN.fullmatch(folder.name) and folder.name < run.id and _speaks(folder / "journal.jsonl"):
            _add(found, Run(folder.name, folder))
    return found


def _speaks(book: Path) -> bool:
    """Whether a journal may name somebody who failed; it is searched, not parsed."""
    return book.is_file() and book.stat().st_size <= journal.LIMIT and MARK in book.read_bytes()


MARK = json.dumps({"event": EVENT}, separators=(",", ":"))[1:-1].encode()


def _add(found: Failures, run: Run) -> None:
    entries = run.told()
    causes = {entry.host for entry in entries if entry.event == people.CAUSE}
    for host, said in _noted(entries).items():
        if said and host not in causes:
            found.by_host[host] = run.id
            found.by_serial.update(dict.fromkeys(json.loads(said), run.id))


def _noted(entries: Iterable[Entry]) -> dict[str, str]:
    noted: dict[str, str] = {}
    for entry in entries:
        if entry.event == EVENT:
            noted.update(entry.details)
    return noted
