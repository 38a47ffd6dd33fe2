"""The mains of one host: runs systemd-nspawn and, as firmware would, runs it again when the host asked for a reboot."""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

from .process import Process
from .waiting import until

# Enter the cgroups, then become the command.
JOIN = 'for group; do shift; [ "$group" = -- ] && break; echo $$ >"$group"; done; exec "$@"'
REBOOT = 133  # how systemd-nspawn's exit status says that the host asked to be booted again
ENVIRONMENT = {
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "SYSTEMD_NSPAWN_UNIFIED_HIERARCHY": "1",  # inside cgroup v2 alone, as today's servers have it
    "SYSTEMD_NSPAWN_TMPFS_TMP": "0",  # /tmp on the disk, as servers have it, and not in this machine's memory
}


def nspawn(machine: str, hostname: str, root: Path, bridge: str, options: Sequence[str]) -> list[str]:
    """The container's command line."""
    return [
        "systemd-nspawn", "--quiet", "--register=no", "--keep-unit", f"--machine={machine}", f"--hostname={hostname}",
        f"--directory={root}", f"--network-bridge={bridge}", "--boot", "--link-journal=no", "--resolv-conf=off",
        "--timezone=off", "--tmpfs=/dev/shm:mode=1777,nosuid,nodev,size=1g",
        "--oom-score-adjust=500",  # short of memory, a host goes before anything of the machine's
        *options,
    ]  # fmt: skip


class Power(threading.Thread):
    """From switching on to the end of the last boot; `started` is called after each start, in this thread."""

    def __init__(
        self,
        command: Sequence[str],
        cgroups: Sequence[Path],
        console: Path,
        started: Callable[[Process], None],
        returns: Callable[[], bool],
    ) -> None:
        super().__init__(name=f"power of {console.parent.name}", daemon=True)
        self.supervisor: Process | None = None
        self._command = ["sh", "-c", JOIN, "sh", *(str(folder / "cgroup.procs") for folder in cgroups), "--", *command]
        self._console, self._record, self._returns = console, started, returns
        self._off = False

    def run(self) -> None:
        code = REBOOT
        while code == REBOOT and self._returns() and not self._off:
            with self._console.open("ab") as console:
                child = subprocess.Popen(
                    self._command, stdin=subprocess.DEVNULL, stdout=console, stderr=console, env=ENVIRONMENT,
                    start_new_session=True, umask=0o022,  # its own session: Ctrl-C at the tests is not for the host
                )  # fmt: skip
            try:
                self.supervisor = Process.of(child.pid)
                if self.supervisor:
                    self._record(self.supervisor)
            finally:
                code = child.wait()

    @property
    def init(self) -> Process | None:
        return self.supervisor.init() if self.supervisor else None

    def cut(self) -> None:
        """SIGKILL to the container's init; to systemd-nspawn it would leave the container and its link behind."""
        self._off = True
        until(lambda: self.init or not self.is_alive(), "the container's init to appear", timeout=20)
        if init := self.init:
            init.kill()
        self.join(30)
        if self.is_alive():
            raise TimeoutError(f"{self.name}: systemd-nspawn did not end after its init was killed")
