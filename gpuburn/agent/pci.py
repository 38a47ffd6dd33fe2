"""PCI devices as the kernel shows them: GPUs, network adapters and NVMe, with or without a driver.

The names of the files are those of the kernel's sysfs-bus-pci. Link speed and width are of now: at rest a GPU may
have lowered them.
"""

from __future__ import annotations

import re

from gpuburn.agent.look import Look, clean, why

DEVICES, SLOTS = "/sys/bus/pci/devices", "/sys/bus/pci/slots"
NVIDIA = "0x10de"
GPU = ("0x0300", "0x0302")  # display controller (VGA), 3D controller: PCI Code and ID Assignment, class 03
KEPT = (*GPU, "0x02", "0x0108")  # and network controllers (class 02), non-volatile memory (01/08)
SWITCH = "0x0680"  # "other bridge": NVSwitch shows as one
ADDRESS = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")


def is_gpu(values: dict[str, str]) -> bool:
    """Whether a pci.<address> source is an NVIDIA display or 3D controller."""
    return values.get("vendor") == NVIDIA and values.get("class", "").startswith(GPU)


def tell(seen: Look, slots: dict[str, str]) -> None:
    """One source pci.<address> for each device that is kept. slots: PCI address -> the board's name for its slot."""
    places = {**slots, **_slots(seen)}
    for address in seen.names(DEVICES):
        try:
            vendor, kind = (seen.text(f"{DEVICES}/{address}/{name}").strip() for name in ("vendor", "class"))
        except OSError as error:
            seen.missing[f"pci.{clean(address)}"] = why(error, address)
            continue
        if kind.startswith(KEPT) and (vendor == NVIDIA or not kind.startswith(GPU)):
            _device(seen, address, clean(vendor), clean(kind), places)


def _device(seen: Look, address: str, vendor: str, kind: str, places: dict[str, str]) -> None:
    source, folder = f"pci.{address}", f"{DEVICES}/{address}"
    seen.said(source, "address", address)
    seen.said(source, "vendor", vendor)
    seen.said(source, "class", kind)
    for key in ("device", "subsystem_vendor", "subsystem_device", "current_link_speed", "current_link_width",
                "max_link_speed", "max_link_width", "numa_node"):  # fmt: skip
        seen.read(source, key, f"{folder}/{key}", filler=False)
    seen.said(source, "driver", seen.target(f"{folder}/driver"), "no driver is bound")
    slot = next((places[one] for one in above(seen, address) if one in places), "")
    seen.said(source, "slot", slot, "neither the board's tables nor the kernel name its slot")


def _slots(seen: Look) -> dict[str, str]:
    """The kernel's slots: /sys/bus/pci/slots/<name>/address holds domain:bus:device, without the function."""
    found = {seen.word(f"{SLOTS}/{name}/address"): name for name in seen.within(SLOTS)}
    return {f"{address}.0": name for address, name in found.items() if ADDRESS.fullmatch(f"{address}.0")}


def above(seen: Look, address: str) -> list[str]:
    """The device itself and the bridges over it, nearest first: a slot's name may stand at the port above."""
    place = seen.place(f"{DEVICES}/{address}")
    parts = place.parts if place else ()
    found = [part for part in reversed(parts) if ADDRESS.fullmatch(part)]
    return [address, *(one for one in found if one != address)]
