"""What the sampler reads in one pass: the host from /proc, its GPUs through NVML. Absent stays absent."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from gpuburn import plan
from gpuburn.agent import nvml
from gpuburn.agent.counters import COUNTED, HELD
from gpuburn.measurement import Fact, Reading, absences

KIB_PER_GIB = 2**20
GPU = (
    "temperature", "power", "power_limit", "memory_peak", "sm_clock", "pcie_gen", "pcie_width", "pcie_gen_max",
    "pcie_width_max", "margin", "fan", "slowdown_at", "memory_max_at", "memory_temperature",
)  # fmt: skip
SHEETS = ("counters", "links", "remapped")
OTHER = ("ecc_corrected", "ecc_uncorrected", "reasons", "processes")
ASKED = ("uuid", "pci", *(name for name in GPU if name != "memory_temperature"), *OTHER, *SHEETS)


def host(proc: Path = Path("/proc")) -> Iterator[Reading]:
    """Load and available memory of the host."""
    yield Reading("load", float((proc / "loadavg").read_text().split()[0]), subject="host")
    for line in (proc / "meminfo").read_text().splitlines():
        if line.startswith("MemAvailable:"):
            yield Reading("memory_available", int(line.split()[1]) / KIB_PER_GIB, subject="host")


def found(planned: list[plan.Device], library: nvml.Nvml) -> Iterator[tuple[str, nvml.Gpu | None]]:
    """Each planned GPU as NVML shows it now; None where it does not answer."""
    seen = library.look(ASKED).gpus if planned else []
    for device in planned:
        yield device.name, next((gpu for gpu in seen if same(device, gpu)), None)


def gpu(subject: str, seen: nvml.Gpu) -> Iterator[Reading]:
    """Sensors of one GPU; what NVML does not tell is not read."""
    yield from (Reading(name, float(seen.values[name]), subject=subject) for name in GPU if name in seen.values)


def unread(subject: str, seen: nvml.Gpu) -> Fact:
    """Which of the sampler's quantities this GPU does not tell, and why."""
    sources = {**{name: (name,) for name in (*GPU, "link_crc")}, **COUNTED, "foreign": ("processes",)}
    lacking = {name: why for name, parts in sources.items() for one in parts if (why := seen.missing.get(one))}
    if why := seen.missing.get("reasons"):
        lacking |= {name: why for name in HELD if name not in seen.values}
    return Fact("unread", absences(lacking), subject=subject)


def same(device: plan.Device, gpu: nvml.Gpu) -> bool:
    """Whether this is the planned GPU: by UUID where the plan knows it, else by PCI address, never by its place."""
    pci = str(gpu.values.get("pci", ""))
    if device.uuid:
        return gpu.values.get("uuid") == device.uuid
    return bool(device.pci) and pci.endswith(device.pci.lower())
