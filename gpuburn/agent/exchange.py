"""Collectives on integer-valued data: what each rank puts in, what must come out, and how bandwidth is reckoned.

Sizes are those of NVIDIA/nccl-tests, doc/PERFORMANCE.md: S is the larger of what one rank sends and receives,
algbw = S / t, and busbw = algbw x factor is what each link carried, whatever the number of ranks.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gpuburn.measurement import Point, Reading, Work
from gpuburn.probe import Taken
from gpuburn.strict import known

if TYPE_CHECKING:
    import torch

    from gpuburn.agent.device import Device

REPORTED = 1.0  # seconds of collectives behind each reading
MODULUS = 61  # elements are below 61 + world, and sums below 61 world: exact in float32 for any world below 275,000


@dataclass(frozen=True, slots=True)
class Exchange:
    """run: the collective itself. fill: puts the data back in its place before each round. out: where the answer is.

    factor: busbw over algbw. bytes: S. expected: what every bit of out must be.
    """

    factor: float
    bytes: int
    fill: Callable[[], object]
    run: Callable[[], object]
    out: torch.Tensor
    expected: torch.Tensor

    def wrong(self) -> int:
        """Elements whose bits are not the expected ones'. Waits."""
        import torch

        return int((self.out.view(torch.int32) != self.expected.view(torch.int32)).sum().item())


@dataclass(frozen=True, slots=True)
class Told:
    """Rounds since the last one of these: the slowest rank's seconds, this rank's wrong elements, and the share of the
    rounds in which this rank was the slowest."""

    rounds: int
    seconds: float
    wrong: int
    slowest: float


def measured(device: Device, one: Exchange, seconds: float, point: Point) -> Iterator[Taken]:
    """What so many seconds of one collective show: algbw, busbw, wrong and slowest of each second, and the work."""
    for told in rounds(device, one, seconds):
        speed = told.rounds * one.bytes / told.seconds / 1e9
        yield Reading("algbw", speed, point)
        yield Reading("busbw", speed * one.factor, point)
        yield Reading("wrong", float(told.wrong), point)
        yield Reading("slowest", told.slowest, point)
        yield Work(iterations=told.rounds, bytes=told.rounds * one.bytes)


def rounds(device: Device, one: Exchange, seconds: float) -> Iterator[Told]:
    """So many seconds of one collective, at least one round, after a first one that sets its ways up: that one is
    checked and not timed."""
    import torch.distributed as dist

    one.fill()
    one.run()
    begun, unsaid, count, wrong, mine = time.monotonic(), 0.0, 0, one.wrong(), 0
    while True:
        one.fill()
        dist.barrier()
        elapsed = device.timed(one.run)
        # All ranks hear the same times, so that they agree on the last round; else one would wait for ever.
        times = _everybodys([elapsed, time.monotonic() - begun], device)
        slowest, over = max(times)[0], max(told for _, told in times)
        wrong, mine = wrong + one.wrong(), mine + (times[dist.get_rank()][0] == slowest)
        unsaid, count = unsaid + slowest, count + 1
        if unsaid >= REPORTED or over >= seconds:
            yield Told(count, unsaid, wrong, mine / count)
            if over >= seconds:
                return
            unsaid, count, wrong, mine = 0.0, 0, 0, 0


def _everybodys(times: list[float], device: Device) -> list[list[float]]:
    """The same times (s) as each rank saw them."""
    import torch
    import torch.distributed as dist

    mine = torch.tensor(times, device=device.torch, dtype=torch.float64)
    out = torch.empty(dist.get_world_size() * len(times), device=device.torch, dtype=torch.float64)
    dist.all_gather_single(out, mine)
    return [[float(one) for one in row] for row in out.view(-1, len(times)).tolist()]


def made(device: Device, op: str, mib: int) -> Exchange:
    """One collective of about so many MiB: the elements are shared out evenly over the ranks."""
    import torch
    import torch.distributed as dist

    known(op, OPS, "op")
    rank, n = dist.get_rank(), dist.get_world_size()
    count = mib * 2**20 // 4 // n * n
    index = (torch.arange(count, device=device.torch) % MODULUS).to(torch.float32)
    return OPS[op](index, rank, n)


def _all_reduce(index: torch.Tensor, rank: int, n: int) -> Exchange:
    """Everybody's sum, everywhere, in place."""
    import torch
    import torch.distributed as dist

    x = torch.empty_like(index)
    expected = index * n + n * (n - 1) // 2
    return Exchange(2 * (n - 1) / n if n > 1 else 1.0, x.nbytes, lambda: torch.add(index, rank, out=x),
                    lambda: dist.all_reduce(x), x, expected)  # fmt: skip


def _all_gather(index: torch.Tensor, rank: int, n: int) -> Exchange:
    """Everybody's part, everywhere: part r is of rank r."""
    import torch
    import torch.distributed as dist

    part = index.numel() // n
    mine, out = index[:part] + rank, torch.empty_like(index)
    expected = torch.cat([index[:part] + other for other in range(n)])
    return Exchange(_others(n), out.nbytes, lambda: out.fill_(-1.0), lambda: dist.all_gather_single(out, mine), out,
                    expected)  # fmt: skip


def _reduce_scatter(index: torch.Tensor, rank: int, n: int) -> Exchange:
    """Part r of everybody's sum, on rank r."""
    import torch
    import torch.distributed as dist

    part = index.numel() // n
    mine, out = index + rank, torch.empty_like(index[:part])
    expected = index[rank * part : (rank + 1) * part] * n + n * (n - 1) // 2
    return Exchange(_others(n), mine.nbytes, lambda: out.fill_(-1.0), lambda: dist.reduce_scatter_single(out, mine),
                    out, expected)  # fmt: skip


def _all_to_all(index: torch.Tensor, rank: int, n: int) -> Exchange:
    """Part r of mine goes to rank r, and rank r's part of my number comes from it."""
    import torch
    import torch.distributed as dist

    part = index.numel() // n
    mine, out = index + rank, torch.empty_like(index)
    expected = torch.cat([index[rank * part : (rank + 1) * part] + other for other in range(n)])
    return Exchange(_others(n), mine.nbytes, lambda: out.fill_(-1.0), lambda: dist.all_to_all_single(out, mine), out,
                    expected)  # fmt: skip


def _broadcast(index: torch.Tensor, rank: int, n: int) -> Exchange:
    """The last rank's data, everywhere, in place."""
    import torch
    import torch.distributed as dist

    root, x = n - 1, torch.empty_like(index)
    told = index + root

    def fill() -> object:
        return x.copy_(told) if rank == root else x.fill_(-1.0)

    return Exchange(1.0, x.nbytes, fill, lambda: dist.broadcast(x, src=root), x, told)


def _others(n: int) -> float:
    """The share of the data that is another rank's."""
    return (n - 1) / n if n > 1 else 1.0


OPS: dict[str, Callable[[torch.Tensor, int, int], Exchange]] = {
    "all_reduce": _all_reduce, "all_gather": _all_gather, "reduce_scatter": _reduce_scatter, "all_to_all": _all_to_all,
    "broadcast": _broadcast,
}  # fmt: skip
