"""The host as a probe of scope host sees it: a scratch folder, the planned devices, and ranks that it may launch."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from gpuburn import plan
from gpuburn.agent.lifeline import tie


def torchrun(module: str, arguments: list[str], world: int, logs: Path) -> list[str]:
    """The command that runs a module in one process per device on this host, once, without restarts."""
    return [
        sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={world}", "--max-restarts=0",
        f"--log-dir={logs}", "--redirects=3", "-m", module, *arguments,
    ]  # fmt: skip


class Ranks:
    """Processes started by torchrun. Each rank writes its pid to pid.<rank> in the folder before anything else."""

    def __init__(self, command: list[str], folder: Path, env: dict[str, str]) -> None:
        self.folder = folder
        self._log = (folder / "launcher.log").open("ab")
        tied = partial(tie, os.getpid())
        self._process = subprocess.Popen(
            command, stdout=self._log, stderr=subprocess.STDOUT, env={**os.environ, **env}, preexec_fn=tied
        )

    def pid(self, rank: int) -> int | None:
        """The process id of a rank; None as long as it has not started."""
        path = self.folder / f"pid.{rank}"
        return int(path.read_text()) if path.exists() and path.read_text() else None

    def send(self, rank: int, number: signal.Signals) -> None:
        """A signal to one rank, as fate would: SIGKILL is a crash, SIGSTOP a hang."""
        pid = self.pid(rank)
        if pid is None:
            raise RuntimeError(f"rank {rank} has not started")
        os.kill(pid, number)

    def behead(self) -> None:
        """SIGKILL the launcher alone: its ranks must end by themselves (death signal)."""
        self._process.kill()

    def said(self) -> int:
        """How many bytes the launcher has written so far: it is silent as long as its ranks are well."""
        return (self.folder / "launcher.log").stat().st_size

    def poll(self) -> int | None:
        """The launcher's exit status; None while it runs."""
        return self._process.poll()

    def wait(self, timeout: float) -> int:
        """The launcher's exit status; after the timeout it is stopped, and TimeoutError is raised."""
        try:
            return self._process.wait(timeout)
        except subprocess.TimeoutExpired:
            self.stop()
            raise TimeoutError(f"ranks not done within {timeout:g} s") from None

    def stop(self) -> None:
        """End the launcher, which ends its ranks; they would also end with it (death signal)."""
        self._process.terminate()
        try:
            self._process.wait(15)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(15)
        self._log.close()

    def last_words(self) -> str:
        """The end of the launcher's log, for a message."""
        return (self.folder / "launcher.log").read_text(errors="replace")[-600:]


@dataclass(frozen=True, slots=True)
class Host:
    """folder: scratch, removed after the step. devices: as planned. threads: per process.

    seen: what only root can read, as the supervisor read it just before the step. lost: devices that are gone.
    log: the folder that is kept as the step's log; None where nothing is.
    """

    name: str
    folder: Path
    devices: list[plan.Device]
    seed: int
    threads: int
    seen: dict[str, Any] = field(default_factory=dict)
    lost: list[str] = field(default_factory=list)
    log: Path | None = None

    @property
    def left(self) -> list[plan.Device]:
        """The devices that work is given to."""
        return [one for one in self.devices if one.name not in self.lost]

    def ranks(self, module: str, arguments: list[str], folder: Path) -> Ranks:
        """Start one process of the module per device that is left, with RANK and WORLD_SIZE in its environment."""
        folder.mkdir(parents=True, exist_ok=True)
        for old in folder.glob("pid.*"):
            old.unlink()
        command = torchrun(module, arguments, len(self.left), folder / "log")
        return Ranks(command, folder, {"OMP_NUM_THREADS": str(self.threads or 1)})

    @staticmethod
    def until(seconds: float) -> float:
        """The monotonic moment at which so many seconds are over."""
        return time.monotonic() + seconds
