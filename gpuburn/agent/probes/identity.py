"""What the host is made of, counted, so that what was ordered can be demanded."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from gpuburn.measurement import Fact, Metric, Observed, Reading, Work
from gpuburn.probe import Taken, probe

if TYPE_CHECKING:
    from gpuburn.agent.host import Host
    from gpuburn.agent.nvml import Gpu, Seen
    from gpuburn.identity import Identity
    from gpuburn.plan import Device

GPU_KINDS = ("hardware", "simulated")


@probe(
    scope="host",
    cpus=Metric("count", "last", doc="logical processors online"),
    memory=Metric("GiB", "last", doc="memory that the kernel manages: MemTotal, a few per cent below the modules' sum"),
    gpus=Metric("count", "last", doc="GPUs that NVML sees; 0 where it sees none or does not answer"),
    gpus_pci=Metric("count", "last", doc="NVIDIA display and 3D controllers on the PCI bus, with or without a driver"),
    disks=Metric("count", "last", doc="whole disks"),
    nics=Metric("count", "last", doc="network interfaces with a device behind them"),
    cpu_model=Observed("the first processor's name for itself"),
    kernel=Observed("release of the running kernel"),
    os=Observed("the distribution's name for itself"),
    torch=Observed("version of the installed torch"),
    driver=Observed("version of the NVIDIA driver, where NVML answers", kinds=GPU_KINDS),
    devices=Observed("digest of every GPU's UUID, serial, name, PCI address and VBIOS version"),
    gpu_uuid=Observed("UUID of a planned GPU (NVML)", per="device", kinds=GPU_KINDS),
    gpu_serial=Observed("its board's serial number, or 'none: ' and why there is none", per="device", kinds=GPU_KINDS),
    gpu_name=Observed("its name for itself", per="device", kinds=GPU_KINDS),
    gpu_vbios=Observed("its VBIOS version", per="device", kinds=GPU_KINDS),
    gpu_sku=Observed(
        "the SKU that its PCI id (else its whole name) tells, or 'unknown: ' and both", per="device", kinds=GPU_KINDS
    ),
    reads=("bridges",),
    revision=3,
    smoke={},
)
def identity(host: Host) -> Iterator[Taken]:
    """Count and name the parts that the kernel and NVML show.

    Exercises: nothing; it reads.
    Does not exercise: any part: one that is counted may still be broken. Nothing behind the BMC is seen.
    """
    from gpuburn.agent import hardware, nics, nvml

    seen, cards = nics.without(hardware.look(), host.seen.get("bridges", {}).get("addresses", [])), nvml.look()
    yield from counts(seen, cards)
    yield from facts(seen, cards)
    yield from gpus(host.devices, cards)
    yield Work(iterations=1)


def counts(seen: Identity, cards: Seen) -> Iterator[Taken]:
    """Numbers; one whose source could not be read is not there, and nothing stands in for it."""
    from gpuburn.agent.hardware import gpus as cards_on_the_bus, named

    if cpus := seen.value("cpu.count"):
        yield Reading("cpus", float(cpus))
    if total := seen.value("memory.total"):
        yield Reading("memory", float(total.split()[0]) / 2**20)
    yield Reading("gpus", float(len(cards.gpus)))
    if "sys.bus.pci.devices" not in seen.missing:
        yield Reading("gpus_pci", float(len(cards_on_the_bus(seen))))
    for metric, kind, folder in (("disks", "disk", "sys.block"), ("nics", "nic", "sys.class.net")):
        if folder not in seen.missing:
            yield Reading(metric, float(len(named(seen, kind))))


def gpus(planned: list[Device], cards: Seen) -> Iterator[Taken]:
    """What each planned GPU says of itself; one that NVML does not show says nothing, and is missed."""
    from gpuburn.agent.sensors import same

    for device in planned:
        for gpu in cards.gpus:
            if same(device, gpu):
                for fact, name in (("gpu_uuid", "uuid"), ("gpu_name", "name"), ("gpu_vbios", "vbios")):
                    if name in gpu.values:
                        yield Fact(fact, str(gpu.values[name]), subject=device.name)
                yield Fact("gpu_sku", told(gpu), subject=device.name)
                serial = gpu.values.get("serial") or f"none: {gpu.missing.get('serial', 'empty')}"
                yield Fact("gpu_serial", str(serial), subject=device.name)


def told(gpu: Gpu) -> str:
    """The SKU that a GPU tells to be; never the nearest one."""
    from gpuburn import sku

    pci, name = str(gpu.values.get("pci_id", "")), str(gpu.values.get("name", ""))
    found = sku.match(pci, name)
    return found.id if found else f"unknown: {pci or 'no PCI id'} {name or 'no name'}"


def facts(seen: Identity, cards: Seen) -> Iterator[Taken]:
    """Strings; devices is the same only if every GPU tells the same of itself."""
    from importlib import metadata

    from gpuburn import strict
    from gpuburn.agent.nvml import IDENTITY

    for name, key in (("cpu_model", "cpu.model"), ("kernel", "os.kernel"), ("os", "os.release")):
        if value := seen.value(key):
            yield Fact(name, value)
    yield Fact("torch", metadata.version("torch"))
    if cards.driver:
        yield Fact("driver", cards.driver)
    told = [{key: str(gpu.values.get(key, "")) for key in IDENTITY} for gpu in cards.gpus]
    yield Fact("devices", strict.digest(strict.line(told)))
