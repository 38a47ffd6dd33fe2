"""What the storage takes and gives back when every rank checkpoints at once."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from gpuburn.agent import place
from gpuburn.agent.page_cache import cached, evict
from gpuburn.agent.stream import Data, read, write, wrong
from gpuburn.measurement import Metric, Reading, Work
from gpuburn.probe import Taken, probe

if TYPE_CHECKING:
    from pathlib import Path

    from gpuburn.agent.device import Device


@probe(
    scope="ranks",
    write=Metric(
        "GB/s",
        doc="all ranks' bytes over the slowest rank's time, from open to fsync of file and folder",
        better="higher",
    ),
    read=Metric("GB/s", doc="all ranks' bytes over the slowest rank's time, from storage", better="higher"),
    cached_share=Metric(
        "1", "max", doc="share of the file still in the page cache before reading: near 1, memory was read"
    ),
    wrong=Metric("count", "sum", doc="blocks of 16 MiB whose SHA-256 on reading is not that of what was written"),
    checked=Metric("GiB", "sum", doc="bytes read back and compared"),
    work=("iterations", "bytes"),
    stores=lambda params, count: count * params["rounds"] * params["mib"] * 2**20,
    smoke={"mib": 16, "rounds": 1},
    **place.TELLS,
)
def checkpoint(
    device: Device, mib: int = 16384, rounds: int = 3, directory: str = "", writers: int = 4
) -> Iterator[Taken]:
    """Write a file per rank with fsync, turn it out of the page cache, read it back, and compare every block.

    The data are random, from the seed and the rank: nothing to compress, no page twice. directory: the file system that
    is meant ("" = the step's scratch). writers: hosts that may write there at once, where they share it. Digests are
    compared in a pass of their own, so that hashing slows no reading.

    Exercises: file system and disks under all ranks at once, fsync, copies from device to host, host memory.
    Does not exercise: the loop that waits for a checkpoint (distributed_checkpoint), reading by another host.
    """
    import torch.distributed as dist

    with place.of_ranks(device, directory, "checkpoint", mib * 2**20, writers) as there:
        path = there.folder / f"rank-{dist.get_rank()}.bin"
        try:
            for number in range(rounds):
                yield from _round(device, Data.of(device, number, mib), path)
                path.unlink()
        finally:
            path.unlink(missing_ok=True)
    if device.rank == 0:
        yield from there.told()


def _round(device: Device, data: Data, path: Path) -> Iterator[Taken]:
    import torch.distributed as dist

    path.unlink(missing_ok=True)
    digests = data.digests()
    dist.barrier()
    written = place.slowest(write(path, data), device)
    total = data.size * dist.get_world_size()
    yield Reading("write", total / written / 1e9)
    evict(path)
    yield Reading("cached_share", cached(path))
    dist.barrier()
    seen = place.slowest(read(path), device)
    yield Reading("read", total / seen / 1e9)
    yield Reading("wrong", float(wrong(path, digests)))
    yield Reading("checked", data.size / 2**30)
    yield Work(iterations=1, bytes=data.size)
