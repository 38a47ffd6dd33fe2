"""All-reduce over every device of the host."""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

from gpuburn.measurement import Metric, Point, Reading, Work
from gpuburn.probe import Taken, probe

if TYPE_CHECKING:
    from gpuburn.agent.device import Device

REPORTED = 1.0  # seconds of collectives behind each reading
MODULUS = 61  # elements are below 61 * world: sums stay exact in float32 for any world below 275,000


@probe(
    scope="ranks",
    busbw=Metric("GB/s", doc="bus bandwidth: 2(n-1)/n of size over the slowest rank's time (nccl-tests PERFORMANCE.md)",
                 at={"mib": "sizes_mib"}, better="higher"),
    wrong=Metric("count", "sum", doc="elements of the sum whose bits are not the exact integer's",
                 at={"mib": "sizes_mib"}),
    work=("iterations", "bytes"),
    smoke={"sizes_mib": [1], "seconds": 0.0},
)  # fmt: skip
def allreduce(device: Device, sizes_mib: list[int] = [1024], seconds: float = 60.0) -> Iterator[Taken]:  # noqa: B006
    """All-reduce of integer-valued data, whose sum is exact in any order, over a sweep of sizes.

    Exercises: NVLink/NVSwitch or PCIe peer traffic, the collectives library, the order of ranks.
    Does not exercise: the fabric between hosts.
    """
    import torch
    import torch.distributed as dist

    n = dist.get_world_size()
    factor = 2 * (n - 1) / n if n > 1 else 1.0
    share = seconds / len(sizes_mib)
    for mib in sizes_mib:
        point = Point.of(mib=mib)
        index = torch.arange(mib * 2**20 // 4, device=device.torch) % MODULUS
        expected = (index * n + n * (n - 1) // 2).to(torch.float32).view(torch.int32)
        x = torch.empty_like(expected, dtype=torch.float32)
        unsaid, begun = 0.0, time.monotonic()
        rounds, wrong = 0, 0
        while True:
            x.copy_(index + dist.get_rank())
            dist.barrier()
            elapsed = device.timed(partial(dist.all_reduce, x))
            # All ranks hear the same two times, so they agree on the last round; else one would wait for ever.
            slowest, over = _slowest([elapsed, time.monotonic() - begun], device)
            wrong += int((x.view(torch.int32) != expected).sum().item())
            unsaid, rounds = unsaid + slowest, rounds + 1
            if unsaid >= REPORTED or over >= share:
                yield Reading("busbw", rounds * factor * x.nbytes / unsaid / 1e9, point)
                yield Reading("wrong", float(wrong), point)
                yield Work(iterations=rounds, bytes=rounds * x.nbytes)
                if over >= share:
                    break
                unsaid, rounds, wrong = 0.0, 0, 0


def _slowest(times: list[float], device: Device) -> list[float]:
    """Each of the times (s) as the slowest rank saw it."""
    import torch
    import torch.distributed as dist

    most = torch.tensor(times, device=device.torch, dtype=torch.float64)
    dist.all_reduce(most, op=dist.ReduceOp.MAX)
    return [float(one) for one in most.tolist()]
