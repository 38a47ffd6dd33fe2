"""The place where a step writes to storage: a folder of its own, enough room, and on a shared path a slot."""

from __future__ import annotations

import contextlib
import os
import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpuburn import strict
from gpuburn.agent import mounts
from gpuburn.agent.slots import Slots, held
from gpuburn.measurement import Fact, Metric, Observed, Reading
from gpuburn.plan import HOST
from gpuburn.probe import Taken
from gpuburn.storage import PATIENCE

if TYPE_CHECKING:
    from gpuburn.agent.device import Device

SPARE = 2.2  # free space wanted, as a multiple of what is written
POLL = 2.0  # seconds between two tries for a slot
# What every probe that uses a place promises of it.
TELLS: dict[str, Any] = {
    "storage": Observed(
        "file system, mount point and whether other hosts share it; 'local disk only' where the site names no path",
        per="host",
    ),
    "others": Metric(
        "count", "max", "other hosts seen writing under the same shared path at the same time", per="host"
    ),
    "waited": Metric("s", "sum", "for a slot among the hosts that may write to the shared path at once", per="host"),
}


@dataclass(frozen=True, slots=True)
class Place:
    """folder: this step's own. slots: of the shared path, on the process that holds one; waited in seconds."""

    folder: Path
    storage: str
    slots: Slots | None = None
    waited: float = 0.0

    def told(self) -> Iterator[Taken]:
        """What is known of the storage once all was written and read."""
        lost = f"; its slot was lost ({self.slots.lost})" if self.slots and self.slots.lost else ""
        yield Fact("storage", f"{self.storage}{lost}", subject=HOST)
        yield Reading("others", float(self.slots.most if self.slots else 0), subject=HOST)
        yield Reading("waited", self.waited, subject=HOST)


def own(scratch: Path, directory: str, probe: str) -> Path:
    """A folder that only this step uses, wherever the files shall lie. A path that is not there is not made."""
    if directory and not Path(directory).is_dir():
        raise NotADirectoryError(
            f"{directory}: not there; it is not made, for the disk below a missing mount would be tried"
        )
    name = strict.digest(str(scratch.absolute()).encode())[:12]
    return (Path(directory) if directory else scratch) / f"gpuburn-{probe}-{name}"


def make(folder: Path) -> None:
    """Make it, closed to others: what is loaded from it is taken for ours. A link in its place is refused."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    folder.mkdir(mode=0o700, exist_ok=True)
    if folder.is_symlink():
        raise strict.Refused(f"{folder}: a link; wanted is a folder that this step made")


def room(folder: Path, size: int, files: int = 0, spare: float = SPARE) -> None:
    """Refuse before a byte is written what would not fit with some to spare. size in bytes."""
    # Of the parent: the folder is shared, and a rank that has yet to come from an earlier use may take it along.
    wanted, free = int(spare * size), shutil.disk_usage(folder.parent).free
    if free < wanted:
        raise OSError(f"{folder}: {free} bytes free, {wanted} wanted ({spare:g} x {size})")
    nodes = os.statvfs(folder.parent)
    if nodes.f_files and nodes.f_favail < files:  # file systems without a fixed number of them say 0
        raise OSError(f"{folder}: {nodes.f_favail} inodes free, {files} wanted")


def slowest(elapsed: float, device: Device) -> float:
    """The seconds of the rank that took longest, on every rank."""
    import torch
    import torch.distributed as dist

    most = torch.tensor(elapsed, device=device.torch, dtype=torch.float64)
    dist.all_reduce(most, op=dist.ReduceOp.MAX)
    return float(most.item())


@contextlib.contextmanager
def of_ranks(
    device: Device, directory: str, probe: str, size: int, writers: int, files: int = 0, spare: float = SPARE
) -> Iterator[Place]:
    """The place of all ranks, each of which writes size bytes at most at a time. The last rank removes the folder.

    Left in peace it is left by all ranks together; after an error by each alone.
    """
    import torch.distributed as dist

    folder = own(device.folder, directory, probe)
    make(folder)
    try:
        room(folder, device.world * size, device.world * files, spare)
        with _slot(directory, writers, device.rank == 0) as (slots, take):
            waited = _together(take)
            yield Place(folder, mounts.told(directory, folder.parent), slots, waited)
            dist.barrier()
    finally:
        with contextlib.suppress(OSError):  # the last rank finds it empty
            folder.rmdir()


@contextlib.contextmanager
def of_host(directory: str, folder: Path, writers: int) -> Iterator[Place]:
    """The place of a single process: the folder is there already, and is its maker's to remove."""
    with _slot(directory, writers, True) as (slots, take):
        started = time.monotonic()
        while state := take():
            _late(state, started)
            time.sleep(POLL)
        yield Place(folder, mounts.told(directory, folder.parent), slots, time.monotonic() - started if slots else 0.0)


@contextlib.contextmanager
def _slot(directory: str, writers: int, mine: bool) -> Iterator[tuple[Slots | None, Callable[[], str]]]:
    """Slots where the path is shared and this process is to hold one; and one try: "" once it may write."""
    if not (mine and directory and mounts.of(Path(directory)).shared):
        yield None, lambda: ""
        return
    with held(Slots(Path(directory), writers)) as slots:
        yield slots, lambda: "" if slots.take() else ", ".join(slots.holders()) or "others"


def _together(take: Callable[[], str]) -> float:
    """All ranks wait for the first one's slot; the seconds that they waited.

    In short collectives, for one that lasts as long as another host writes would be taken for a hang.
    """
    import torch.distributed as dist

    started = time.monotonic()
    for number in range(2**31):
        state = [take() if dist.get_rank() == 0 else ""]
        dist.broadcast_object_list(state)
        if not state[0]:
            return time.monotonic() - started if number else 0.0
        _late(state[0], started)
        time.sleep(POLL)
    raise AssertionError("not reached")


def _late(holders: str, started: float) -> None:
    if time.monotonic() - started > PATIENCE:
        raise TimeoutError(
            f"no slot of the shared storage within {PATIENCE:g} s: {holders} hold them; "
            "raise gpuburn_storage_writers, or run fewer hosts at a time"
        )
