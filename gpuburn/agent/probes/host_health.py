"""What the host already counted against itself, and how it is set: taken before and after the work."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from gpuburn.measurement import UNTOLD, Fact, Metric, Observed, Point, Reading, Work
from gpuburn.probe import Taken, probe

if TYPE_CHECKING:
    from gpuburn.agent.errors import Counted
    from gpuburn.agent.host import Host
    from gpuburn.agent.nvml import Seen
    from gpuburn.identity import Identity
    from gpuburn.plan import Device


BY_ROLE = {"role": "roles"}
SYSTEM, DATA = "system", "data"  # a disk under /, and any other: where data sets and checkpoints lie


def _count(doc: str, unless: str, counter: Any = "", unit: str = "count") -> Metric:
    at = BY_ROLE if unless.startswith("smart") else {}
    return Metric(unit, "last", doc, unless=unless, counter=counter, at=at)


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
    disk_warnings=_count("disks that warn of themselves: critical warning, or failed self-assessment", "smart_warns"),
    disk_silent=_count("disks beside them that did not tell their health", "smart"),
    disk_media_errors=_count("media errors and lost sectors over these disks", "smart", "errors"),
    disk_reallocated=_count("sectors that disks replaced (SATA, SAS)", "smart_ata", "corrected"),
    disk_used=_count("of the endurance of the most worn disk", "smart_wear", unit="%"),
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
    nics_up=Observed("which of them have a link, and how fast each is"),
    smart=Observed("which disks told their health", at=BY_ROLE),
    smart_warns=Observed("which of them assess themselves", at=BY_ROLE),
    smart_wear=Observed("which of them tell their wear", at=BY_ROLE),
    smart_ata=Observed("which of them count replaced sectors", at=BY_ROLE),
    smart_nvme=Observed("which of them are NVMe", at=BY_ROLE),
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
    reads=("smart", "acs", "ecc", "bridges"),
    revision=3,
    smoke={"roles": [SYSTEM, DATA]},
)
def host_health(host: Host, roles: list[str] = [SYSTEM, DATA]) -> Iterator[Taken]:  # noqa: B006
    """Read what the kernel, the disks and the driver counted and how they are set. Disks that hold the system and all
    others are told apart: another one fails for another reason, and is replaced by other means.

    Exercises: nothing; it reads.
    Does not exercise: any part. Nothing behind the BMC is seen; a disk tells only what its maker lets it.
    """
    from pathlib import Path

    from gpuburn.agent import hardware, nvml
    from gpuburn.agent.look import Look

    seen = Look(Path("/"))
    yield from read(seen, hardware.look(), host.seen, host.devices, nvml.look(), roles)
    yield Work(iterations=1)


def read(
    seen: Any, told: Identity, root: dict[str, Any], devices: list[Device], cards: Seen, roles: Iterable[str]
) -> Iterator[Taken]:
    """Everything from one look (told), what root read, and NVML's answers."""
    from gpuburn.agent import errors, nics as adapters

    bridges = root.get("bridges", {"unknown": "not read"})
    told = adapters.without(told, bridges.get("addresses", []))
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
    yield Fact("ib_active", _active(told, ports))
    yield from nics(told)
    odd: list[str] = [*aer.odd, *edac.odd, *ports.odd]
    for role in roles:
        yield from disks(of_role(root.get("smart", {"unknown": "not read"}), told, role), role, odd)
    yield Fact("odd", errors.listed(odd) or "nothing")
    yield from memory(told, devices, cards)
    yield from clock()
    yield from versions(seen, cards, bridges)
    yield from settings(seen, root.get("acs", {"unknown": "not read"}))


def _counted(fact: str, one: Counted, names: dict[str, str]) -> Iterator[Taken]:
    yield Fact(fact, one.told)
    for metric, name in names.items():
        if name in one.numbers:
            yield Reading(metric, one.numbers[name])


def _active(told: Identity, ports: Counted) -> str:
    every = [one for name, one in told.sources.items() if name.startswith("ib.")]
    count = sum(one.get("link_layer") == "InfiniBand" for one in every)
    if "rate" in ports.numbers:
        return f"{count - ports.numbers['down']:.0f} of {count} ports"
    return "none: no active port" if ports.numbers else ports.told


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
    each = (f"{name} {one.get('speed', '?')} Mbit/s" for name, one in sorted(up.items()))
    yield Fact("nics_up", ", ".join(each)[:180] if speeds else silent)
    yield Reading("nic_up", float(len(up)))
    changes = [one.get("carrier_changes", "") for one in mine.values()]
    if all(one.isascii() and one.isdigit() for one in changes):
        yield Reading("nic_carrier_changes", float(sum(map(int, changes))))
    if speeds:
        yield Reading("nic_speed", min(speeds) / 8e3)


def of_role(smart: dict[str, Any], told: Identity, role: str) -> dict[str, Any]:
    """What the disks of one role told; {} for none. Where / lies on no disk that shows, every disk is a data disk."""
    if "unknown" in smart:
        return smart
    system = {name for name in smart if told.sources.get(f"disk.{name}", {}).get(SYSTEM)}
    return {name: one for name, one in smart.items() if (name in system) == (role == SYSTEM)}


def disks(smart: dict[str, Any], role: str, odd: list[str]) -> Iterator[Taken]:
    """What the disks told: judged are those that did, named those that did not; one without SMART is no such disk."""
    point = Point.of(role=role)
    silent = smart.get("unknown") or "; ".join(f"{name}: {one['unknown']}" for name, one in _saying(smart, "unknown"))
    bare = [f"{name}: {one['none']}" for name, one in _saying(smart, "none")]
    heard = {name: one for name, one in smart.items() if isinstance(one, dict) and not {"unknown", "none"} & set(one)}
    if heard:
        named = f"read of {len(heard)} disks ({', '.join(sorted(heard))})"
        whole = "; ".join([named, *([silent] if silent else []), *bare])[:180]
        yield Reading("disk_silent", float(len(_saying(smart, "unknown"))), point)
    else:
        none = f"no {role} disk that shows"
        whole = f"unknown: {silent}"[:180] if silent else f"none: {'; '.join(bare) or none}"[:180]
    yield Fact("smart", whole, point)
    for fact, key in (("smart_warns", "warning"), ("smart_wear", "used"), ("smart_ata", "reallocated"),
                      ("smart_nvme", "spare")):  # fmt: skip
        count = sum(key in one for one in heard.values())
        told = whole if whole.startswith(UNTOLD) else f"{count} disks" if count else "none: no such disk"
        yield Fact(fact, told, point)
    for name, one in heard.items():
        odd += [f"{name} ({role}) {key} {one[key]}" for key in ("warning", "media_errors") if one.get(key)]
    yield from _folded(heard, point)


def _folded(heard: dict[str, Any], point: Point) -> Iterator[Taken]:
    """One number for all disks of a role, of those that tell it."""
    sums = (("disk_warnings", "warning", sum), ("disk_media_errors", "media_errors", sum),
            ("disk_reallocated", "reallocated", sum), ("disk_used", "used", max), ("disk_spare", "spare", min),
            ("disk_hours", "hours", max))  # fmt: skip
    for metric, key, fold in sums:
        values = [min(one[key], 1) if key == "warning" else one[key] for one in heard.values() if key in one]
        if values:
            yield Reading(metric, float(fold(values)), point)


def _saying(smart: dict[str, Any], word: str) -> list[tuple[str, dict[str, Any]]]:
    return [(name, one) for name, one in sorted(smart.items()) if isinstance(one, dict) and word in one]


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
    yield Fact("clock", told.told)
    yield Reading("clock_unsynchronised", 0.0 if told.synchronised else 1.0)
    yield Reading("clock_offset", abs(told.offset))
    yield Reading("clock_error", told.error)


def versions(seen: Any, cards: Seen, bridges: dict[str, Any]) -> Iterator[Taken]:
    """Driver, library and fabric manager."""
    from gpuburn.agent import fabric

    told, differs = fabric.driver(seen, cards.driver, cards.absent)
    yield Fact("driver", told)
    if differs is not None:
        yield Reading("driver_differs", float(differs))
    manager = fabric.manager(seen, bridges)
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
