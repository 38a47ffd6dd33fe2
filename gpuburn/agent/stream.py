"""One large file of random bytes: written with fsync, read from its start to its end, compared in a pass of its own."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from gpuburn.agent.training.shard import sync

if TYPE_CHECKING:
    import torch

    from gpuburn.agent.device import Device

BLOCK = 16 * 2**20
PAGE = 4096  # bytes; one word of each is the block's own, so that no two pages of all the ranks are alike


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

    def digests(self) -> list[str]:
        """SHA-256 of each block, in hex."""
        return [hashlib.sha256(block).hexdigest() for block in self.blocks()]

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


def write(path: Path, data: Data) -> float:
    """Seconds until the file and its name are on the storage."""
    start = time.perf_counter()
    with path.open("xb", buffering=0) as file:
        for block in data.blocks():
            done = 0
            while done < len(block):
                done += file.write(block[done:])
        os.fsync(file.fileno())
    sync(path.parent)
    return time.perf_counter() - start


def read(path: Path) -> float:
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
