"""What the storage takes and gives back when every rank checkpoints at once."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from gpuburn.agent import place
from gpuburn.agent.page_cache import cached, evict
from gpuburn.measurement import Metric, Reading, Work
from gpuburn.probe import Taken, probe

if TYPE_CHECKING:
    import torch

    from gpuburn.agent.device import Device

BLOCK = 16 * 2**20
PAGE = 4096  # bytes; one word of each is the block's own, so that no two pages of all the ranks are alike


@probe(
    scope="ranks",
    write=Metric(
        "GB/s",
        doc="all ranks' bytes over the slowest rank's time, from open to fsync of file and folder",
        better="higher",
    ),
    read=Metric("GB/s", doc="all ranks' bytes over the slowest rank's time, from storage", better="higher"),
    cached_share=Metric(
        "1", "max", doc="share of the file still in the page cache before reading: near 1, memory was read"
    ),
    wrong=Metric("count", "sum", doc="blocks of 16 MiB whose SHA-256 on reading is not that of what was written"),
    checked=Metric("GiB", "sum", doc="bytes read back and compared"),
    work=("iterations", "bytes"),
    stores=lambda params, count: count * params["rounds"] * params["mib"] * 2**20,
    smoke={"mib": 16, "rounds": 1},
    **place.TELLS,
)
def checkpoint(
    device: Device, mib: int = 16384, rounds: int = 3, directory: str = "", writers: int = 4
) -> Iterator[Taken]:
    """Write a file per rank with fsync, turn it out of the page cache, read it back, and compare every block.

    The data are random, from the seed and the rank: nothing to compress, no page twice. directory: the file system that
    is meant ("" = the step's scratch). writers: hosts that may write there at once, where they share it. Digests are
    compared in a pass of their own, so that hashing slows no reading.

    Exercises: file system and disks under all ranks at once, fsync, copies from device to host, host memory.
    Does not exercise: the loop that waits for a checkpoint (distributed_checkpoint), reading by another host.
    """
    import torch.distributed as dist

    with place.of_ranks(device, directory, "checkpoint", mib * 2**20, writers) as there:
        path = there.folder / f"rank-{dist.get_rank()}.bin"
        try:
            for number in range(rounds):
                yield from _round(device, Data.of(device, number, mib), path)
                path.unlink()
        finally:
            path.unlink(missing_ok=True)
    if device.rank == 0:
        yield from there.told()


def _round(device: Device, data: Data, path: Path) -> Iterator[Taken]:
    import torch.distributed as dist

    path.unlink(missing_ok=True)
    digests = [hashlib.sha256(block).hexdigest() for block in data.blocks()]
    dist.barrier()
    written = place.slowest(_write(path, data), device)
    total = data.size * dist.get_world_size()
    yield Reading("write", total / written / 1e9)
    evict(path)
    yield Reading("cached_share", cached(path))
    dist.barrier()
    seen = place.slowest(_read(path), device)
    yield Reading("read", total / seen / 1e9)
    yield Reading("wrong", float(wrong(path, digests)))
    yield Reading("checked", data.size / 2**30)
    yield Work(iterations=1, bytes=data.size)


@dataclass(frozen=True, slots=True)
class Data:
    """The file's content: one random block on the device, of which each copy gets other words. size in bytes."""

    random: torch.Tensor
    stamp: int
    size: int

    @classmethod
    def of(cls, device: Device, number: int, mib: int) -> Data:
        import torch

        from gpuburn.agent.training.language import derive

        chosen = derive("checkpoint", device.seed, device.rank, number)
        generator = torch.Generator(device.torch).manual_seed(chosen)
        words = (BLOCK // PAGE, PAGE // 8)
        limit = 2**63 - 1
        random = torch.randint(-limit, limit, words, generator=generator, device=device.torch, dtype=torch.int64)
        return cls(random, chosen, mib * 2**20)

    def blocks(self) -> Iterator[memoryview]:
        """The content in order, each block copied from the device as a checkpoint's tensors are."""
        import torch

        from gpuburn.agent.training.bits import memory

        pages = torch.arange(self.random.shape[0], device=self.random.device)
        block = self.random.clone()
        for start in range(0, self.size, BLOCK):
            block[:, 0] = self.random[:, 0] ^ (self.stamp ^ (start + pages))
            host = block.cpu()
            yield memory(host)[: min(BLOCK, self.size - start)]


def _write(path: Path, data: Data) -> float:
    """Seconds until the file and its name are on the storage."""
    start = time.perf_counter()
    with path.open("xb", buffering=0) as file:
        for block in data.blocks():
            done = 0
            while done < len(block):
                done += file.write(block[done:])
        os.fsync(file.fileno())
    place.sync(path.parent)
    return time.perf_counter() - start


def _read(path: Path) -> float:
    """Seconds to read the file once, into one buffer."""
    buffer = bytearray(BLOCK)
    start = time.perf_counter()
    with path.open("rb", buffering=0) as file:
        while file.readinto(buffer):
            pass
    return time.perf_counter() - start


def wrong(path: Path, digests: list[str]) -> int:
    """How many blocks are not what was written; a missing or a surplus one is wrong too."""
    found = []
    with path.open("rb") as file:
        while block := file.read(BLOCK):
            found.append(hashlib.sha256(block).hexdigest())
    return sum(one != other for one, other in zip(digests, found)) + abs(len(digests) - len(found))
