"""All-reduce over every device of the host."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from gpuburn.measurement import Metric, Point, Reading
from gpuburn.probe import Taken, probe

if TYPE_CHECKING:
    from gpuburn.agent.device import Device

AT = {"mib": "sizes_mib"}


@probe(
    scope="ranks",
    revision=2,
    algbw=Metric("GB/s", doc="size over the slowest rank's time (nccl-tests PERFORMANCE.md)", at=AT, better="higher"),
    busbw=Metric("GB/s", doc="bus bandwidth: 2(n-1)/n of size over the slowest rank's time (nccl-tests PERFORMANCE.md)",
                 at=AT, better="higher"),
    slowest=Metric("1", doc="share of the rounds in which this rank took longest", at=AT),
    wrong=Metric("count", "sum", doc="elements of the sum whose bits are not the exact integer's", at=AT),
    differing=Metric("count", "sum", doc="ranks that hold other bits of a sum of N(0, 1) data than this one", at=AT),
    work=("iterations", "bytes"),
    smoke={"sizes_mib": [1], "seconds": 0.0},
)  # fmt: skip
def allreduce(device: Device, sizes_mib: list[int] = [1024], seconds: float = 60.0) -> Iterator[Taken]:  # noqa: B006
    """All-reduce over a sweep of sizes: of integer-valued data, whose sum is exact in any order, and of real numbers,
    whose sum depends on the order but is the same everywhere: each part is added up once and handed out.

    Exercises: NVLink/NVSwitch or PCIe peer traffic, the collectives library, the order of ranks.
    Does not exercise: the fabric between hosts.
    """
    from gpuburn.agent import exchange

    for mib in sizes_mib:
        point, one = Point.of(mib=mib), exchange.made(device, "all_reduce", mib)
        yield from exchange.measured(device, one, seconds / len(sizes_mib), point)
        yield Reading("differing", float(_differing(device, one.out)), point)


def _differing(device: Device, x: torch.Tensor) -> int:
    """Sum N(0, 1) data of every rank once, and count the ranks whose bits of it are not this one's."""
    import torch
    import torch.distributed as dist

    from gpuburn.agent import detect

    x.normal_(generator=torch.Generator(device.torch).manual_seed(device.seed + 1 + dist.get_rank()))
    dist.all_reduce(x)
    told: list[str | None] = [None] * dist.get_world_size()
    dist.all_gather_object(told, detect.checksum(x))
    return sum(one != told[dist.get_rank()] for one in told)


if TYPE_CHECKING:
    import torch
