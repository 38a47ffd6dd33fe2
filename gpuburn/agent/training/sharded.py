"""A training run's sharded state, saved and restored by torch.distributed.checkpoint as a training job would.

Each rank holds its shard of flat weights and two moments, under names of its own, and small entries that all share.
(DTensor would give the shards one name and write the same bytes; it imports the compiler, for seconds in each process.)
A save is written into `.tmp-...`, every file with fsync, and renamed when all of it is there. The ranks agree over
gloo, which an asynchronous save needs for itself while the loop uses the devices' own backend.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import torch
import torch.distributed as dist
from torch.distributed.checkpoint.filesystem import FileSystemReader, FileSystemWriter
from torch.distributed.checkpoint.planner import LoadPlan, LoadPlanner, SavePlan, SavePlanner
from torch.distributed.checkpoint.state_dict_loader import load
from torch.distributed.checkpoint.state_dict_saver import async_save, save

from gpuburn.agent.device import Device
from gpuburn.agent.training.bits import checksum
from gpuburn.agent.training.language import derive
from gpuburn.agent.training.pace import Products
from gpuburn.agent.training.shard import sync

NAMES = ("weights", "moment1", "moment2")
VALUE = 4  # bytes of an FP32 number


class State:
    """This rank's share of a run's state: mib MiB of FP32 numbers, random from seed and rank. step: those done."""

    def __init__(self, device: Device, mib: int) -> None:
        self.step = 0
        generator = torch.Generator(device.torch).manual_seed(derive("sharded", device.seed, device.rank))
        count = mib * 2**20 // VALUE // len(NAMES)
        self.local = [torch.randn(count, generator=generator, device=device.torch) for _ in NAMES]
        self._rank = device.rank

    @property
    def bytes(self) -> int:
        """Of this rank's share."""
        return sum(one.numel() * VALUE for one in self.local)

    def entries(self) -> dict[str, Any]:
        """What is saved, and on restoring filled in place."""
        own = {f"{name}.{self._rank}": one for name, one in zip(NAMES, self.local)}
        return {**own, "step": self.step, "recipe": {"names": list(NAMES), "count": self.local[0].numel()}}

    def advance(self) -> None:
        """Change every number in place, as an optimizer's update does."""
        self.step += 1
        for one in self.local:
            one.mul_(0.999).add_(0.001)

    def forget(self) -> None:
        """What is not restored is not there: a restore that does nothing must not look right."""
        self.step = -1
        for one in self.local:
            one.zero_()

    def told(self) -> list[str]:
        """Checksums of all that is saved, one for each entry."""
        return [*(checksum(one) for one in self.local), str(self.step)]


class Writer(FileSystemWriter):
    """seconds: this rank's own writing with fsync, without waiting for the others."""

    seconds = 0.0

    def write_data(self, plan: SavePlan, planner: SavePlanner) -> Any:
        started = time.perf_counter()
        done = super().write_data(plan, planner)
        self.seconds = time.perf_counter() - started
        return done


class Reader(FileSystemReader):
    """seconds: this rank's own reading into its tensors."""

    seconds = 0.0

    def read_data(self, plan: LoadPlan, planner: LoadPlanner) -> Any:
        started = time.perf_counter()
        done = super().read_data(plan, planner)
        self.seconds = time.perf_counter() - started
        return done


@dataclass(slots=True)
class Saving:
    """An asynchronous save under way. stall: seconds that the loop stood for it; ended: when this rank had written."""

    future: Future[Any]
    started: float
    stall: float
    ended: list[float] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Store:
    """Checkpoints of one state in a folder, one at a time. group: of gloo, of all ranks."""

    folder: Path
    device: Device
    state: State
    group: dist.ProcessGroup

    @property
    def unfinished(self) -> Path:
        return self.folder / ".tmp-checkpoint"

    @property
    def final(self) -> Path:
        return self.folder / "checkpoint"

    def save(self) -> tuple[float, float]:
        """Seconds that the loop stands until all is durable under its name; and of this rank's own writing."""
        writer = Writer(self.unfinished, sync_files=True, overwrite=False)
        started = self._together()
        save(self.state.entries(), storage_writer=writer, process_group=self.group)
        self.commit()
        return time.perf_counter() - started, writer.seconds

    def begin(self) -> Saving:
        """Start a save that goes on in a thread, from a copy that torch makes in the host's memory first."""
        writer = Writer(self.unfinished, sync_files=True, overwrite=False)
        started = self._together()
        found = async_save(self.state.entries(), storage_writer=writer, process_group=self.group)
        future = cast("Future[Any]", found)
        saving = Saving(future, started, time.perf_counter() - started)
        future.add_done_callback(lambda _: saving.ended.append(time.perf_counter()))
        return saving

    def finish(self, saving: Saving) -> tuple[float, float]:
        """Once its thread is done: seconds from the call until this rank's was written, and of the commit after it."""
        saving.future.result()
        while not saving.ended:  # waiters of a future are woken before its callbacks are run
            time.sleep(0.001)
        started = time.perf_counter()
        self.commit()
        return saving.ended[0] - saving.started, time.perf_counter() - started

    def commit(self) -> None:
        """All ranks have written: the first makes the names durable, and renames."""
        if self.device.rank == 0:
            sync(self.unfinished)
            self.unfinished.rename(self.final)
            sync(self.folder)
        dist.barrier(self.group)

    def restore(self) -> tuple[float, float]:
        """Seconds until all ranks hold the saved state again; and of this rank's own reading."""
        reader, entries = Reader(self.final), self.state.entries()
        started = self._together()
        load(entries, storage_reader=reader, process_group=self.group)
        self.device.synchronize()
        elapsed = time.perf_counter() - started
        self.state.step = entries["step"]
        return elapsed, reader.seconds

    def files(self) -> list[Path]:
        """What this rank wrote."""
        return sorted(self.final.glob(f"__{self.device.rank}_*.distcp"))

    def remove(self) -> None:
        """Every rank has read what it needs: the first removes what was written, whole or not."""
        dist.barrier(self.group)
        if self.device.rank == 0:
            self.clear()
        dist.barrier(self.group)

    def clear(self) -> None:
        """Remove what there is. After an error others may still be writing: what stays must not hide that error."""
        for one in (self.unfinished, self.final):
            shutil.rmtree(one, ignore_errors=True)

    def _together(self) -> float:
        self.device.synchronize()
        dist.barrier(self.group)
        return time.perf_counter()


class Loop:
    """Steps like training's: products on the device, an exchange among all ranks, every number of the state changed."""

    def __init__(self, device: Device, state: State, products: Products) -> None:
        self._device, self._state, self._products = device, state, products
        self._gradients = torch.ones(2**20, device=device.torch)

    def step(self) -> float:
        """Seconds of one step."""
        return self._device.timed(self._work)

    def until(self, done: Callable[[], bool]) -> list[float]:
        """Seconds of each step until all ranks say that they are done; at least one."""
        taken: list[float] = []
        flag = torch.zeros((), device=self._device.torch)
        while not taken or not flag.item():
            taken.append(self.step())
            flag.fill_(float(done()))
            dist.all_reduce(flag, op=dist.ReduceOp.MIN)
        return taken

    def _work(self) -> None:
        self._products()
        dist.all_reduce(self._gradients, op=dist.ReduceOp.MAX)  # a sum would grow from step to step
        self._state.advance()
