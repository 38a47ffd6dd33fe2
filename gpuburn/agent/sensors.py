"""What the sampler reads in one pass: the host from /proc, its GPUs through NVML. Absent stays absent."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from gpuburn import plan
from gpuburn.agent import nvml
from gpuburn.agent.counters import COUNTED, HELD
from gpuburn.measurement import Fact, Reading, absences
from gpuburn.telemetry import TELEMETRY

KIB_PER_GIB = 2**20
# What a board is built or set with, beside what changes from pass to pass: asked at every tenth pass alone.
BUILT = ("memory_peak", "pcie_gen_max", "pcie_width_max", "pcie_peak", "slowdown_at", "memory_max_at")
SET = {"power_limit_high": "power_limit", "power_limit_default": "power_default"}
GPU = (
    "temperature", "power", "power_limit", "sm_clock", "pcie_gen", "pcie_width", "margin", "fan", "memory_temperature",
    *BUILT,
)  # fmt: skip
SHEETS = ("counters", "links", "remapped")
OTHER = ("ecc_corrected", "ecc_uncorrected", "reasons", "processes", "graphics")
ASKED = ("uuid", "pci", *(name for name in GPU if name != "memory_temperature"), "power_default", *OTHER, *SHEETS)
USUAL = tuple(name for name in ASKED if name not in (*BUILT, "power_default"))
# The sampler's quantities, and what of NVML each is made of.
SOURCES: dict[str, tuple[str, ...]] = {
    **{name: (name,) for name in (*GPU, "link_crc")}, **COUNTED, "foreign": ("processes", "graphics"),
    "pcie_dropped": ("pcie_gen",), **{name: (source,) for name, source in SET.items()},
}  # fmt: skip


def host(proc: Path = Path("/proc")) -> Iterator[Reading]:
    """Load and available memory of the host."""
    yield Reading("load", float((proc / "loadavg").read_text().split()[0]), subject="host")
    for line in (proc / "meminfo").read_text().splitlines():
        if line.startswith("MemAvailable:"):
            yield Reading("memory_available", int(line.split()[1]) / KIB_PER_GIB, subject="host")


def found(planned: list[plan.Device], seen: nvml.Seen) -> Iterator[tuple[str, nvml.Gpu | None]]:
    """Each planned GPU as NVML shows it now; None where NVML answers and it does not."""
    for device in planned:
        yield device.name, next((gpu for gpu in seen.gpus if same(device, gpu)), None)


def gpu(subject: str, seen: nvml.Gpu) -> Iterator[Reading]:
    """Sensors of one GPU; what NVML does not tell is not read."""
    yield from (Reading(name, float(seen.values[name]), subject=subject) for name in GPU if name in seen.values)
    for name, source in SET.items():
        if source in seen.values:
            yield Reading(name, float(seen.values[source]), subject=subject)


def unseen(seen: nvml.Seen) -> str:
    """Why a planned GPU is not among those that NVML shows: what it says of those that do not tell who they are."""
    nameless = {gpu.missing.get("pci", "") for gpu in seen.gpus if "pci" not in gpu.values}
    said = seen.absent or ", ".join(sorted(nameless - {""}))
    return f"NVML does not show it: {said}" if said else "NVML does not show it"


def dark(subject: str, seen: nvml.Seen) -> Fact:
    """The same as unread, of a GPU that tells nothing at all."""
    names = (name for name, one in TELEMETRY.metrics.items() if one.per == "device")
    return Fact("unread", absences(dict.fromkeys(names, unseen(seen))), subject=subject)


def unread(subject: str, seen: nvml.Gpu) -> Fact:
    """Which of the sampler's quantities this GPU does not tell, and why."""
    lacking = {name: why for name, parts in SOURCES.items() for one in parts if (why := seen.missing.get(one))}
    if why := seen.missing.get("reasons"):
        lacking |= {name: why for name in HELD if name not in seen.values}
    return Fact("unread", absences(lacking), subject=subject)


def same(device: plan.Device, gpu: nvml.Gpu) -> bool:
    """Whether this is the planned GPU: by UUID where the plan knows it, else by PCI address, never by its place."""
    pci = str(gpu.values.get("pci", ""))
    if device.uuid:
        return gpu.values.get("uuid") == device.uuid
    return bool(device.pci) and pci.endswith(device.pci.lower())
