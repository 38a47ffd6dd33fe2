"""What the kernel tells of the machine: plain readers of /proc and /sys that name what they could not read.

Nothing is run and nothing is loaded, so it works before any driver does. What NVML adds is read in nvml.py.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from gpuburn.identity import Identity, is_junk

LENGTH = 200
READ = 256 * 1024  # bytes of one file: /proc/cpuinfo of a 384-thread host is larger, its first processor is not
NVIDIA = "0x10de"
DISPLAY, CONTROLLER_3D = "0x0300", "0x0302"
CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]")
VIRTUAL_DISK = re.compile(r"(loop|ram|zram|dm-|md|sr|fd|nbd)\d+")
DMI = (
    "sys_vendor", "product_name", "product_serial", "product_uuid", "board_vendor", "board_name", "board_serial",
    "chassis_vendor", "chassis_serial", "bios_vendor", "bios_version", "bios_date",
)  # fmt: skip


@dataclass(slots=True)
class _Look:
    """Values and gaps as they are found. Only read and said write into it."""

    root: Path
    sources: dict[str, dict[str, str]] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)

    def read(self, source: str, key: str, path: str) -> None:
        """A file's value, or why there is none."""
        try:
            self.said(source, key, self.text(path))
        except OSError as error:
            self.missing[f"{source}.{key}"] = _why(error, path)

    def said(self, source: str, key: str, value: str, why: str = "empty") -> None:
        """A value; filler and nothing are absent, and named."""
        value = clean(value)
        if not value:
            self.missing[f"{source}.{key}"] = why
        elif is_junk(value):
            self.missing[f"{source}.{key}"] = f"filler: {value}"
        else:
            self.sources.setdefault(source, {})[key] = value

    def text(self, path: str) -> str:
        with (self.root / path.lstrip("/")).open("rb") as file:
            return file.read(READ).decode("utf-8", "replace")

    def names(self, path: str) -> list[str]:
        """The entries of a folder, sorted; one that cannot be listed, or whose name is not one clean line, is named."""
        about = path.strip("/").replace("/", ".")
        try:
            found = sorted(os.listdir(self.root / path.lstrip("/")))
        except OSError as error:
            self.missing[about] = _why(error, path)
            return []
        odd = [name for name in found if clean(name) != name]
        self.missing |= {f"{about}.{clean(name)}": "its name has characters that no name has" for name in odd}
        return [name for name in found if name not in odd]

    def target(self, path: str) -> str:
        """The last part of where a link points, or ""."""
        try:
            return Path(os.readlink(self.root / path.lstrip("/"))).name
        except OSError:
            return ""


def look(root: Path = Path("/")) -> Identity:
    """Everything that can be read now. Never raises for a file that is missing or cannot be read."""
    seen = _Look(root)
    for key in DMI:
        seen.read("dmi", key, f"/sys/class/dmi/id/{key}")
    _system(seen)
    _cpu(seen)
    _memory(seen)
    for name in disks(seen):
        _disk(seen, name)
    for name in nics(seen):
        _nic(seen, name)
    for address in gpus(seen):
        _pci(seen, address)
    seen.read("os", "boot_id", "/proc/sys/kernel/random/boot_id")
    boot_id = seen.sources.get("os", {}).pop("boot_id", "")
    return Identity(time.time(), boot_id, seen.sources, seen.missing)


def named(identity: Identity, kind: str) -> list[str]:
    """Sources of a kind (disk, nic, pci), in order of their names."""
    return sorted(name for name in identity.sources if name.startswith(f"{kind}."))


def clean(value: str) -> str:
    """One line without control characters, of bounded length."""
    return CONTROL.sub(" ", value).strip()[:LENGTH].strip()


def _why(error: OSError, path: str) -> str:
    return clean(f"{error.strerror or type(error).__name__}: {path}")


def _system(seen: _Look) -> None:
    seen.read("os", "kernel", "/proc/sys/kernel/osrelease")
    seen.read("os", "hostname", "/proc/sys/kernel/hostname")
    try:
        pairs = dict(line.split("=", 1) for line in seen.text("/etc/os-release").splitlines() if "=" in line)
    except OSError as error:
        seen.missing["os.release"] = _why(error, "/etc/os-release")
        return
    seen.said("os", "release", pairs.get("PRETTY_NAME", "").strip("\"' "), "no PRETTY_NAME in /etc/os-release")


def _cpu(seen: _Look) -> None:
    try:
        lines = seen.text("/proc/cpuinfo").splitlines()
    except OSError as error:
        seen.missing["cpu.model"] = _why(error, "/proc/cpuinfo")
        lines = []
    pairs = (one.split(":", 1) for one in reversed(lines) if ":" in one)
    first = {key.strip(): value.strip() for key, value in pairs}  # reversed: the first processor's lines are kept
    if lines:
        model = first.get("model name") or first.get("CPU part", "")
        seen.said("cpu", "model", model, "no model name in /proc/cpuinfo")
        seen.said("cpu", "microcode", first.get("microcode", ""), "no microcode in /proc/cpuinfo")
    seen.read("cpu", "online", "/sys/devices/system/cpu/online")
    if online := seen.sources.get("cpu", {}).get("online"):
        seen.said("cpu", "count", str(count(online)))


def count(ranges: str) -> int:
    """How many numbers a kernel list such as "0-3,8" has; 0 where it is not one."""
    total = 0
    for part in ranges.split(","):
        low, _, high = part.strip().partition("-")
        if not low.isdigit() or not (high or low).isdigit():
            return 0
        total += int(high or low) - int(low) + 1
    return total


def _memory(seen: _Look) -> None:
    try:
        pairs = dict(one.split(":", 1) for one in seen.text("/proc/meminfo").splitlines() if ":" in one)
    except OSError as error:
        seen.missing["memory.total"] = _why(error, "/proc/meminfo")
        return
    seen.said("memory", "total", pairs.get("MemTotal", ""), "no MemTotal in /proc/meminfo")


def disks(seen: _Look) -> list[str]:
    """Whole disks that are hardware, or a hypervisor's: no loop, RAM, mapped or optical ones."""
    return [name for name in seen.names("/sys/block") if not VIRTUAL_DISK.fullmatch(name)]


def _disk(seen: _Look, name: str) -> None:
    source, folder = f"disk.{name}", f"/sys/block/{name}"
    seen.read(source, "sectors", f"{folder}/size")  # of 512 bytes, whatever the disk's own are
    for key, path in (("model", "device/model"), ("serial", "device/serial"), ("firmware", "device/firmware_rev")):
        seen.read(source, key, f"{folder}/{path}")


def nics(seen: _Look) -> list[str]:
    """Network interfaces that have a device behind them: no loopback, bridge, bond or veth."""
    return [name for name in seen.names("/sys/class/net") if (seen.root / f"sys/class/net/{name}/device").exists()]


def _nic(seen: _Look, name: str) -> None:
    source, folder = f"nic.{name}", f"/sys/class/net/{name}"
    seen.read(source, "mac", f"{folder}/address")
    seen.read(source, "speed", f"{folder}/speed")  # Mbit/s; the kernel answers EINVAL or -1 where there is no link
    if seen.sources.get(source, {}).get("speed", "").startswith("-"):
        seen.missing[f"{source}.speed"] = f"no link: {seen.sources[source].pop('speed')}"
    seen.said(source, "driver", seen.target(f"{folder}/device/driver"), "no driver is bound")
    seen.said(source, "pci", seen.target(f"{folder}/device"), "no device link")


def gpus(seen: _Look) -> Iterator[str]:
    """PCI addresses of NVIDIA display and 3D controllers, whether or not a driver took them."""
    for address in seen.names("/sys/bus/pci/devices"):
        try:
            vendor, kind = (seen.text(f"/sys/bus/pci/devices/{address}/{name}").strip() for name in ("vendor", "class"))
        except OSError as error:
            seen.missing[f"pci.{clean(address)}"] = _why(error, address)
            continue
        if vendor == NVIDIA and kind.startswith((DISPLAY, CONTROLLER_3D)):
            yield address


def _pci(seen: _Look, address: str) -> None:
    source, folder = f"pci.{address}", f"/sys/bus/pci/devices/{address}"
    seen.said(source, "address", address)
    for key in ("device", "subsystem_vendor", "subsystem_device", "current_link_speed", "current_link_width",
                "max_link_speed", "max_link_width", "numa_node"):  # fmt: skip
        seen.read(source, key, f"{folder}/{key}")
    seen.said(source, "driver", seen.target(f"{folder}/driver"), "no driver is bound")
