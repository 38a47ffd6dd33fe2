"""Whole disks as the kernel shows them, and which of them hold the system and a run's own folder."""

from __future__ import annotations

import os
import re
from pathlib import Path

from gpuburn.agent.look import Look
from gpuburn.agent.pci import ADDRESS

BLOCK = "/sys/block"
VIRTUAL = re.compile(r"(loop|ram|zram|dm-|md|sr|fd|nbd)\d+")
# One path to an NVMe disk: the kernel lists it beside the disk itself, hidden and without a node in /dev
# (drivers/nvme/host/multipath.c); nvme10c65n1 is controller 65's path to nvme10n1.
PATH = re.compile(r"(nvme\d+)c\d+(n\d+)")
CONTROLLER = re.compile(r"nvme\d+")
# How a part of the kernel's path to a disk is called, and what it tells; the first that is met counts.
TRANSPORTS = (
    (r"nvme(-subsys)?\d+", "nvme"),
    (r"usb\d+", "usb"),
    (r"ata\d+", "sata"),
    (r"virtio\d+", "virtio"),
    (r"host\d+", "scsi"),
)
DEPTH = 8  # of mapped devices over each other: LUKS on LVM on RAID is 3


def disks(seen: Look) -> list[str]:
    """Whole disks that are hardware, or a hypervisor's: no loop, RAM, mapped or optical ones."""
    return [name for name in seen.names(BLOCK) if not VIRTUAL.fullmatch(name) and not _is_path(seen, name)]


def _is_path(seen: Look, name: str) -> bool:
    return bool(PATH.fullmatch(name)) or seen.word(f"{BLOCK}/{name}/hidden") == "1"


def tell(seen: Look, data: str) -> None:
    """One source disk.<name> each. data: a folder whose disk is named, "" for none."""
    found = disks(seen)
    for name in found:
        _disk(seen, name)
    for key, path in (("system", "/"), ("data", data)):
        if path:
            holds = _under(seen, path)
            for name in found:
                if name in holds:
                    seen.said(f"disk.{name}", key, path)


def _disk(seen: Look, name: str) -> None:
    source, folder = f"disk.{name}", f"{BLOCK}/{name}"
    seen.read(source, "sectors", f"{folder}/size")  # of 512 bytes, whatever the disk's own are
    for key, path in (("model", "device/model"), ("serial", "device/serial")):
        seen.read(source, key, f"{folder}/{path}")
    if "serial" not in seen.sources.get(source, {}):
        _page80(seen, source, folder)
    seen.read(source, "firmware", f"{folder}/device/{'firmware_rev' if name.startswith('nvme') else 'rev'}")
    seen.read(source, "rotational", f"{folder}/queue/rotational", filler=False)
    place = seen.place(folder)
    parts = place.parts if place else ()
    kind = next((kind for name, kind in TRANSPORTS if any(re.fullmatch(name, part) for part in parts)), "")
    seen.said(source, "transport", kind, "the kernel's path to it names none that is known")
    near = next((one for path in (place, *_paths(seen, name, place)) if (one := _nearest(path))), "")
    seen.said(source, "pci", near, "no PCI device is on the kernel's path to it")


def _paths(seen: Look, name: str, place: Path | None) -> list[Path]:
    """Where an NVMe of several paths is reached: it hangs on its subsystem, which is no device of any bus itself."""
    hidden = [one for one in seen.within(BLOCK) if (match := PATH.fullmatch(one)) and match[1] + match[2] == name]
    found = [seen.place(f"{BLOCK}/{one}") for one in hidden]
    if place and place.parent.name.startswith("nvme-subsys"):
        found += [one.resolve() for one in sorted(place.parent.iterdir()) if CONTROLLER.fullmatch(one.name)]
    return [one for one in found if one]


def _nearest(place: Path | None) -> str:
    """The PCI device that is last on the kernel's path."""
    return next((part for part in reversed(place.parts if place else ()) if ADDRESS.fullmatch(part)), "")


def _page80(seen: Look, source: str, folder: str) -> None:
    """A SCSI or SATA disk's serial: vital product data page 80h, four bytes before the text (SPC-4, 7.8.14)."""
    try:
        page = seen.raw(f"{folder}/device/vpd_pg80", 256)
    except OSError:
        return
    if page[1:2] == b"\x80":
        seen.missing.pop(f"{source}.serial", None)
        length = int.from_bytes(page[2:4], "big")
        seen.said(source, "serial", page[4 : 4 + length].decode("ascii", "replace"))


def _under(seen: Look, path: str) -> set[str]:
    """The whole disks under a folder's filesystem, through partitions, mapped devices and RAID; empty if none shows."""
    try:
        number = os.stat(seen.root / path.lstrip("/")).st_dev
    except OSError:
        return set()
    link = seen.place(f"/sys/dev/block/{os.major(number)}:{os.minor(number)}")
    return _whole(link, DEPTH) if link else set()


def _whole(place: Path, depth: int) -> set[str]:
    """A partition is a folder in its disk's; a mapped device lists what it lies on in slaves/."""
    if (place / "partition").exists():
        return _whole(place.parent, depth)
    try:
        below = sorted((place / "slaves").iterdir())
    except OSError:
        below = []
    if not below or not depth:
        return {place.name}
    return {name for one in below for name in _whole(one.resolve(), depth - 1)}
