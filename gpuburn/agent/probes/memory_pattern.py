"""Patterns over a device's whole memory, written, left alone and read back: every 64-bit word is compared."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gpuburn.measurement import NOTHING, Fact, Metric, Observed, Point, Reading, Work
from gpuburn.probe import Taken, probe
from gpuburn.strict import known

if TYPE_CHECKING:
    import torch

    from gpuburn.agent.device import Device

PATTERNS = ["address", "inversions", "random", "retention"]
LOWEST, HIGHEST = -(2**63), 2**63 - 1
Bits = Callable[[int], "torch.Tensor | int"]  # what a chunk must hold, by its place


@probe(
    scope="device",
    coverage=Metric("1", "last", doc="memory that every pattern was written to and read from, over the device's whole"),
    wrong=Metric(
        "count",
        "sum",
        doc="64-bit words that did not hold what was written, over all reads",
        at={"pattern": "patterns"},
    ),
    first_wrong=Observed("the first such word: its byte address in the tested memory, what was written, what was read"),
    work=("iterations", "bytes"),
    smoke={"budget_mib": 3, "chunk_mib": 1, "words": 2, "wait": 0.0, "patterns": PATTERNS},
)
def memory_pattern(
    device: Device,
    share: float = 0.95,
    budget_mib: int = 0,
    chunk_mib: int = 512,
    words: int = 8,
    wait: float = 150.0,
    patterns: list[str] = PATTERNS,
) -> Iterator[Taken]:
    """Own address, moving inversions of random words, a random sequence, and the same after a wait in both states.

    One allocation takes budget_mib, or (0) that share of what is free: where it fails the probe fails, and tests no
    less instead. Each pattern is written to all of it before any of it is read, so that a write that also lands
    elsewhere is seen. A random sequence is made anew from its chunk's seed to be compared; there is no second copy.
    wait: seconds that the sequence, and then its complement, is left alone.

    Exercises: memory cells, address lines, retention, the memory's own bus.
    Does not exercise: memory that driver and context hold, caches, bandwidth; what ECC corrects is counted elsewhere.
    """
    for name in patterns:
        known(name, PATTERNS, "patterns")
    memory = Memory.take(device, budget_mib * 2**20 or int(device.free() * share), chunk_mib * 2**20)
    for name in patterns:
        for wrong in SWEEPS[name](memory, words, wait):
            yield Reading("wrong", float(wrong), Point.of(pattern=name))
            yield Work(iterations=1, bytes=memory.whole.nbytes)
    yield Reading("coverage", memory.whole.nbytes / device.memory)
    yield Fact("first_wrong", memory.first)


@dataclass
class Memory:
    """The memory under test in chunks, and room for one chunk to compare with. first: the first wrong word, told."""

    device: Device
    whole: torch.Tensor
    chunks: list[torch.Tensor]
    room: torch.Tensor
    flags: torch.Tensor
    first: str = NOTHING

    @classmethod
    def take(cls, device: Device, size: int, chunk: int) -> Memory:
        """Allocate all bytes at once, in whole words; torch raises where they are not to be had."""
        import torch

        most = min(chunk, size) // 8
        room = torch.empty(most, device=device.torch, dtype=torch.int64)
        flags = torch.empty(most, device=device.torch, dtype=torch.bool)
        whole = torch.empty(size // 8, device=device.torch, dtype=torch.int64)
        return cls(device, whole, list(torch.split(whole, most)), room, flags)

    def sequence(self, index: int, out: torch.Tensor) -> torch.Tensor:
        """The random words of a chunk, always the same."""
        import torch

        seed = self.device.seed * 1_000_003 + index
        generator = torch.Generator(self.device.torch).manual_seed(seed)
        return torch.randint(LOWEST, HIGHEST, (len(out),), generator=generator, out=out)

    def addresses(self, index: int, out: torch.Tensor) -> torch.Tensor:
        """The number of each word."""
        import torch

        start = index * len(self.chunks[0])
        return torch.arange(start, start + len(out), out=out)

    def differing(self, index: int, wanted: torch.Tensor | int) -> int:
        """How many words of a chunk are not those wanted."""
        import torch

        chunk = self.chunks[index]
        flags = torch.ne(chunk, wanted, out=self.flags[: len(chunk)])
        if not flags.any().item():
            return 0
        if self.first == NOTHING:
            self.first = self._told(index, wanted, int(flags.to(torch.uint8).argmax().item()))
        # In parts: a sum of flags makes a copy of them in 64 bits, for which there may be no room.
        return sum(int(torch.sum(part).item()) for part in torch.split(flags, 2**20))

    def _told(self, index: int, wanted: torch.Tensor | int, place: int) -> str:
        found = int(self.chunks[index][place].item())
        wish = wanted if isinstance(wanted, int) else int(wanted[place].item())
        byte = 8 * (index * len(self.chunks[0]) + place)
        bits = [value % 2**64 for value in (wish, found, wish ^ found)]
        return f"byte 0x{byte:x}: wrote 0x{bits[0]:016x}, read 0x{bits[1]:016x}, differing 0x{bits[2]:016x}"

    def part(self, index: int) -> torch.Tensor:
        """Room as long as the chunk."""
        return self.room[: len(self.chunks[index])]

    def written(self, make: Callable[[int, torch.Tensor], torch.Tensor]) -> None:
        for index, chunk in enumerate(self.chunks):
            make(index, chunk)

    def read(self, wanted: Bits, invert: bool = False, backwards: bool = False) -> int:
        """Compare all chunks, one after the other; to invert writes each chunk's complement once it is read."""
        order = range(len(self.chunks))
        wrong = 0
        for index in reversed(order) if backwards else order:
            wrong += self.differing(index, wanted(index))
            if invert:
                self.chunks[index].bitwise_not_()
        return wrong


def own_address(memory: Memory, words: int, wait: float) -> Iterator[int]:
    """Each word holds its own number, then the complement: two addresses that are one hold one number."""
    memory.written(memory.addresses)
    yield memory.read(lambda index: memory.addresses(index, memory.part(index)), invert=True)
    yield memory.read(lambda index: memory.addresses(index, memory.part(index)).bitwise_not_())


def inversions(memory: Memory, words: int, wait: float) -> Iterator[int]:
    """Moving inversions: a word everywhere; upwards read and inverted, downwards read and inverted, and read again."""
    import torch

    generator = torch.Generator().manual_seed(memory.device.seed)
    for word in torch.randint(LOWEST, HIGHEST, (words,), generator=generator).tolist():
        memory.whole.fill_(word)
        yield memory.read(lambda _, word=word: word, invert=True)  # type: ignore[misc]
        yield memory.read(lambda _, word=word: ~word, invert=True, backwards=True)  # type: ignore[misc]
        yield memory.read(lambda _, word=word: word)  # type: ignore[misc]


def sequence(memory: Memory, words: int, wait: float) -> Iterator[int]:
    """Random words and then their complement: in every cell a 0 and a 1, among neighbours without a pattern."""
    return retention(memory, words, 0.0)


def retention(memory: Memory, words: int, wait: float) -> Iterator[int]:
    """The same, with a wait before each read: a cell that leaks loses its charge, whichever state is charged."""
    memory.written(memory.sequence)
    _rest(memory, wait)
    yield memory.read(lambda index: memory.sequence(index, memory.part(index)), invert=True)
    _rest(memory, wait)
    yield memory.read(lambda index: memory.sequence(index, memory.part(index)).bitwise_not_())


def _rest(memory: Memory, wait: float) -> None:
    """Leave the memory alone, from when all is written."""
    if wait:
        memory.device.synchronize()
        time.sleep(wait)


Sweep = Callable[[Memory, int, float], Iterator[int]]
SWEEPS: dict[str, Sweep] = dict(zip(PATTERNS, (own_address, inversions, sequence, retention)))
