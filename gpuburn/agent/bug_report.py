"""Evidence of the moment, for the vendor: at the first failure of hardware, once in a run, and never waited for.

NVIDIA's own script where it is and may run, else what the host tells by itself. Bounded in time, length and files;
what could not be had is said. The script and nvidia-smi ask a driver in trouble, and may hang with it: they are
processes of their own, ended at their deadline, and one that cannot be ended is left.
"""

from __future__ import annotations

import contextlib
import os
import resource
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from gpuburn import result as results
from gpuburn.agent import kernel_log, processes
from gpuburn.agent.lifeline import tie
from gpuburn.agent.processes import Process
from gpuburn.agent.state import REPORT
from gpuburn.identity import Event
from gpuburn.strict import MEBIBYTE

SCRIPT = Path("/usr/bin/nvidia-bug-report.sh")  # where the driver's packages and its installer put it
CONTENTS = "contents.txt"  # what was kept and what could not be had: written last
LOG = "nvidia-bug-report.log"  # the script packs it, and adds .gz
DEADLINE = 300.0  # seconds: it usually needs one minute; --safe-mode leaves out what hangs with a GPU in trouble
SHORT = 60.0  # seconds for each command of our own
GONE = 0.5  # seconds to wait for what was killed
FILE, ALL = 32 * MEBIBYTE, 48 * MEBIBYTE  # bytes of one file, and of the folder
KERNEL = 4 * MEBIBYTE  # bytes of the kernel's log
STARTED, KEPT, ABSENT = "bug_report.started", "bug_report.kept", "bug_report.absent"
OWN = (("nvidia-smi.txt", ("nvidia-smi", "-q")), ("lspci.txt", ("lspci", "-vv")))
Command = tuple[str, list[str], float]  # the file of its output, the command, its seconds


class BugReport:
    """Collected at most once in a run folder; one that a restart cut short is not begun again, but concluded."""

    def __init__(self, run: Path, script: Path = SCRIPT, root: bool | None = None, deadline: float = DEADLINE,
                 own: tuple[tuple[str, tuple[str, ...]], ...] = OWN) -> None:  # fmt: skip
        self.folder, self._script, self._deadline, self._own = run / REPORT, script, deadline, own
        self._root = os.geteuid() == 0 if root is None else root
        self._queue: list[Command] = []
        self._running: tuple[str, subprocess.Popen[bytes], float] | None = None
        self._missed: list[str] = []
        self._open = self.folder.is_dir() and not (self.folder / CONTENTS).exists()

    def pids(self) -> list[int]:
        """The processes that belong to no step."""
        return [self._running[1].pid] if self._running else []

    def begin(self, why: str) -> Iterator[Event]:
        """Start collecting, unless that was done before. why: the event that asks for it."""
        if self.folder.exists():
            return
        self.folder.mkdir()
        self._open = True
        yield _event(STARTED, f"because of {why}")
        data, missing = kernel_log.tail(KERNEL)
        (self.folder / "kernel.log").write_bytes(data)
        self._missed += [f"the kernel's log: {missing}"] if missing else []
        if not self._script.is_file():
            self._missed.append(f"{self._script} is not on this host")
        elif not self._root:
            self._missed.append(f"{self._script} may be run by root only")
        else:
            command = [str(self._script), "--safe-mode", "--output-file", str(self.folder / LOG)]
            self._queue = [("script.txt", command, self._deadline)]
            return
        for name, (program, *arguments) in self._own:
            found = shutil.which(program)
            self._queue += [(name, [found, *arguments], min(SHORT, self._deadline))] if found else []
            self._missed += [] if found else [f"{program} is not on this host"]

    def advance(self) -> Iterator[Event]:
        """Go on where something has ended or is too late. Never waits longer than for what was just killed."""
        if self._running:
            name, process, end = self._running
            if process.poll() is None and time.monotonic() < end:
                return
            if process.returncode is None:
                self._missed.append(f"{name}: {self._killed(process)}")
            elif process.returncode != 0:
                self._missed.append(f"{name}: ended with status {process.returncode}")
            self._running = None
        while self._queue and not self._running:
            self._start(*self._queue.pop(0))
        if self._open and not self._running:
            self._open = False
            yield from self._conclude()

    def busy(self) -> bool:
        """Whether something is still to be collected or said."""
        return self._open

    def cut_short(self, why: str) -> None:
        """Collect no more: what runs is ended at the next advance, what waits is missing."""
        self._missed += [f"{name}: {why}" for name, _, _ in self._queue]
        self._queue = []
        if self._running:
            self._running = (*self._running[:2], time.monotonic())

    def _start(self, name: str, command: list[str], seconds: float) -> None:
        with (self.folder / name).open("xb") as out:
            try:
                process = subprocess.Popen(
                    command, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT, cwd=self.folder,
                    start_new_session=True, preexec_fn=partial(_enter, os.getpid()),
                )  # fmt: skip
            except OSError as error:
                self._missed.append(f"{name}: {error.strerror}")
                return
        self._running = (name, process, time.monotonic() + seconds)

    def _killed(self, process: subprocess.Popen[bytes]) -> str:
        tree: list[Process] = processes.tree([process.pid])
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)  # its group, for what it started since that look; not yet reaped
        processes.send(tree, signal.SIGKILL)
        left = processes.wait_gone(tree, GONE, process.poll)
        return f"ended at its deadline{'; a part of it cannot be killed' if left else ''}"

    def _conclude(self) -> Iterator[Event]:
        """Keep what is a plain file within the bounds, remove the rest, and say both."""
        kept: list[str] = []
        total = 0
        for path in sorted(self.folder.iterdir(), key=_size):
            size = _size(path)
            plain = path.is_file() and not path.is_symlink() and results.NAME.fullmatch(path.name)
            if plain and size and total + size <= ALL:
                total += size
                path.chmod(0o644)
                kept.append(f"{path.name} ({size} bytes)")
                continue
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path, ignore_errors=True)  # what cannot be removed is told below
            else:
                path.unlink(missing_ok=True)
            if size or path.exists():
                self._missed.append(f"{path.name!r:.100}: not kept, {size} bytes")
        (self.folder / CONTENTS).write_text("\n".join([*kept, *(f"missing: {one}" for one in self._missed)]) + "\n")
        if kept:
            yield _event(KEPT, f"{REPORT}: {', '.join(kept)}")
        if self._missed:
            yield _event(ABSENT, "; ".join(self._missed))


def _enter(supervisor: int) -> None:
    """In the child: no file longer than the bound, and an end with the supervisor."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (FILE, FILE))
    tie(supervisor)


def _size(path: Path) -> int:
    return path.lstat().st_size


def _event(code: str, text: str) -> Event:
    return Event(code, time.time(), "host", text[:1000])
