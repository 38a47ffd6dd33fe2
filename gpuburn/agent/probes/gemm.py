"""Sustained matrix products into a ring over memory, each buffer compared bit by bit with the first product."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

from gpuburn.measurement import Fact, Metric, Observed, Reading, Work
from gpuburn.probe import Taken, probe

if TYPE_CHECKING:
    from gpuburn.agent.device import Device
    from gpuburn.agent.products import Product

BLOCK = 1.0  # seconds of work between two looks at the clock: one reading a second
WARM = (300.0, 600.0)  # seconds of load: minutes 5 to 10, when temperatures have settled and nothing has worn off yet
LONG = 900.0  # seconds from which the last quarter lies behind those minutes


@probe(
    scope="device",
    revision=2,
    tflops=Metric("TFLOP/s", doc="dense matrix product: 2 n^3 operations over the device's own time", better="higher"),
    sustained=Metric(
        "1", "last", "median TFLOP/s of the last quarter over that of minutes 5 to 10; steps of 15 minutes and more",
        kinds=("hardware",),
    ),
    duty=Metric("1", "last", "the device's own time in products over the time that passed, comparing included"),
    wrong=Metric("count", "sum", doc="elements whose bits differ from the first product's, over all buffers compared"),
    not_finite=Metric("count", "sum", "elements that are infinite or no number, by their bits"),
    off=Metric("1", "max", "largest error of elements computed again in FP64 on the host, over what rounding allows"),
    checked=Metric("1", "last", "share of all products whose every bit was compared"),
    coverage=Metric("1", "last", "share of the device's whole memory that the products are written to"),
    checksum=Observed("position-weighted integer sum of the first product's bits; equal bits on every device of a SKU"),
    mismatch=Observed("buffer, place and bits of an element that differed in the last check that found one"),
    work=("iterations", "bytes"),
    smoke={"size": 64, "dtype": "float32", "seconds": 0.0, "share": 0.0, "spots": 16},
)  # fmt: skip
def gemm(
    device: Device, size: int = 8192, dtype: str = "bfloat16", seconds: float = 600.0, share: float = 0.8,
    spots: int = 256, checking: float = 0.02,
) -> Iterator[Taken]:  # fmt: skip
    """Sustained matrix multiplication, the heaviest steady load that a GPU meets.

    dtype: float64, float32, tf32, bfloat16, float16 or fp8. share: of the device's memory that the products go through
    in turn. spots: elements computed again on the host. checking: most of the time that comparing may take; so on a
    fast device not every product is compared, and `checked` says how many were.

    Operands are N(0, 1) from the shared seed. The same product on the same device has the same bits (cuBLAS, "Results
    reproducibility"), so a difference is corruption.

    Exercises: tensor cores, caches, memory reads and writes all over the memory, power delivery, cooling.
    Does not exercise: NVLink, PCIe, memory retention.
    """
    from gpuburn.agent import detect, products
    from gpuburn.agent.ring import Ring

    product = products.made(device, dtype, size)
    first = product.empty()
    product.multiply(first)
    yield Fact("checksum", detect.checksum(first))
    yield from _sound(product, first, spots, device.seed)
    ring = Ring(device, product, first, share)
    yield Reading("coverage", ring.bytes / device.memory)
    yield from ring.check()
    rounds = device.calibrate(ring.step, BLOCK) if seconds else 1
    taken: list[tuple[float, float]] = []  # seconds of load so far, TFLOP/s
    worked = since = 0.0
    began = time.monotonic()
    for _ in device.until(seconds):
        elapsed = device.timed(ring.step, rounds)
        worked, since = worked + elapsed, since + elapsed
        taken.append((worked, rounds * product.operations / elapsed / 1e12))
        yield Reading("tflops", taken[-1][1])
        yield Work(iterations=rounds)
        if ring.due(since, checking):
            since = 0.0
            yield from ring.check()
        yield Reading("duty", min(1.0, worked / (time.monotonic() - began)))
    if since:
        yield from ring.check()
    yield Reading("checked", ring.compared / ring.products)
    yield from _sound(product, ring.newest, spots, device.seed + 1)
    yield Fact("mismatch", ring.mismatch)
    if worked >= LONG:
        yield Reading("sustained", held(taken))


def _sound(product: Product, out: torch.Tensor, spots: int, seed: int) -> Iterator[Reading]:
    """What one product shows without another one: numbers, and the right ones."""
    from gpuburn.agent import detect, spot

    yield Reading("not_finite", float(detect.not_finite(out)))
    yield Reading("off", spot.off(product, out, spots, seed))


def held(taken: list[tuple[float, float]]) -> float:
    """How much of the settled speed is left at the end: median of the last quarter over that of minutes 5 to 10."""
    end = taken[-1][0]
    late = statistics.median(speed for at, speed in taken if at > 0.75 * end)
    return late / statistics.median(speed for at, speed in taken if WARM[0] <= at <= WARM[1])


if TYPE_CHECKING:
    import torch
