"""What the storage gives a training loop to read: a large file, many small ones, and a loader that must keep up."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from gpuburn.agent import place
from gpuburn.agent.page_cache import cached, evict
from gpuburn.agent.stream import Data, read, write, wrong
from gpuburn.measurement import Metric, Reading, Work
from gpuburn.probe import Taken, probe

if TYPE_CHECKING:
    from gpuburn.agent.device import Device
    from gpuburn.agent.training.samples import Samples

SPARE = 1.1  # free space wanted, as a multiple of what is written


@probe(
    scope="ranks",
    sequential=Metric("GB/s", better="higher",
                      doc="one large file per rank: all ranks' bytes over the slowest rank's time, from storage"),
    small=Metric("GB/s", doc="many small files in shuffled order: all ranks' bytes over the slowest rank's time",
                 better="higher"),
    per_file=Metric("ms", doc="opening and reading a small file, one after the other: this rank's mean",
                    better="lower"),
    starvation=Metric("1", doc="share of the loop's time that it waits for the loader; the first batch is not counted",
                      better="lower"),
    cached_share=Metric("1", "max",
                        "share of the files still in the page cache before reading: near 1, memory was read"),
    wrong=Metric("count", "sum", "blocks of 16 MiB and samples that are not what was written, or never came"),
    checked=Metric("GiB", "sum", "bytes read back and compared"),
    work=("iterations", "bytes"),
    stores=lambda params, count: count * (params["mib"] * 2**20 + params["files"] * params["kib"] * 2**10),
    smoke={
        "mib": 16, "files": 48, "kib": 16, "batch": 4, "loaders": 1, "size": 64, "dtype": "float32", "step": 0.01,
    },
    **place.TELLS,
)  # fmt: skip
def dataset(
    device: Device, mib: int = 8192, files: int = 4096, kib: int = 128, batch: int = 32, loaders: int = 4,
    size: int = 4096, dtype: str = "bfloat16", step: float = 0.1, directory: str = "", writers: int = 4,
) -> Iterator[Taken]:  # fmt: skip
    """Write a data set of each rank's own, turn it out of the page cache, and read it in three ways.

    A large file from its start to its end; files small files of kib KiB, one after the other; the small ones again by
    torch's DataLoader with loaders forked processes, batch samples a step, for a loop whose steps have step seconds of
    products on the device. All data are random from seed and rank; comparing is no part of what is timed.
    directory: the file system that is meant ("" = scratch). writers: hosts that may write there at once.

    Exercises: reading from storage by all ranks, opening of files, the host's processes and copies to the device.
    Does not exercise: names and inodes out of the cache, decoding, reading of what another host wrote.
    """
    import torch.distributed as dist

    from gpuburn.agent.training import samples
    from gpuburn.agent.training.pace import Products

    size_ = mib * 2**20 + files * kib * 2**10
    with place.of_ranks(device, directory, "dataset", size_, writers, files + 1, SPARE) as there:
        folder = there.folder / f"rank-{device.rank}"
        folder.mkdir()
        try:
            yield from _sequential(device, folder / "large.bin", mib)
            dist.barrier()
            made = samples.Samples.write(device, folder, files, kib * 2**10)
            yield from _small(device, made)
            yield from _fed(device, made, batch, loaders, Products(device, size, dtype, step))
        finally:
            for path in folder.iterdir():
                path.unlink()
            folder.rmdir()
    if device.rank == 0:
        yield from there.told()


def _sequential(device: Device, path: Path, mib: int) -> Iterator[Taken]:
    """A large file from its start to its end."""
    import torch.distributed as dist

    data = Data.of(device, 0, mib)
    digests = data.digests()
    write(path, data)
    evict(path)
    yield Reading("cached_share", cached(path))
    dist.barrier()
    elapsed = place.slowest(read(path), device)
    yield Reading("sequential", device.world * data.size / elapsed / 1e9)
    yield Reading("wrong", float(wrong(path, digests)))
    yield Reading("checked", data.size / 2**30)
    yield Work(iterations=1, bytes=data.size)
    path.unlink()


def _small(device: Device, made: Samples) -> Iterator[Taken]:
    """All small files once, in an order that is not theirs; what they hold is compared when they are fed."""
    yield from _evicted(made)
    own = made.swept(made.order(device.seed))
    yield Reading("per_file", own / len(made) * 1e3)
    yield Reading("small", device.world * len(made) * made.size / place.slowest(own, device) / 1e9)


def _fed(device: Device, made: Samples, batch: int, loaders: int, work: Callable[[], None]) -> Iterator[Taken]:
    """The same by a loader, for a loop that does fixed work on each batch."""
    from gpuburn.agent.training import samples

    yield from _evicted(made)
    epoch = samples.fed(device, made, made.order(device.seed + 1), batch, loaders, work)
    yield Reading("starvation", epoch.waited / epoch.total)
    yield Reading("wrong", float(epoch.wrong(made)))
    yield Reading("checked", len(made) * made.size / 2**30)
    yield Work(iterations=epoch.steps, bytes=len(made) * made.size)


def _evicted(made: Samples) -> Iterator[Taken]:
    """Turn all small files out of the page cache, on all ranks, before any reads."""
    import torch.distributed as dist

    for path in made.paths():
        evict(path)
    yield Reading("cached_share", statistics.fmean(cached(path) for path in made.paths()))
    dist.barrier()
