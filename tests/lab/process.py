"""A process as recorded: a pid alone may belong to another process tomorrow, so its start time goes with it."""

from __future__ import annotations

import contextlib
import os
import signal
from dataclasses import dataclass
from pathlib import Path

PROC = Path("/proc")


def machine_boot_id() -> str:
    """The boot that start times are counted from; records of an earlier boot name no process of this one."""
    return (PROC / "sys/kernel/random/boot_id").read_text().strip()


def _stat(pid: int) -> list[str]:
    """The fields of /proc/PID/stat after the command, which is in brackets and may itself contain any of them."""
    try:
        return (PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return []


@dataclass(frozen=True, slots=True)
class Process:
    pid: int
    started: int  # clock ticks since the machine's boot: field 22 of /proc/PID/stat

    @classmethod
    def of(cls, pid: int) -> Process | None:
        """The process that has this pid now, or None."""
        stat = _stat(pid)
        return cls(pid, int(stat[19])) if stat else None

    @property
    def alive(self) -> bool:
        """Whether this very process runs; one that has ended and was not waited for yet does not."""
        stat = _stat(self.pid)
        return bool(stat) and int(stat[19]) == self.started and stat[0] not in "ZX"

    def send(self, number: int) -> None:
        """Signal this very process, no successor of its pid: the descriptor is opened, then the start compared."""
        with contextlib.suppress(ProcessLookupError):
            handle = os.pidfd_open(self.pid)
            try:
                if self.alive:
                    signal.pidfd_send_signal(handle, number)
            finally:
                os.close(handle)

    def kill(self) -> None:
        self.send(signal.SIGKILL)

    def init(self) -> Process | None:
        """The container's init, if this is a systemd-nspawn that has started one: its child that is PID 1 inside."""
        try:
            children = (PROC / f"{self.pid}/task/{self.pid}/children").read_text().split()
        except (FileNotFoundError, ProcessLookupError):
            return None
        found = [Process.of(int(pid)) for pid in children if _pid_inside(pid) == "1"]
        return next((process for process in found if process), None)


def _pid_inside(pid: str) -> str:
    try:
        status = (PROC / pid / "status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return ""
    line = next((line for line in status.splitlines() if line.startswith("NSpid:")), "")
    return line.split()[-1] if len(line.split()) > 2 else ""  # one number only: no PID namespace of its own
