"""A tree of processes and its end: who belongs to it, SIGTERM, SIGKILL, and who is still there after that."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

PROC = Path("/proc")
Process = tuple[int, int]  # pid and start time in ticks: a pid alone may have been given to another


def start_time(pid: int, proc: Path = PROC) -> int | None:
    """When a process started, in clock ticks since boot; None when it is gone or a zombie."""
    try:
        fields = (proc / str(pid) / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] in ("Z", "X") else int(fields[19])


def tree(roots: list[int], proc: Path = PROC) -> list[Process]:
    """The processes and all their descendants, as they are now."""
    parents: dict[int, int] = {}
    for entry in proc.iterdir():
        if entry.name.isdigit():
            try:
                parents[int(entry.name)] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            except OSError:
                continue  # ended while we looked
    found = set(roots)
    while True:
        more = {pid for pid, parent in parents.items() if parent in found} - found
        if not more:
            break
        found |= more
    return [(pid, started) for pid in sorted(found) if (started := start_time(pid, proc)) is not None]


def alive(processes: list[Process], proc: Path = PROC) -> list[Process]:
    """Those of the processes that still run, by pid and start time."""
    return [one for one in processes if start_time(one[0], proc) == one[1]]


def send(processes: list[Process], number: signal.Signals) -> None:
    """Signal exactly these processes; one that ended meanwhile is left out."""
    for pid, _ in alive(processes):
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            continue


def stopped(pid: int, proc: Path = PROC) -> bool:
    """Whether no thread of a process runs any more: all stand still (SIGSTOP), or it is gone."""
    try:
        said = [(task / "stat").read_text() for task in (proc / str(pid) / "task").iterdir()]
    except OSError:  # a thread, or the whole, ended while we looked
        return start_time(pid, proc) is None
    return all(one.rpartition(")")[2].split()[0] in "TtZX" for one in said)


def wait_gone(processes: list[Process], seconds: float, reap: object = None) -> list[Process]:
    """Those that are still there after at most so many seconds."""
    end = time.monotonic() + seconds
    while True:
        if callable(reap):
            reap()
        left = alive(processes)
        if not left or time.monotonic() > end:
            return left
        time.sleep(0.05)
