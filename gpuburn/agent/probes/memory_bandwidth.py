"""Bandwidth of a device's own memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from gpuburn.measurement import Metric, Reading, Work
from gpuburn.probe import Taken, probe

if TYPE_CHECKING:
    from gpuburn.agent.device import Device


@probe(
    scope="device",
    triad=Metric(
        "GB/s", doc="a = b + s c: two reads and one write over the device's own time (STREAM's triad)", better="higher"
    ),
    wrong=Metric(
        "count", "sum", doc="elements of a whose bits are not those of b + s c, which is exact for these values"
    ),
    work=("iterations", "bytes"),
    smoke={"mib": 1, "seconds": 0.0},
)
def memory_bandwidth(device: Device, mib: int = 4096, seconds: float = 30.0) -> Iterator[Taken]:
    """Stream three large arrays through the device.

    Triad is used and not copy: a contiguous copy_ is a cudaMemcpy, which reads 10 to 20 % lower than a kernel
    (BabelStream against nvbandwidth's device-local copy on A100 and H100).
    Small integers make the sum exact, so that every element can be checked.

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

    def triad() -> object:
        return torch.add(b, c, alpha=3.0, out=a)

    rounds = device.calibrate(triad, seconds=1.0) if seconds else 1
    for _ in device.until(seconds):
        elapsed = device.timed(triad, rounds)
        yield Reading("triad", rounds * 3 * a.nbytes / elapsed / 1e9)
        yield Reading("wrong", float((a.view(torch.int32) != expected).sum().item()))
        yield Work(iterations=rounds, bytes=rounds * 3 * a.nbytes)


def _generator(device: Device) -> torch.Generator:
    import torch

    return torch.Generator(device.torch).manual_seed(device.seed)


if TYPE_CHECKING:
    import torch
