"""The all-reduce of the probe against a bare loop over the same tensor, in the same three ranks. Run by `make bench`.

A ratio is the median over interleaved pairs: identical pairs vary by about a tenth on a small machine.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from pathlib import Path

import torch
import torch.distributed as dist

from gpuburn.agent import exchange
from gpuburn.agent.device import Device
from gpuburn.measurement import Reading
from gpuburn.probe import Taken
from tests.agent.training import three_ranks

PAIRS = 31
MIB = 64
ROUNDS = 8


def pairs(device: Device) -> Iterator[tuple[str, Iterator[Taken]]]:
    yield "pairs", _pairs(device)


def _pairs(device: Device) -> Iterator[Taken]:
    """GB/s, in turns: of the probe's own rounds, and of a loop of nothing but the collective."""
    one = exchange.made(device, "all_reduce", MIB)
    bare, x = [], torch.zeros_like(one.out)
    dist.all_reduce(x)
    for _ in range(PAIRS):
        told = next(iter(exchange.rounds(device, one, 1.0)))
        yield Reading("probe", told.rounds * one.bytes / told.seconds / 1e9)
        dist.barrier()
        seconds = torch.tensor(device.timed(lambda: dist.all_reduce(x), ROUNDS), dtype=torch.float64)
        dist.all_reduce(seconds, op=dist.ReduceOp.MAX)  # of the slowest rank, as the probe tells it
        bare.append(ROUNDS * one.bytes / float(seconds) / 1e9)
        yield Reading("bare", bare[-1])


def test_all_reduce_reads_what_a_bare_loop_reaches(tmp_path: Path) -> None:
    taken = [one for one in three_ranks.run(pairs, tmp_path)["pairs"][0] if isinstance(one, Reading)]
    probe, bare = ([one.value for one in taken if one.metric == name] for name in ("probe", "bare"))
    ratios = [one / other for one, other in zip(probe, bare)]
    ratio = statistics.median(ratios)
    print(f"\nallreduce.algbw over a bare loop, 3 ranks, {MIB} MiB: {ratio:.3f} (median of {PAIRS} pairs, "
          f"{min(ratios):.3f} to {max(ratios):.3f}; {statistics.median(probe):.2f} and {statistics.median(bare):.2f} "
          f"GB/s); wanted at least 0.98")  # fmt: skip
    assert ratio >= 0.98
