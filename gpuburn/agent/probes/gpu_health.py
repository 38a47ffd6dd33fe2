"""Wear, faults and modes of every GPU, as NVML tells them at this moment: read before the load, and after it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from gpuburn.measurement import Fact, Metric, Observed, Part, Reading, Work, absences
from gpuburn.probe import Taken, probe

if TYPE_CHECKING:
    from gpuburn.agent.host import Host
    from gpuburn.agent.nvml import Gpu, Seen

KINDS = ("hardware", "simulated")
ECC = "boards without ECC, or with ECC off"
ROWS = "GPUs before Ampere, and boards with GDDR"
PAGES = "GPUs from Ampere on remap rows instead"
OLD = "some boards and drivers do not tell it"
SRAM = "boards without ECC over their SRAM, and older drivers"
SWITCHED = "boards without an NVLink fabric"


PARTS: dict[str, Part] = {ECC: "ecc", ROWS: "rows", SRAM: "sram", SWITCHED: "fabric"}  # by who may lack it


def _count(doc: str, absent: str = "", unit: str = "count", counter: Literal["", "errors", "corrected"] = "") -> Metric:
    part = PARTS.get(absent, "")
    return Metric(unit, "last", doc, per="device", kinds=KINDS, absent=absent, counter=counter, part=part)


def _fact(
    doc: str, absent: str = "", per: str = "device", explains: bool = False, fixed: Literal["", "part"] = ""
) -> Observed:
    part = PARTS.get(absent, "")
    return Observed(doc, per=per, kinds=KINDS, absent=absent, explains=explains, fixed=fixed, part=part)


@probe(
    scope="host",
    ecc_corrected=_count("memory errors corrected by ECC since the driver was loaded", ECC),
    ecc_uncorrected=_count("memory errors that ECC could not correct since the driver was loaded", ECC),
    ecc_corrected_total=_count("memory errors corrected by ECC over the board's life", ECC, counter="corrected"),
    ecc_uncorrected_total=_count(
        "memory errors that ECC could not correct over the board's life", ECC, counter="errors"
    ),
    ecc_enabled=_count("whether ECC is on, and stays on after a reset: 1 is yes", "boards without ECC", "1"),
    sram_exceeded=_count("whether uncorrected SRAM errors passed the vendor's threshold: 1 is yes", SRAM),
    remapped_corrected=_count("memory rows remapped after corrected errors", ROWS, counter="corrected"),
    remapped_uncorrected=_count("memory rows remapped after uncorrected errors", ROWS, counter="errors"),
    remap_pending=_count("whether a row waits for a reset to be remapped: 1 is yes", ROWS),
    remap_failure=_count("whether remapping a row has failed: 1 is yes", ROWS),
    retired_single=_count("memory pages retired after repeated single-bit errors", PAGES, counter="corrected"),
    retired_double=_count("memory pages retired after a double-bit error", PAGES, counter="errors"),
    retire_pending=_count("whether a page waits for a reboot to be retired: 1 is yes", PAGES),
    nvlink_links=_count("NVLinks that are active; 0 where the board has none"),
    power_default=_count("power limit as the vendor sets it", OLD, "W"),
    power_max=_count("highest power limit that may be set", OLD, "W"),
    shutdown_at=_count("GPU temperature at which the board turns itself off", OLD, "C"),
    persistence=_count("whether the driver stays loaded without users: 1 is yes", OLD, "1"),
    memory_total=_count("GPU memory of the board", "", "GiB"),
    memory_used=_count("GPU memory in use while nothing of this run is", "", "GiB"),
    uuid=_fact("its UUID", fixed="part"),
    serial=_fact("its board's serial number", "boards whose serial the driver does not tell", fixed="part"),
    part=_fact("its board's part number", OLD, fixed="part"),
    vbios=_fact("its VBIOS version", fixed="part"),
    fabric=_fact("state of its registration with the NVLink fabric", SWITCHED),
    fabric_health=_fact("health of its place in the NVLink fabric", "boards and drivers without that summary"),
    mig=_fact("whether the GPU is split into instances", "boards that cannot be split"),
    vgpu=_fact("whether it is shared between virtual machines", OLD),
    inforom=_fact("version of the InfoROM image", OLD, fixed="part"),
    inforom_state=_fact("whether the InfoROM's checksums hold", OLD),
    recovery=_fact("what the driver asks to be done with the GPU", OLD),
    unanswered=_fact("which of these numbers the GPU does not tell, and why", explains=True),
    nvml=_fact("whether NVML answers", per="host"),
    driver_library=_fact("whether driver and NVML library are of one version", per="host"),
    cuda_driver=_fact("CUDA version that the driver carries", per="host", fixed="part"),
    mps=_fact("whether the Multi-Process Service runs, which lets processes share a GPU", per="host"),
    smoke={},
)
def gpu_health(host: Host) -> Iterator[Taken]:
    """Ask every planned GPU for its counters of wear, its faults and its modes.

    Exercises: nothing; it reads.
    Does not exercise: any part: a counter at 0 says that nothing was noticed so far.
    """
    from gpuburn.agent import nvml, sensors
    from gpuburn.agent.nvml_health import HEALTH, SHEETS

    planned = [one for one in host.devices if one.gpu]
    if planned:
        with nvml.Nvml() as library:
            seen = library.look(("uuid", "serial", "pci", "vbios", *HEALTH, *SHEETS))
            yield from _library(seen, *library.versions())
        for device in planned:
            mine = [gpu for gpu in seen.gpus if sensors.same(device, gpu)]
            for gpu in mine:
                yield from _gpu(device.name, gpu)
            if not mine:
                yield _dark(device.name, sensors.unseen(seen))
    yield Work(iterations=1)


def _library(seen: Seen, version: str, cuda: str) -> Iterator[Taken]:
    """NVML counts its version as the driver's, with the CUDA major version before it: 13.580.95.05."""
    yield Fact("nvml", seen.absent or "answers")
    if not version or not seen.driver:
        same = f"unknown: {seen.absent or 'no version is told'}"
    else:
        same = "same" if version.endswith(f".{seen.driver}") else f"driver {seen.driver}, library {version}"
    yield Fact("driver_library", seen.absent if "mismatch" in seen.absent else same)
    yield Fact("cuda_driver", cuda or "unknown: not told")
    yield Fact("mps", "on" if _mps() else "off")


def _mps(proc: Path = Path("/proc")) -> bool:
    """Whether nvidia-cuda-mps-control or -server runs; the kernel keeps 15 characters of a name (proc_pid_comm(5))."""
    for comm in proc.glob("[0-9]*/comm"):
        try:
            if comm.read_text().startswith("nvidia-cuda-mps"):
                return True
        except OSError:
            continue  # it has ended since
    return False


def _dark(subject: str, why: str) -> Fact:
    """Of a GPU that tells nothing, the same reason for every number."""
    from gpuburn.probe import REGISTRY

    return Fact("unanswered", absences(dict.fromkeys(REGISTRY["gpu_health"].metrics, why)), subject=subject)


def _gpu(subject: str, gpu: Gpu) -> Iterator[Taken]:
    """What one GPU tells; each number that it does not tell is named with NVML's reason."""
    from gpuburn.probe import REGISTRY

    me = REGISTRY["gpu_health"]
    for name in me.metrics:
        if name in gpu.values:
            yield Reading(name, float(gpu.values[name]), subject=subject)
    for name, one in me.facts.items():
        if one.per == "device" and not one.explains:
            yield Fact(name, str(gpu.values.get(name) or f"none: {gpu.missing.get(name, 'empty')}"), subject=subject)
    lacking = {name: gpu.missing[name] for name in me.metrics if name in gpu.missing}
    yield Fact("unanswered", absences(lacking), subject=subject)
