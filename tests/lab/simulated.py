"""A lab host with simulated GPUs: NVML's stand-in, a PCI tree, a unit that finds both. The product knows nothing."""

from __future__ import annotations

from pathlib import Path

from tests.fakes.nvml.build import BUSES, healthy, library

from .host import Host
from .lab import Lab, Layer

UNIT = "/etc/systemd/system/gpuburn@.service.d/nvml.conf"
SEEN = "/opt/nvml"  # where the host sees the stand-in and its scenario
CARDS = "/opt/pci"  # what becomes its /sys/bus/pci/devices once it is up: nspawn mounts /sys anew
PCI = {"vendor": "0x10de", "device": "0x2335", "class": "0x030200", "subsystem_vendor": "0x10de",
       "subsystem_device": "0x18be"}  # fmt: skip


class Simulated:
    """Eight H200 in a host that is off; `say` changes what NVML tells, also while it runs."""

    def __init__(self, lab: Lab, name: str, layer: Layer, folder: Path) -> None:
        self.folder = folder / name
        nvml, tree = self.folder / "nvml", self.folder / "pci"
        nvml.mkdir(parents=True)
        library(nvml)
        self.say()
        for bus in BUSES:
            card = tree / f"0000:{bus.lower()}:00.0"
            card.mkdir(parents=True)
            for key, value in PCI.items():
                (card / key).write_text(f"{value}\n")
        options = [f"--bind-ro={nvml}:{SEEN}", f"--bind-ro={tree}:{CARDS}"]
        self.host: Host = lab.host(name, [layer], options)
        environment = f"LD_LIBRARY_PATH={SEEN} GPUBURN_FAKE_NVML={SEEN}/scenario"
        self.host.write(UNIT, f"[Service]\nEnvironment={environment}\n")

    def plug(self) -> None:
        """The cards become visible on the host's PCI bus."""
        self.host.ssh("mount", "--bind", CARDS, "/sys/bus/pci/devices")

    def say(self, *changes: str) -> None:
        """These lines stand before those of eight healthy GPUs."""
        path = self.folder / "nvml" / "scenario"
        beside = path.with_suffix(".new")
        beside.write_text("\n".join([*changes, healthy(8)]))
        beside.replace(path)
