"""All of a machine at once: devices, processors, memory, disk and network stack, which nothing else loads together."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from gpuburn.measurement import Fact, Metric, Observed, Reading, Work
from gpuburn.probe import Taken, probe

if TYPE_CHECKING:
    from gpuburn.agent.device import Device
    from gpuburn.agent.loads import Load, Tally

BLOCK = 1.0  # seconds of work between two readings
CHECKING = 0.02  # most of the device's time that comparing may take
SPARE = 1.2  # free space wanted, as a multiple of what is written


@probe(
    scope="device",
    tflops=Metric("TFLOP/s", doc="dense matrix product beside all other loads; as in gemm", better="higher"),
    wrong=Metric("count", "sum", doc="elements of the products whose bits differ from the first one's"),
    cpu=Metric("TFLOP/s", "last", "FP32 products on this device's share of the processors", better="higher"),
    memory=Metric("GB/s", "last", "triad and its comparison in the host's memory, one thread", better="higher"),
    disk=Metric("GB/s", "last", "one file per device, written once and then read from storage", better="higher"),
    network=Metric("GB/s", "last", "a TCP stream on 127.0.0.1: the stack, no cable", better="higher"),
    host_wrong=Metric("count", "sum", "comparisons of host loads that found other bits than they had to"),
    mismatch=Observed("buffer, place and bits of an element that differed in the last check that found one"),
    host_odd=Observed("which loads of the host were wrong and how often, or 'nothing'"),
    work=("iterations", "bytes"),
    smoke={"size": 64, "dtype": "float32", "seconds": 0.0, "share": 0.0, "host_mib": 1, "disk_mib": 8},
)
def chassis(
    device: Device, size: int = 8192, dtype: str = "bfloat16", seconds: float = 600.0, share: float = 0.5,
    host_mib: int = 1024, disk_mib: int = 4096, directory: str = "",
) -> Iterator[Taken]:  # fmt: skip
    """Matrix products on the device, and beside them its share of the host's loads, all devices at the same time.

    Power supplies and air flow see their worst only so. host_mib: of each of the four arrays of the memory load.
    directory: the file system of the disk load ("" = scratch); it writes disk_mib once and then reads, for wear.

    Exercises: power supplies, fans and the feed under the whole machine's load; processors, memory, disk, all checked.
    Does not exercise: network cables and ports (the stream stays in the host), the links between devices.
    """
    from gpuburn.agent import products
    from gpuburn.agent.loads import Beside
    from gpuburn.agent.ring import Ring

    product = products.made(device, dtype, size)
    first = product.empty()
    product.multiply(first)
    ring = Ring(device, product, first, share)
    yield from ring.check()
    rounds = device.calibrate(ring.step, BLOCK) if seconds else 1
    beside, since = Beside(_loads(device, host_mib, disk_mib, directory)), 0.0
    with beside.running() as tallies:
        for _ in device.until(seconds):
            elapsed = device.timed(ring.step, rounds)
            since += elapsed
            yield Reading("tflops", rounds * product.operations / elapsed / 1e12)
            yield Work(iterations=rounds)
            if ring.due(since, CHECKING):
                since = 0.0
                yield from ring.check()
    yield from ring.check()
    yield from _told(tallies)
    yield Fact("mismatch", ring.mismatch)


def _loads(device: Device, host_mib: int, disk_mib: int, directory: str) -> dict[str, Load]:
    """This device's share of the host's loads: as many threads of products as there are processors for each device."""
    from gpuburn.agent import loads

    folder = Path(directory) if directory else device.folder
    if not directory:
        folder.mkdir(parents=True, exist_ok=True)
    wanted, free = int(SPARE * device.world * disk_mib * 2**20), shutil.disk_usage(folder).free
    if free < wanted:
        raise OSError(f"{folder}: {free} bytes free, {wanted} wanted for a file of each device and a fifth")
    threads = max(1, len(os.sched_getaffinity(0)) // device.world)
    return {
        "cpu": loads.processors(threads, device.seed),
        "memory": loads.memory(host_mib),
        "disk": loads.disk(folder / f"gpuburn-chassis-{device.name}-{os.getpid()}.bin", disk_mib, device.seed),
        "network": loads.network(device.seed),
    }


def _told(tallies: dict[str, Tally]) -> Iterator[Taken]:
    """What each load came to: rates in TFLOP/s and GB/s, and which of them were wrong."""
    for name, tally in tallies.items():
        yield Reading(name, tally.rate / (1e12 if name == "cpu" else 1e9))
    odd = [f"{name}: {tally.wrong}" for name, tally in tallies.items() if tally.wrong]
    yield Reading("host_wrong", float(sum(tally.wrong for tally in tallies.values())))
    yield Fact("host_odd", "; ".join(odd) or "nothing")
