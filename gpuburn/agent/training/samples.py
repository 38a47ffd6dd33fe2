"""A data set of one rank: many small files of random bytes, and the loader that brings them to a training loop.

The loader is torch's, with worker processes that are forked: they read files and stack bytes, and touch no device.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import torch
from torch.utils.data import DataLoader, Dataset

from gpuburn.agent.device import Device
from gpuburn.agent.training.bits import memory
from gpuburn.agent.training.language import derive

WORD = 8  # bytes; a sample is a whole number of them, and their sum as integers is its mark


@dataclass(frozen=True, slots=True)
class Samples(Dataset[tuple[int, torch.Tensor]]):
    """count files of size bytes each in a folder; marks: the sum of each one's 64-bit words, as it was written."""

    folder: Path
    size: int
    marks: list[int] = field(default_factory=list)

    def path(self, number: int) -> Path:
        return self.folder / f"{number:07d}.bin"

    def __len__(self) -> int:
        return len(self.marks)

    def __getitem__(self, number: int) -> tuple[int, torch.Tensor]:
        """A sample as a vision or text loader has it before decoding; bytes that are missing are noughts."""
        found = torch.zeros(self.size, dtype=torch.uint8)
        fill(self.path(number), memory(found))
        return number, found

    @classmethod
    def write(cls, device: Device, folder: Path, count: int, size: int) -> Samples:
        """Write them with fsync; random from seed and rank, so that none is like another."""
        made = cls(folder, size - size % WORD)
        generator = torch.Generator().manual_seed(derive("samples", device.seed, device.rank))
        for number in range(count):
            words = torch.randint(-(2**63), 2**63 - 1, (made.size // WORD,), generator=generator, dtype=torch.int64)
            with made.path(number).open("xb", buffering=0) as file:
                file.write(memory(words))
                os.fsync(file.fileno())
            made.marks.append(int(words.sum().item()))
        return made

    def order(self, seed: int) -> list[int]:
        """All numbers, shuffled as an epoch is."""
        return torch.randperm(len(self), generator=torch.Generator().manual_seed(seed)).tolist()

    def swept(self, order: list[int]) -> float:
        """Seconds to read every file once, one after the other."""
        buffer = memoryview(bytearray(self.size))
        started = time.perf_counter()
        for number in order:
            fill(self.path(number), buffer)
        return time.perf_counter() - started

    def paths(self) -> Iterator[Path]:
        return map(self.path, range(len(self)))


def fill(path: Path, buffer: memoryview) -> None:
    """Read a file into the buffer, as much as there is of it."""
    with path.open("rb", buffering=0) as file:
        done = 0
        while size := file.readinto(buffer[done:]):
            done += size


@dataclass(slots=True)
class Epoch:
    """One pass of the loader: seconds that the loop waited for data and that it took in all; marks of what came."""

    waited: float = 0.0
    total: float = 0.0
    steps: int = 0
    marks: dict[int, int] = field(default_factory=dict)

    def wrong(self, samples: Samples) -> int:
        """Samples that are not what was written, or never came."""
        return sum(self.marks.get(number) != mark for number, mark in enumerate(samples.marks))


def fed(
    device: Device, samples: Samples, order: list[int], batch: int, workers: int, work: Callable[[], None]
) -> Epoch:
    """Steps of fixed work, each on a batch that the loader brings. The first batch is not counted: workers start."""
    if importlib.util.find_spec("numpy"):
        importlib.import_module("numpy.random")  # every worker wants it; imports after a fork may find a lock torn
    batches = [order[start : start + batch] for start in range(0, len(order), batch)]
    loader = DataLoader(
        samples, batch_sampler=batches, num_workers=workers, multiprocessing_context="fork",
        generator=torch.Generator().manual_seed(device.seed),  # else it draws from the global one
    )  # fmt: skip
    epoch, marks = Epoch(), []
    for numbers, waited, data in _timed(iter(loader)):
        started = time.perf_counter()
        marks.append((numbers.tolist(), data.to(device.torch).view(torch.int64).sum(dim=1)))
        work()
        device.synchronize()
        if epoch.steps:
            epoch.waited += waited
            epoch.total += waited + time.perf_counter() - started
        epoch.steps += 1
    for named, sums in marks:
        epoch.marks.update(zip(named, sums.tolist()))
    return epoch


def _timed(batches: Iterator[tuple[torch.Tensor, torch.Tensor]]) -> Iterator[tuple[torch.Tensor, float, torch.Tensor]]:
    """Each batch with the seconds that it was waited for."""
    while True:
        started = time.perf_counter()
        found = next(batches, None)
        if found is None:
            return
        yield found[0], time.perf_counter() - started, found[1]
