"""The collectives beside all-reduce, over every device of the host."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from gpuburn.measurement import Metric, Point
from gpuburn.probe import Taken, probe

if TYPE_CHECKING:
    from gpuburn.agent.device import Device

AT = {"op": "ops", "mib": "sizes_mib"}


@probe(
    scope="ranks",
    algbw=Metric("GB/s", doc="size over the slowest rank's time (nccl-tests PERFORMANCE.md)", at=AT, better="higher"),
    busbw=Metric("GB/s", doc="the same times what is another rank's of the size, (n-1)/n; broadcast: times 1", at=AT,
                 better="higher"),
    slowest=Metric("1", doc="share of the rounds in which this rank took longest", at=AT),
    wrong=Metric("count", "sum", doc="elements of the answer whose bits are not the exact integer's", at=AT),
    work=("iterations", "bytes"),
    smoke={"ops": ["all_gather", "reduce_scatter", "all_to_all", "broadcast"], "sizes_mib": [1], "seconds": 0.0},
)  # fmt: skip
def collectives(
    device: Device,
    ops: list[str] = ["all_gather", "reduce_scatter", "all_to_all", "broadcast"],  # noqa: B006
    sizes_mib: list[int] = [1024],  # noqa: B006
    seconds: float = 60.0,
) -> Iterator[Taken]:
    """All-gather, reduce-scatter, all-to-all and broadcast of integer-valued data, which comes out exact in any order.

    Sharded training gathers weights and scatters gradients in every layer, and experts exchange all to all: other ways
    through the fabric, and other kernels, than all-reduce.

    Exercises: NVLink/NVSwitch or PCIe peer traffic in other patterns, the collectives library, the order of ranks.
    Does not exercise: the fabric between hosts.
    """
    from gpuburn.agent import exchange

    share = seconds / len(ops) / len(sizes_mib)
    for op in ops:
        for mib in sizes_mib:
            yield from exchange.measured(device, exchange.made(device, op, mib), share, Point.of(op=op, mib=mib))
