"""What the host already counted against itself, and how it is set: taken before and after the work."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from gpuburn.measurement import UNTOLD, Fact, Metric, Observed, Reading, Work
from gpuburn.probe import Taken, probe

if TYPE_CHECKING:
    from gpuburn.agent.errors import Counted
    from gpuburn.agent.host import Host
    from gpuburn.agent.nvml import Seen
    from gpuburn.identity import Identity
    from gpuburn.plan import Device


def _count(doc: str, unless: str, counter: Any = "", unit: str = "count") -> Metric:
    return Metric(unit, "last", doc, unless=unless, counter=counter)


@probe(
    scope="host",
    aer_correctable=_count("corrected PCI errors of GPUs, adapters, NVMe and bridges over them", "aer", "corrected"),
    aer_nonfatal=_count("uncorrected, nonfatal PCI errors of the same", "aer", "errors"),
    aer_fatal=_count("fatal PCI errors of the same", "aer", "errors"),
    memory_corrected=_count("corrected errors of the host's memory (EDAC)", "edac", "corrected"),
    memory_uncorrected=_count("uncorrected errors of the host's memory (EDAC)", "edac", "errors"),
    ib_symbol_errors=_count("InfiniBand symbol errors over all ports", "infiniband", "corrected"),
    ib_link_downed=_count("how often an InfiniBand link went down", "infiniband", "errors"),
    ib_recoveries=_count("how often an InfiniBand link recovered from errors", "infiniband", "corrected"),
    ib_receive_errors=_count("InfiniBand packets received with errors", "infiniband", "corrected"),
    ib_down=_count("InfiniBand ports that are not active", "infiniband"),
    ib_rate=_count("rate of the slowest active InfiniBand port", "ib_active", unit="GB/s"),
    nic_up=_count("network interfaces with a link", "nics"),
    nic_speed=_count("speed of the slowest network interface that has a link", "nics_up", unit="GB/s"),
    nic_carrier_changes=_count("how often links came or went, over all interfaces", "nics", "corrected"),
    disk_warnings=_count("disks that warn of themselves: critical warning, or failed self-assessment", "smart"),
    disk_media_errors=_count("media errors and lost sectors over all disks", "smart", "errors"),
    disk_reallocated=_count("sectors that disks replaced (SATA, SAS)", "smart_ata", "corrected"),
    disk_used=_count("of the endurance of the most worn NVMe", "smart_nvme", unit="%"),
    disk_spare=_count("spare blocks left in the NVMe with the fewest", "smart_nvme", unit="%"),
    disk_hours=_count("hours that the oldest disk was powered", "smart"),
    memory_ratio=_count("host memory over the memory of the planned GPUs", "gpu_memory", unit="1"),
    swap=Metric("GiB", "last", doc="swap space"),
    numa_nodes=_count("memory nodes", "numa"),
    clock_unsynchronised=_count("1 where no time service keeps the kernel's clock", "clock"),
    clock_offset=_count("what the time service still has to correct, without sign", "clock", unit="ms"),
    clock_error=_count("the kernel's own estimate of its clock's error", "clock", unit="ms"),
    driver_differs=_count("1 where the loaded NVIDIA driver and its library are of different versions", "driver"),
    fabric_differs=_count("1 where the fabric manager is not of the driver's version", "fabric_manager"),
    aer=Observed("whose PCI error counters were read"),
    edac=Observed("whose memory error counters were read"),
    infiniband=Observed("which InfiniBand ports were read"),
    ib_active=Observed("how many InfiniBand ports are active"),
    nics=Observed("which network interfaces were read"),
    nics_up=Observed("which of them have a link"),
    smart=Observed("which disks told their health"),
    smart_ata=Observed("which of them count replaced sectors"),
    smart_nvme=Observed("which of them are NVMe"),
    gpu_memory=Observed("what host memory is compared with"),
    numa=Observed("memory nodes by the kernel's list"),
    clock=Observed("whether a time service keeps the kernel's clock"),
    driver=Observed("version of the NVIDIA driver, where module and library agree"),
    fabric_manager=Observed("version of the fabric manager"),
    odd=Observed("which parts counted errors or warn, with their counts"),
    command_line=Observed("the running kernel's"),
    iommu=Observed("whether devices are in IOMMU groups, and what the command line says"),
    acs=Observed("bridges that send traffic between devices up to the root, where root may read it"),
    governor=Observed("the processors' frequency governor"),
    reads=("smart", "acs", "ecc"),
    smoke={},
)
def host_health(host: Host) -> Iterator[Taken]:
    """Read what the kernel, the disks and the driver counted and how they are set.

    Exercises: nothing; it reads.
    Does not exercise: any part. Nothing behind the BMC is seen; a disk tells only what its maker lets it.
    """
    from pathlib import Path

    from gpuburn.agent import hardware, nvml
    from gpuburn.agent.look import Look

    seen = Look(Path("/"))
    yield from read(seen, hardware.look(), host.seen, host.devices, nvml.look())
    yield Work(iterations=1)


def read(seen: Any, told: Identity, root: dict[str, Any], devices: list[Device], cards: Seen) -> Iterator[Taken]:
    """Everything from one look (told), what root read, and NVML's answers."""
    from gpuburn.agent import errors

    addresses = [name[4:] for name in told.sources if name.startswith("pci.")]
    aer, edac = errors.aer(seen, addresses), errors.edac(seen, root.get("ecc", {}).get("checked") == 0)
    ports = errors.infiniband(told.sources, told.missing)
    yield from _counted(
        "aer", aer, {"aer_correctable": "correctable", "aer_nonfatal": "nonfatal", "aer_fatal": "fatal"}
    )
    yield from _counted("edac", edac, {"memory_corrected": "corrected", "memory_uncorrected": "uncorrected"})
    yield from _counted("infiniband", ports, {
        "ib_symbol_errors": "symbol_error", "ib_link_downed": "link_downed", "ib_recoveries": "link_error_recovery",
        "ib_receive_errors": "port_rcv_errors", "ib_down": "down", "ib_rate": "rate",
    })  # fmt: skip
    active = "read" if "rate" in ports.numbers else "none: no active port" if ports.numbers else ports.told
    yield Fact("ib_active", active)
    yield from nics(told)
    odd: list[str] = [*aer.odd, *edac.odd, *ports.odd]
    yield from disks(root.get("smart", {"unknown": "not read"}), odd)
    yield Fact("odd", errors.listed(odd) or "nothing")
    yield from memory(told, devices, cards)
    yield from clock()
    yield from versions(seen, cards)
    yield from settings(seen, root.get("acs", {"unknown": "not read"}))


def _counted(fact: str, one: Counted, names: dict[str, str]) -> Iterator[Taken]:
    yield Fact(fact, one.told)
    for metric, name in names.items():
        if name in one.numbers:
            yield Reading(metric, one.numbers[name])


def nics(told: Identity) -> Iterator[Taken]:
    """Links, their speed (Mbit/s in the kernel's words) and how often they changed."""
    mine = {name[4:]: values for name, values in told.sources.items() if name.startswith("nic.")}
    if not mine:
        yield from (Fact(name, "none: no network interface with a device behind it") for name in ("nics", "nics_up"))
        return
    up = {name: values for name, values in mine.items() if values.get("operstate") == "up"}
    speeds = [float(values["speed"]) for values in up.values() if values.get("speed", "").isdigit()]
    yield Fact("nics", f"read of {len(mine)} interfaces")
    silent = "unknown: no interface with a link tells its speed" if up else "none: no interface has a link"
    yield Fact("nics_up", ", ".join(sorted(up))[:180] if speeds else silent)
    yield Reading("nic_up", float(len(up)))
    changes = [one.get("carrier_changes", "") for one in mine.values()]
    if all(one.isascii() and one.isdigit() for one in changes):
        yield Reading("nic_carrier_changes", float(sum(map(int, changes))))
    if speeds:
        yield Reading("nic_speed", min(speeds) / 8e3)


def disks(smart: dict[str, Any], odd: list[str]) -> Iterator[Taken]:
    """What the disks told. A warning of one counts, also where another told nothing; a nought needs them all."""
    silent = smart.get("unknown") or "; ".join(f"{name}: {one['unknown']}" for name, one in _silent(smart))
    heard = {name: one for name, one in smart.items() if isinstance(one, dict) and "unknown" not in one}
    whole = f"unknown: {silent}"[:180] if silent else f"read of {len(heard)} disks" if heard else "none: no disk"
    yield Fact("smart", whole)
    for fact, key in (("smart_ata", "reallocated"), ("smart_nvme", "used")):
        count = sum(key in one for one in heard.values())
        yield Fact(fact, whole if whole.startswith(UNTOLD) else f"{count} disks" if count else "none: no such disk")
    odd += [
        f"{name} {key} {one[key]}" for name, one in heard.items() for key in ("warning", "media_errors") if one.get(key)
    ]
    sums = (("disk_warnings", "warning", sum), ("disk_media_errors", "media_errors", sum),
            ("disk_reallocated", "reallocated", sum), ("disk_used", "used", max), ("disk_spare", "spare", min),
            ("disk_hours", "hours", max))  # fmt: skip
    for metric, key, fold in sums:
        values = [min(one[key], 1) if key == "warning" else one[key] for one in heard.values() if key in one]
        total = fold(values) if values else 0
        if values and (not silent or (fold is sum and total > 0)):
            yield Reading(metric, float(total))


def _silent(smart: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    return [(name, one) for name, one in sorted(smart.items()) if isinstance(one, dict) and "unknown" in one]


def memory(told: Identity, devices: list[Device], cards: Seen) -> Iterator[Taken]:
    """Host memory beside the GPUs' (GiB); swap; memory nodes."""
    from gpuburn.agent.hardware import count
    from gpuburn.agent.sensors import same

    total = float(told.value("memory.total").split()[0]) / 2**20 if told.value("memory.total") else 0.0
    planned = [one for one in devices if one.gpu]
    sizes = [
        float(gpu.values["memory"])
        for one in planned
        for gpu in cards.gpus
        if same(one, gpu) and "memory" in gpu.values
    ]
    if not planned:
        yield Fact("gpu_memory", "none: no GPU is planned")
    elif len(sizes) < len(planned) or not total:
        yield Fact(
            "gpu_memory", f"unknown: {len(sizes)} of {len(planned)} planned GPUs tell their memory; {cards.absent}"
        )
    else:
        yield Fact("gpu_memory", f"{sum(sizes):.0f} GiB in {len(sizes)} GPUs")
        yield Reading("memory_ratio", total / sum(sizes))
    swap = told.sources.get("memory", {}).get("swap", "").split()
    if swap:
        yield Reading("swap", float(swap[0]) / 2**20)
    nodes = told.sources.get("cpu", {}).get("numa", "")
    yield Fact("numa", nodes or "none: the kernel lists no memory nodes")
    if nodes:
        yield Reading("numa_nodes", float(count(nodes)))


def clock() -> Iterator[Taken]:
    """The kernel's clock; in a sandbox that hides it, the reason."""
    from gpuburn.agent.clock import clock as ask

    told = ask()
    if told.why:
        yield Fact("clock", f"unknown: {told.why}")
        return
    yield Fact("clock", "synchronised" if told.synchronised else "not synchronised")
    yield Reading("clock_unsynchronised", 0.0 if told.synchronised else 1.0)
    yield Reading("clock_offset", abs(told.offset))
    yield Reading("clock_error", told.error)


def versions(seen: Any, cards: Seen) -> Iterator[Taken]:
    """Driver, library and fabric manager."""
    from gpuburn.agent import fabric

    told, differs = fabric.driver(seen, cards.driver, cards.absent)
    yield Fact("driver", told)
    if differs is not None:
        yield Reading("driver_differs", float(differs))
    manager = fabric.manager(seen)
    if not manager.startswith(UNTOLD) and not cards.driver:
        manager = f"unknown: {manager} is installed, and no driver answers"
    yield Fact("fabric_manager", manager)
    if not manager.startswith(UNTOLD):
        yield Reading("fabric_differs", float(manager != cards.driver))


def settings(seen: Any, acs: dict[str, Any]) -> Iterator[Taken]:
    """How the kernel was started and is set."""
    from gpuburn.agent import errors

    yield Fact("command_line", seen.word("/proc/cmdline") or "unknown: /proc/cmdline cannot be read")
    yield Fact("iommu", errors.iommu(seen))
    yield Fact("governor", errors.governor(seen))
    redirecting = acs.get("redirecting", [])
    told = f"redirecting on {len(redirecting)} of {acs.get('bridges')} bridges: {errors.listed(redirecting) or 'none'}"
    yield Fact("acs", f"unknown: {acs['unknown']}" if "unknown" in acs else told)
