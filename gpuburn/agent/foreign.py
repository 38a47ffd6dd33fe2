"""How much of the host's CPUs others use while a step runs, read from /proc alone.

Only time in user mode is counted (proc_pid_stat(5): utime, cutime; /proc/stat: user, nice; cgroup v2: user_usec): what
the kernel does for us in its own threads and interrupts, such as writing a checkpoint back, has none.
"""

from __future__ import annotations

import os
import time
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

PROC = Path("/proc")
PERIOD = 10.0  # seconds between samples: without a cgroup each reads every process's stat, 0.1 s where there are 5,000
SUSTAINED = 3  # samples: a cron job or a package index of some seconds is no foreign load
TICKS = os.sysconf("SC_CLK_TCK")
SUSPECT = 0.01  # share from which it is noted who used how much so far: the least that a site may allow
NAMED = 3


@dataclass(frozen=True, slots=True)
class Sample:
    """Ticks since boot: of all CPUs together, in user mode by anyone, in user mode by us."""

    all: int
    user: int
    ours: int


class ForeignLoad:
    """group: the step's control group, where it has one; else the tree below root is ours. clock: seconds."""

    def __init__(
        self, group: Path | None = None, proc: Path = PROC, root: int | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:  # fmt: skip
        self._group, self._proc, self._clock = group, proc, clock
        self._root = os.getpid() if root is None else root
        self._at, self._last = clock(), self._sample()
        self._shares: deque[float] = deque(maxlen=SUSTAINED)
        self._before: dict[int, int] = {}

    def sustained(self) -> float | None:
        """The share of all CPUs (0 to 1) that others used at least, over the last samples; None while there are few.

        Told once per sample.
        """
        if self._clock() - self._at < PERIOD:
            return None
        self._at, last, now = self._clock(), self._last, self._sample()
        self._last = now
        if last is None or now is None or now.all <= last.all:
            self._shares.clear()
            return None
        used = (now.user - last.user) - max(0, now.ours - last.ours)
        share = max(0.0, used / (now.all - last.all))
        if share >= SUSPECT and (not self._shares or self._shares[-1] < SUSPECT):
            self._before = self._others()
        self._shares.append(share)
        return min(self._shares) if len(self._shares) == SUSTAINED else None

    def busiest(self) -> str:
        """Who used most since the load began, for a person: name, pid, seconds in user mode."""
        now = self._others()
        used = Counter({pid: ticks - self._before.get(pid, 0) for pid, ticks in now.items()})
        told = [
            f"{self._name(pid)} ({pid}) {ticks / TICKS:.0f} s" for pid, ticks in used.most_common(NAMED) if ticks > 0
        ]
        return f"; busiest: {', '.join(told)}" if told else ""

    def _sample(self) -> Sample | None:
        """None where /proc/stat is not there or has another form."""
        try:
            name, *fields = (self._proc / "stat").read_text().split("\n", 1)[0].split()
            ticks = [int(one) for one in fields[:8]]  # user nice system idle iowait irq softirq steal
            return Sample(sum(ticks), ticks[0] + ticks[1], self._ours()) if name == "cpu" else None
        except (OSError, ValueError, IndexError):
            return None

    def _ours(self) -> int:
        if self._group:
            try:
                pairs = dict(line.split() for line in (self._group / "cpu.stat").read_text().splitlines())
                return int(pairs["user_usec"]) * TICKS // 1_000_000
            except (OSError, ValueError, KeyError):
                self._group = None  # for the rest of the step: the two ways of counting are not mixed
        stats = self._stats()
        return sum(stats[pid][1] for pid in self._mine(stats))

    def _others(self) -> dict[int, int]:
        """{pid: ticks in user mode} of all processes that do not descend from us."""
        stats = self._stats()
        mine = self._mine(stats)
        return {pid: ticks for pid, (_, ticks) in stats.items() if pid not in mine}

    def _mine(self, stats: dict[int, tuple[int, int]]) -> set[int]:
        found, more = set[int](), {self._root}
        while more:
            found |= more
            more = {pid for pid, (parent, _) in stats.items() if parent in found} - found
        return found & stats.keys()

    def _stats(self) -> dict[int, tuple[int, int]]:
        """{pid: (parent, ticks in user mode with those of children that ended and were waited for)}."""
        found = {}
        for entry in self._proc.iterdir():
            if entry.name.isdigit():
                try:
                    fields = (entry / "stat").read_text().rpartition(")")[2].split()
                    found[int(entry.name)] = int(fields[1]), int(fields[11]) + int(fields[13])
                except (OSError, ValueError, IndexError):
                    continue  # ended while we looked
        return found

    def _name(self, pid: int) -> str:
        try:
            text = (self._proc / str(pid) / "comm").read_text(errors="replace").strip()[:15]
        except OSError:
            return "?"
        return "".join(one if one.isprintable() else "?" for one in text)
