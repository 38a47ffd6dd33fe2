"""What the sampler reads in one pass: the host from /proc, its GPUs through NVML. Absent stays absent."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from gpuburn import plan
from gpuburn.agent import nvml
from gpuburn.measurement import Reading

KIB_PER_GIB = 2**20
GPU = ("temperature", "power", "power_limit", "memory_peak", "sm_clock")
ASKED = ("uuid", "pci", *GPU)


def host(proc: Path = Path("/proc")) -> Iterator[Reading]:
    """Load and available memory of the host."""
    yield Reading("load", float((proc / "loadavg").read_text().split()[0]), subject="host")
    for line in (proc / "meminfo").read_text().splitlines():
        if line.startswith("MemAvailable:"):
            yield Reading("memory_available", int(line.split()[1]) / KIB_PER_GIB, subject="host")


def gpus(planned: list[plan.Device], library: nvml.Nvml) -> Iterator[Reading]:
    """Sensors of the planned GPUs, found by UUID or PCI address; what NVML does not tell is not read."""
    seen = library.look(ASKED).gpus if planned else []
    for device in planned:
        for gpu in seen:
            if same(device, gpu):
                yield from (
                    Reading(name, float(gpu.values[name]), subject=device.name) for name in GPU if name in gpu.values
                )


def same(device: plan.Device, gpu: nvml.Gpu) -> bool:
    """Whether this is the planned GPU: by UUID where the plan knows it, else by PCI address, never by its place."""
    pci = str(gpu.values.get("pci", ""))
    if device.uuid:
        return gpu.values.get("uuid") == device.uuid
    return bool(device.pci) and pci.endswith(device.pci.lower())
