"""Whose processes compute on a GPU: those of this run, by descent from its supervisor, or somebody else's."""

from __future__ import annotations

import os
from pathlib import Path

DEPTH = 64  # generations from a rank to its supervisor; three are usual


INITIAL = "pid:[4026531836]"  # the kernel's first PID namespace (include/linux/proc_ns.h, PROC_PID_INIT_INO)


class Family:
    """Every process that descends from the sampler's parent; one known once stays known until its id is used anew.

    whole: whether /proc shows all processes of the machine. NVML tells of them all, a container's /proc of its own.
    """

    def __init__(self, proc: Path = Path("/proc"), head: int = 0, whole: bool | None = None) -> None:
        self._proc, self._head = proc, head or os.getppid()
        self._whole = _whole(proc) if whole is None else whole
        self._known: set[tuple[int, str]] = set()
        self._unseen: dict[str, set[int]] = {}

    def foreign(self, subject: str, processes: str) -> int | None:
        """How many of "PID PID ..." on a GPU are not ours. One that /proc does not show has ended, or is a stranger's
        that it never showed: it counts from the second look on. None where /proc does not show all."""
        if not self._whole:
            return None
        pids = {int(pid) for pid in processes.split() if pid.isdigit()}
        unseen = {pid for pid in pids if self._parent(pid) is None}
        again = unseen & self._unseen.get(subject, set())
        self._unseen[subject] = unseen
        return len(again) + sum(self._stranger(pid) for pid in pids - unseen)

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


def _whole(proc: Path) -> bool:
    """Whether this process lives in the machine's own PID namespace; what cannot be read is taken for none."""
    try:
        return os.readlink(proc / "self/ns/pid") == INITIAL
    except OSError:
        return False
