"""Whose processes compute on a GPU: those of this run, by descent from its supervisor, or somebody else's."""

from __future__ import annotations

import os
from pathlib import Path

DEPTH = 64  # generations from a rank to its supervisor; three are usual


class Family:
    """Every process that descends from the sampler's parent; one known once stays known until its id is used anew."""

    def __init__(self, proc: Path = Path("/proc"), head: int = 0) -> None:
        self._proc, self._head = proc, head or os.getppid()
        self._known: set[tuple[int, str]] = set()

    def foreign(self, processes: str) -> int:
        """How many of "PID PID ..." are not ours. One that has ended, or that /proc does not show, is not counted."""
        return sum(self._stranger(int(pid)) for pid in processes.split() if pid.isdigit())

    def _stranger(self, pid: int) -> bool:
        me = self._parent(pid)
        if me is None or (pid, me[1]) in self._known:
            return False
        above: tuple[int, str] | None = (pid, "")
        for _ in range(DEPTH):
            if above is None or above[0] <= 1:
                return True
            if above[0] == self._head:
                self._known.add((pid, me[1]))
                return False
            above = self._parent(above[0])
        return True

    def _parent(self, pid: int) -> tuple[int, str] | None:
        """The parent of a process and its own start time (proc_pid_stat(5), fields 4 and 22); None if it is gone."""
        try:
            fields = (self._proc / str(pid) / "stat").read_text().rpartition(")")[2].split()
            return int(fields[1]), fields[19]
        except (OSError, IndexError, ValueError):
            return None
