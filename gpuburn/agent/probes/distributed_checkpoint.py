"""What a training loop waits for its checkpoints, written and restored by torch.distributed.checkpoint."""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from gpuburn.agent import place
from gpuburn.agent.page_cache import cached, evict
from gpuburn.measurement import Metric, Reading, Work
from gpuburn.probe import Taken, probe

if TYPE_CHECKING:
    from gpuburn.agent.device import Device
    from gpuburn.agent.training.sharded import Loop, Store

COPIES = 1.5  # host memory wanted, as a multiple of the copies that asynchronous saves are written from


@probe(
    scope="ranks",
    stall=Metric("s", doc="dcp.save: how long the loop stands until all is durable under its name; slowest rank",
                 better="lower"),
    stall_async=Metric("s", doc="dcp.async_save: how long the loop stands until it may go on; slowest rank",
                       better="lower"),
    persist=Metric("s", doc="dcp.async_save: from the call until all is durable under its name; slowest rank",
                   better="lower"),
    beside=Metric("1", doc="a step of the loop while a checkpoint is persisted over one at rest; medians",
                  better="lower"),
    restore=Metric("s", doc="dcp.load: until every rank holds the state again; slowest rank", better="lower"),
    write=Metric("GB/s", doc="all ranks' bytes over the time that the loop stands for dcp.save", better="higher"),
    read=Metric("GB/s", doc="all ranks' bytes over the time of dcp.load, from storage", better="higher"),
    write_rank=Metric("GB/s", doc="this rank's bytes over its own time of writing, with fsync", better="higher"),
    read_rank=Metric("GB/s", doc="this rank's bytes over its own time of reading", better="higher"),
    cached_share=Metric("1", "max",
                        "share of the files still in the page cache before reading: near 1, memory was read"),
    wrong=Metric("count", "sum", "entries of the restored state whose bits are not those that were saved"),
    checked=Metric("GiB", "sum", "bytes restored and compared"),
    work=("iterations", "bytes"),
    stores=lambda params, count: 2 * count * params["rounds"] * params["mib"] * 2**20,
    smoke={"mib": 6, "rounds": 1, "size": 64, "dtype": "float32", "step": 0.01, "steps": 3},
    **place.TELLS,
)  # fmt: skip
def distributed_checkpoint(
    device: Device, mib: int = 4096, rounds: int = 2, size: int = 4096, dtype: str = "bfloat16", step: float = 0.2,
    steps: int = 10, directory: str = "", writers: int = 4,
) -> Iterator[Taken]:  # fmt: skip
    """Save synchronously, restore; save asynchronously while the loop goes on, restore; compare every bit each time.

    Each rank has mib MiB of weights and moments, random, as a sharded run has (FSDP, ZeRO). Files are written with
    fsync into a folder that is renamed once it is whole. Before it is restored the state is wiped and the files are
    turned out of the page cache. An asynchronous save is as in torch: a blocking copy to the host, then a thread.
    Checksums are made outside what is timed. step: seconds of products in a step of the loop; steps: those at rest.
    directory: the file system that is meant ("" = scratch). writers: hosts that may write there at once.

    Exercises: torch.distributed.checkpoint, storage under all ranks, fsync, copies to the host, a loop beside writing.
    Does not exercise: another number of ranks on restoring, page-locked staging, reading by another host.
    """
    import torch.distributed as dist

    from gpuburn.agent.training.pace import Products
    from gpuburn.agent.training.sharded import Loop, State, Store

    _memory(COPIES * device.world * mib * 2**20)
    with place.of_ranks(device, directory, "distributed_checkpoint", mib * 2**20, writers) as there:
        state = State(device, mib)
        loop = Loop(device, state, Products(device, size, dtype, step))
        store = Store(there.folder, device, state, dist.new_group(backend="gloo"))
        try:
            for _ in range(rounds):
                yield from _sync(store)
                yield from _async(store, loop, steps)
        finally:
            if device.rank == 0:
                store.clear()
        dist.destroy_process_group(store.group)
    if device.rank == 0:
        yield from there.told()


def _memory(wanted: float) -> None:
    """Refuse copies that the host's memory does not hold: the kernel would end a process of its choice."""
    said = dict(line.split(":", 1) for line in Path("/proc/meminfo").read_text().splitlines())
    free = int(said["MemAvailable"].split()[0]) * 1024
    if free < wanted:
        raise MemoryError(f"{free} bytes of the host's memory available, {int(wanted)} wanted for copies of the state")


def _sync(store: Store) -> Iterator[Taken]:
    """The loop stands until all is durable."""
    saved = store.state.told()
    stall, own = store.save()
    stall = place.slowest(stall, store.device)
    yield Reading("stall", stall)
    yield Reading("write", store.device.world * store.state.bytes / stall / 1e9)
    yield Reading("write_rank", store.state.bytes / own / 1e9)
    yield from _restored(store, saved)


def _async(store: Store, loop: Loop, steps: int) -> Iterator[Taken]:
    """The loop goes on, and changes what is being saved: only the copy still has it."""
    rest = [loop.step() for _ in range(steps)]
    saved = store.state.told()
    saving = store.begin()
    taken = loop.until(saving.future.done)
    written, commit = (place.slowest(one, store.device) for one in store.finish(saving))
    yield Reading("stall_async", place.slowest(saving.stall, store.device))
    yield Reading("persist", written + commit)
    yield Reading("beside", statistics.median(taken) / statistics.median(rest))
    yield from _restored(store, saved)


def _restored(store: Store, saved: list[str]) -> Iterator[Taken]:
    """Wipe the state, read it back from storage, and compare it with what was saved."""
    import torch.distributed as dist

    for path in store.files():
        evict(path)
    yield Reading("cached_share", max(cached(path) for path in store.files()))
    store.state.forget()
    dist.barrier()
    elapsed, own = store.restore()
    elapsed = place.slowest(elapsed, store.device)
    yield Reading("restore", elapsed)
    yield Reading("read", store.device.world * store.state.bytes / elapsed / 1e9)
    yield Reading("read_rank", store.state.bytes / own / 1e9)
    yield Reading("wrong", float(sum(one != other for one, other in zip(saved, store.state.told()))))
    yield Reading("checked", store.state.bytes / 2**30)
    yield Work(iterations=1, bytes=store.state.bytes)
    store.remove()
