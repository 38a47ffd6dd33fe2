"""Bandwidth of a device's own memory: reading and writing together, and reading alone."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

from gpuburn.measurement import Metric, Reading, Work
from gpuburn.probe import Taken, probe

if TYPE_CHECKING:
    import torch

    from gpuburn.agent.device import Device

STRIDE = 0x9E3779B97F4A7C15  # odd, its bits well mixed: 2^64 over the golden ratio (Knuth, TAOCP 3, 6.4)
RANGE = 2**64


@probe(
    scope="device",
    triad=Metric(
        "GB/s", doc="a = b + s c: two reads and one write over the device's own time (STREAM's triad)", better="higher"
    ),
    read=Metric("GB/s", doc="one array read once and added up, over the device's own time", better="higher"),
    wrong=Metric(
        "count", "sum", doc="elements of a whose bits are not those of b + s c, which is exact for these values"
    ),
    read_wrong=Metric("count", "sum", doc="sums of the array read that are not the exact integer"),
    work=("iterations", "bytes"),
    smoke={"mib": 1, "seconds": 0.0},
    revision=2,
)
def memory_bandwidth(device: Device, mib: int = 4096, seconds: float = 30.0) -> Iterator[Taken]:
    """Stream three large arrays through the device for half of the time, then read one of them for the other half.

    Triad is used and not copy: a contiguous copy_ is a cudaMemcpy, which reads 10 to 20 % lower than a kernel
    (BabelStream against nvbandwidth's device-local copy on A100 and H100).
    Small integers make the triad exact, so that every element can be checked. What is read holds multiples of an odd
    number, whose sum is known without a device.

    Exercises: memory bandwidth, the memory clock.
    Does not exercise: memory capacity or retention, caches.
    """
    import torch

    count = mib * 2**20 // 4
    whole = torch.randint(0, 1024, (count,), device=device.torch, generator=_generator(device), dtype=torch.int32)
    b = whole.to(torch.float32)
    c = torch.flip(b, (0,))
    a = torch.empty_like(b)
    expected = torch.flip(whole, (0,)).mul_(3).add_(whole).to(torch.float32).view(torch.int32)
    del whole
    triad = partial(torch.add, b, c, alpha=3.0, out=a)
    rounds = device.calibrate(triad, seconds=1.0) if seconds else 1
    for _ in device.until(seconds / 2):
        elapsed = device.timed(triad, rounds)
        yield Reading("triad", rounds * 3 * a.nbytes / elapsed / 1e9)
        yield Reading("wrong", float((a.view(torch.int32) != expected).sum().item()))
        yield Work(iterations=rounds, bytes=rounds * 3 * a.nbytes)
    del b, c, expected
    yield from reading(device, a.view(torch.int64), seconds / 2)


def reading(device: Device, words: torch.Tensor, seconds: float) -> Iterator[Taken]:
    """Add up 64-bit words. Their type is the sum's: of another one torch would make and read a whole copy first."""
    import torch

    torch.arange(len(words), out=words)
    words.mul_(signed(STRIDE))
    exact = signed(STRIDE * (len(words) * (len(words) - 1) // 2))
    total = torch.empty((), device=device.torch, dtype=torch.int64)
    add = partial(torch.sum, words, dim=0, out=total)
    rounds = device.calibrate(add, seconds=1.0) if seconds else 1
    for _ in device.until(seconds):
        total.zero_()
        elapsed = device.timed(add, rounds)
        yield Reading("read", rounds * words.nbytes / elapsed / 1e9)
        yield Reading("read_wrong", float(int(total.item()) != exact))
        yield Work(iterations=rounds, bytes=rounds * words.nbytes)


def signed(value: int) -> int:
    """The integer modulo 2^64, as a signed 64-bit word holds it: sums and products wrap alike on every device."""
    return (value + RANGE // 2) % RANGE - RANGE // 2


def _generator(device: Device) -> torch.Generator:
    import torch

    return torch.Generator(device.torch).manual_seed(device.seed)
