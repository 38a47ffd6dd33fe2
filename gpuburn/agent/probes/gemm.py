"""Sustained matrix products; after each reading, one a second, the last output is compared bit by bit."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

from gpuburn.measurement import Fact, Metric, Observed, Reading, Work
from gpuburn.probe import Taken, probe

if TYPE_CHECKING:
    from gpuburn.agent.device import Device

BITS = {"bfloat16": "int16", "float16": "int16", "float32": "int32", "float64": "int64"}


@probe(
    scope="device",
    tflops=Metric("TFLOP/s", doc="dense matrix product: 2 n^3 operations over the device's own time", better="higher"),
    wrong=Metric("count", "sum", doc="elements whose bits differ from the first product's"),
    checksum=Observed("position-weighted integer sum of the first product's bits; equal bits on every device of a SKU"),
    smoke={"size": 64, "dtype": "float32", "seconds": 0.0},
)
def gemm(device: Device, size: int = 8192, dtype: str = "bfloat16", seconds: float = 600.0) -> Iterator[Taken]:
    """Sustained matrix multiplication, the heaviest steady load that a GPU meets.

    Operands are N(0, 1) from the shared seed (zeros would switch few bits and draw little power). The same product on
    the same device has the same bits (cuBLAS, "Results reproducibility"), so a difference is corruption.

    Exercises: tensor cores, caches, memory reads, power delivery, cooling.
    Does not exercise: NVLink, PCIe, memory capacity.
    """
    import torch

    generator = torch.Generator(device.torch).manual_seed(device.seed)
    kind = getattr(torch, dtype)
    a, b = (torch.randn(size, size, generator=generator, device=device.torch, dtype=kind) for _ in range(2))
    bits = getattr(torch, BITS[dtype])
    first = torch.matmul(a, b)
    again = torch.empty_like(first)
    product = partial(torch.matmul, a, b, out=again)
    yield Fact("checksum", checksum(first.view(bits)))
    rounds = device.calibrate(product, seconds=1.0) if seconds else 1
    for _ in device.until(seconds):
        elapsed = device.timed(product, rounds)
        yield Reading("tflops", rounds * 2 * size**3 / elapsed / 1e12)
        yield Reading("wrong", float((again.view(bits) != first.view(bits)).sum().item()))
        yield Work(iterations=rounds, bytes=again.nbytes)


def checksum(bits: torch.Tensor) -> str:
    """Two 64-bit sums of an integer tensor, plain and weighted by position, in hex: cheap, and equal for equal bits."""
    import torch

    flat = bits.flatten().to(torch.int64)
    weights = torch.arange(1, flat.numel() + 1, device=flat.device, dtype=torch.int64)
    plain, weighted = int(flat.sum().item()), int((flat * weights).sum().item())
    return f"{plain & 0xFFFFFFFFFFFFFFFF:016x}{weighted & 0xFFFFFFFFFFFFFFFF:016x}"


if TYPE_CHECKING:
    import torch
