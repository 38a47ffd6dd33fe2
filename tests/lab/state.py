"""What one lab run has on this machine, written down as it comes, so that a later run can clear up after a crash.

A run's number is held by a lock that the kernel drops with the process: a folder whose lock is free is a crashed run's.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import subprocess
import threading
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import IO

from . import cgroup, network
from .mounts import unmount_below
from .process import Process, machine_boot_id
from .ssh import end_masters
from .store import discard
from .waiting import until

PROPAGATE = Path("/run/systemd/nspawn/propagate")  # systemd-nspawn leaves a folder per machine name there


class State:
    """The record of one run: its bridge, its cgroups and its hosts' processes; every change is on the disk at once."""

    def __init__(self, folder: Path, bridge: str, cgroups: list[Path]) -> None:
        self.folder, self.bridge, self.cgroups = folder, bridge, cgroups
        self.hosts: dict[str, Process] = {}  # systemd-nspawn's process by machine name
        self._lock = threading.Lock()  # hosts report from their own threads
        self.write()

    @property
    def file(self) -> Path:
        return self.folder / "state.json"

    def started(self, machine: str, supervisor: Process) -> None:
        with self._lock:
            self.hosts[machine] = supervisor
            self.write()

    def write(self) -> None:
        hosts = {machine: [process.pid, process.started] for machine, process in self.hosts.items()}
        cgroups = [str(path) for path in self.cgroups]
        record = {"boot": machine_boot_id(), "bridge": self.bridge, "cgroups": cgroups, "hosts": hosts}
        unfinished = self.file.with_suffix(".unfinished")
        unfinished.write_text(json.dumps(record, indent=1))
        os.replace(unfinished, self.file)

    @classmethod
    def read(cls, folder: Path) -> State | None:
        """A run's record as it was left; None if it had come to nothing yet."""
        try:
            record = json.loads((folder / "state.json").read_text())
        except FileNotFoundError:
            return None
        state = cls.__new__(cls)
        state.folder, state.bridge, state._lock = folder, record["bridge"], threading.Lock()
        state.cgroups = [Path(path) for path in record["cgroups"]]
        of_this_boot = record["boot"] == machine_boot_id()
        state.hosts = {name: Process(*pair) for name, pair in record["hosts"].items()} if of_this_boot else {}
        return state


def claim(folder: Path, number: int) -> IO[str] | None:
    """The lock of a run number, or None while another run holds it; lock files stay, or two runs could hold one."""
    lock = (folder / f"{number}.lock").open("a")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        lock.close()
        return None
    return lock


def clear_stale(folder: Path) -> None:
    """Take away what crashed runs have left; what resists is only warned of, since its number stays out of use."""
    for run in (path for path in folder.iterdir() if path.is_dir()):
        lock = claim(folder, int(run.name))
        if lock is None:
            continue
        with lock:
            try:
                clear(run, State.read(run))
            except RuntimeError as error:
                warnings.warn(str(error), stacklevel=2)


def clear(folder: Path, state: State | None) -> None:
    """Take away all that a run has on this machine; one step's failure keeps no other from being done."""
    end_masters(folder / "ssh/cp")
    steps: list[Callable[[], None]] = []
    if state:
        steps += [partial(_end, process) for process in state.hosts.values()]
        steps += [partial(cgroup.kill, path) for path in state.cgroups]
        steps += [partial(cgroup.remove, path) for path in state.cgroups]
        steps += [partial(_forget, name) for name in state.hosts]
        steps += [partial(network.remove_bridge, state.bridge)]
    steps += [partial(unmount_below, folder), partial(discard, folder)]
    failed = [str(error) for step in steps for error in _failure(step)]
    if failed:
        raise RuntimeError(f"the lab could not clear up {folder}:\n" + "\n".join(failed))


def _end(supervisor: Process) -> None:
    """End one host: its init first, since systemd-nspawn then puts away the container and the link by itself."""
    if init := supervisor.init() if supervisor.alive else None:
        init.kill()
        with contextlib.suppress(TimeoutError):
            until(lambda: not supervisor.alive, "systemd-nspawn to end", timeout=15)
    supervisor.kill()


def _forget(machine: str) -> None:
    with contextlib.suppress(FileNotFoundError):
        (PROPAGATE / machine).rmdir()


def _failure(step: Callable[[], None]) -> list[Exception]:
    try:
        step()
    except (OSError, RuntimeError, subprocess.SubprocessError) as error:  # TimeoutError is an OSError
        return [error]
    return []
