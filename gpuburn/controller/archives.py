"""Sealed files that came from hosts: incoming/<host>.tar.gz, a later and different one beside it.

None is ever replaced or removed. The journal vouches for each, and for the plan that it answers to.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from gpuburn import strict
from gpuburn.controller import unseal
from gpuburn.controller.run import Run
from gpuburn.journal import Entry
from gpuburn.strict import Refused

MOST = 7  # different ones of one host that are kept: as many digests fit into a line of the journal
COLLECTED, ANOTHER = "collected", "another"


@dataclass(frozen=True, slots=True)
class Held:
    """SHA-256 of a host's plan ("" if there is none) and of its sealed files, in the order in which they came."""

    plan: str = ""
    archives: list[str] = field(default_factory=list)

    def details(self) -> dict[str, str]:
        """What the journal's line has of it."""
        return {"plan": self.plan, "archives": " ".join(self.archives)}


def of(run: Run, host: str) -> list[Path]:
    """Every sealed file of a host, in the order in which they came; the first keeps its place, also when it is lost."""
    first = run.incoming(host)
    later: list[Path] = []
    while (path := run.incoming(host, len(later) + 2)).exists():
        later.append(path)
    return [first, *later] if first.exists() or later else []


def held(run: Run, host: str) -> Held:
    plan = run.host(host) / "plan.json"
    return Held(digest(plan), [digest(path) for path in of(run, host)])


def digest(path: Path) -> str:
    """SHA-256 of a file, "" for what is no regular one of bounded size: no link is followed, no pipe waited for."""
    plain = path.is_file() and not path.is_symlink() and path.stat().st_size <= unseal.PACKED
    return strict.digest_file(path) if plain else ""


def file_away(run: Run, host: str) -> Path | None:
    """Give what was just fetched its name. None: nothing was, or it is what came before."""
    fetched = run.arriving(host)
    if not fetched.exists():
        return None
    kept = of(run, host)
    if digest(fetched) in map(digest, kept):
        fetched.unlink()  # the same bytes are here already
        return None
    if len(kept) >= MOST:
        raise Refused(f"{fetched.name}: {MOST} different sealed files of this host are here; no more are taken")
    free = run.incoming(host, len(kept) + 1)
    fetched.rename(free)
    return free


def vouched(run: Run, host: str, entries: Iterable[Entry]) -> tuple[Entry | None, Held]:
    """The last line of the journal about what came from a host, and what is here now. Raises Refused if what that line
    vouches for is no longer what is here; what has come since is not refused."""
    now = held(run, host)
    lines = [entry for entry in entries if entry.event == COLLECTED and "archives" in entry.details]
    if not lines:
        return None, now
    last = lines[-1]
    since = f"since line {last.number} of the journal took it in"
    if now.plan != last.details.get("plan", ""):
        raise Refused(f"plan.json was {'changed' if now.plan else 'lost'} {since}")
    for number, was in enumerate(last.details["archives"].split(), 1):
        found = now.archives[number - 1] if number <= len(now.archives) else ""
        if found != was:
            raise Refused(f"{run.incoming(host, number).name} was {'changed' if found else 'lost'} {since}")
    return last, now


def over(run: Run, host: str, entries: Iterable[Entry]) -> bool:
    """Whether the host has done its run: it came to its end, or its result is here. It is never started again."""
    for entry in entries:
        if entry.event == COLLECTED and entry.details.get("finished") == "yes":
            return True
        if entry.event == "phase" and entry.details.get("phase") == "finished":
            return True
    return any(unseal.holds(path, "result.json") for path in of(run, host) if path.exists())
