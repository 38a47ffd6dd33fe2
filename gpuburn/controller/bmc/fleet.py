"""All hosts' BMCs, asked side by side in one call: a slow one holds up nobody else."""

from __future__ import annotations

import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from gpuburn.bmc import Look, Moment
from gpuburn.controller import archives, gone, site as sites
from gpuburn.controller.bmc import access, kept, look
from gpuburn.controller.run import Expected, Run
from gpuburn.journal import Entry
from gpuburn.strict import Refused

AT_ONCE = 32  # sessions side by side: a look is 250 small answers
BRIEF = 60.0  # seconds of a look while the other hosts' progress waits for it
PATIENCE = 30.0  # seconds over a look's own time, after which its thread is left behind

Take = Callable[[], Look]


def ask(run: Run, moment: Moment, variables: Mapping[str, Mapping[str, Any]], now: float) -> dict[str, str]:
    """Look at every BMC that the run expects, and keep it: {host: "" or why it was silent}. now: unix seconds."""
    entries = run.by_host()
    wanted: dict[str, Take] = {}
    before: dict[str, list[Look]] = {}
    told: dict[str, str] = {}
    for one in run.expected():
        mine = entries.get(one.host, [])
        if not one.bmc or one.host not in variables:
            continue
        try:
            before[one.host] = kept.looks(run, one.host, mine)
            if _due(moment, before[one.host], gone.started(mine), _came(mine)):
                wanted[one.host] = _taker(one, variables[one.host], moment, before[one.host], now)
        except Refused as error:
            told[one.host] = str(error)
    for host, seen in every(wanted, look.LOOK + PATIENCE):
        if seen is None:
            verified = access.verified(sites.read(dict(variables[host]), host)[0]) or "unverified"
            seen = Look(moment, now, verified, silent="the look was given up: no end in its time, or an error of ours")
        kept.keep(run, host, before[host], seen)
        told[host] = seen.silent
    return told


def _came(entries: Iterable[Entry]) -> bool:
    return any(entry.event == archives.COLLECTED for entry in entries)


def _due(moment: Moment, before: list[Look], started: bool, collected: bool) -> bool:
    """The start once, before the host is at work; the first finding once, while it is; the end until one was heard
    after its result came home."""
    had = next((one for one in before if one.moment == moment), None)
    if moment == "finding":
        return started and had is None and not collected
    if moment == "start":
        return not started and (had is None or bool(had.silent))
    return had is None or bool(had.silent) or not collected


def _taker(one: Expected, variables: Mapping[str, Any], moment: Moment, before: list[Look], now: float) -> Take:
    site, _ = sites.read(dict(variables), f"host {one.host}")
    access.check(site, f"host {one.host}")
    reached = access.of(site, variables)
    first = next((look.log for look in before if look.moment == "start" and not look.silent), None)
    seconds = BRIEF if moment == "finding" else look.LOOK
    return lambda: look.take(reached, moment, now, first, seconds)


def every(wanted: Mapping[str, Take], seconds: float, at_once: int = AT_ONCE) -> Iterator[tuple[str, Look | None]]:
    """Each host's look as it comes, at_once side by side; None of one that took longer than so many seconds.

    A thread cannot be ended from outside (a name that does not resolve, a header byte by byte), so it is left behind:
    it is a daemon, and its answer is not waited for.
    """
    waiting, done = deque(wanted.items()), queue.Queue[tuple[str, Look | None]]()
    ends: dict[str, float] = {}
    while waiting or ends:
        while waiting and len(ends) < at_once:
            host, take = waiting.popleft()
            ends[host] = time.monotonic() + seconds
            threading.Thread(target=_one, args=(host, take, done), daemon=True).start()
        try:
            host, seen = done.get(timeout=max(0.01, min(ends.values()) - time.monotonic()))
        except queue.Empty:
            for late in [name for name, end in ends.items() if end <= time.monotonic()]:
                del ends[late]
                yield late, None
            continue
        if ends.pop(host, None) is not None:
            yield host, seen


def _one(host: str, take: Take, done: queue.Queue[tuple[str, Look | None]]) -> None:
    """An error of ours is printed by the thread, and leaves its host without a look: nobody waits for it."""
    seen = None
    try:
        seen = take()
    finally:
        done.put((host, seen))
