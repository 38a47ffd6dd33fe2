"""What the kernel tells of the machine: plain readers of /proc and /sys that name what they could not read.

Nothing is run and nothing is loaded, so it works before any driver does. What NVML adds is read in nvml.py.
"""

from __future__ import annotations

import re
import time
from pathlib import Path

from gpuburn.agent import disks, nics, numa, pci, smbios
from gpuburn.agent.look import LENGTH, Look, clean, why
from gpuburn.identity import Identity

__all__ = ["LENGTH", "clean", "count", "gpus", "look", "named"]
DMI = (
    "sys_vendor", "product_name", "product_serial", "product_uuid", "board_vendor", "board_name", "board_serial",
    "chassis_vendor", "chassis_serial", "bios_vendor", "bios_version", "bios_date",
)  # fmt: skip
THREAD = re.compile(r"cpu\d{1,5}")
SIZE = re.compile(r"[0-9]{1,15} kB")


def look(root: Path = Path("/"), data: str = "") -> Identity:
    """Everything that can be read now. Never raises for a file that is missing or cannot be read.

    data: a folder whose disk is to be told apart, for a run its own.
    """
    seen = Look(root)
    for key in DMI:
        seen.read("dmi", key, f"/sys/class/dmi/id/{key}")
    _system(seen)
    _cpu(seen)
    _memory(seen)
    slots = smbios.tell(seen)
    disks.tell(seen, data)
    nics.tell(seen)
    pci.tell(seen, slots)
    seen.read("os", "boot_id", "/proc/sys/kernel/random/boot_id")
    boot_id = seen.sources.get("os", {}).pop("boot_id", "")
    return Identity(time.time(), boot_id, seen.sources, seen.missing)


def named(identity: Identity, kind: str) -> list[str]:
    """Sources of a kind (disk, nic, pci, dimm, ib), in order of their names."""
    return sorted(name for name in identity.sources if name.startswith(f"{kind}."))


def gpus(identity: Identity) -> list[str]:
    """PCI addresses of NVIDIA's display and 3D controllers, in order."""
    return [name.partition(".")[2] for name in named(identity, "pci") if pci.is_gpu(identity.sources[name])]


def _system(seen: Look) -> None:
    seen.read("os", "kernel", "/proc/sys/kernel/osrelease")
    seen.read("os", "hostname", "/proc/sys/kernel/hostname")
    try:
        pairs = dict(line.split("=", 1) for line in seen.text("/etc/os-release").splitlines() if "=" in line)
    except OSError as error:
        seen.missing["os.release"] = why(error, "/etc/os-release")
        return
    seen.said("os", "release", pairs.get("PRETTY_NAME", "").strip("\"' "), "no PRETTY_NAME in /etc/os-release")


def _cpu(seen: Look) -> None:
    try:
        lines = seen.text("/proc/cpuinfo").splitlines()
    except OSError as error:
        seen.missing["cpu.model"] = why(error, "/proc/cpuinfo")
        lines = []
    pairs = (one.split(":", 1) for one in reversed(lines) if ":" in one)
    first = {key.strip(): value.strip() for key, value in pairs}  # reversed: the first processor's lines are kept
    if lines:
        model = first.get("model name") or first.get("CPU part", "")
        seen.said("cpu", "model", model, "no model name in /proc/cpuinfo")
        seen.said("cpu", "microcode", first.get("microcode", ""), "no microcode in /proc/cpuinfo")
    seen.read("cpu", "online", "/sys/devices/system/cpu/online", filler=False)
    if online := seen.sources.get("cpu", {}).get("online"):
        seen.said("cpu", "count", str(count(online)), filler=False)
    _topology(seen)
    seen.read("cpu", "numa", "/sys/devices/system/node/online", filler=False)


def _topology(seen: Look) -> None:
    """Sockets and cores: distinct packages, and distinct (package, core) pairs, of the threads that are online."""
    folder = "/sys/devices/system/cpu"
    threads = [name for name in seen.within(folder) if THREAD.fullmatch(name)]
    names = ("physical_package_id", "core_id")
    pairs = {tuple(seen.word(f"{folder}/{one}/topology/{key}") for key in names) for one in threads}
    known = {pair for pair in pairs if all(pair)}
    gap = f"no topology in {folder}"
    seen.said("cpu", "sockets", str(len({package for package, _ in known}) or ""), gap, filler=False)
    seen.said("cpu", "cores", str(len(known) or ""), gap, filler=False)


def count(ranges: str) -> int:
    """How many numbers a kernel list such as "0-3,8" has; 0 where it is not one."""
    try:
        return len(numa.cpus(ranges))
    except ValueError:
        return 0


def _memory(seen: Look) -> None:
    try:
        pairs = dict(one.split(":", 1) for one in seen.text("/proc/meminfo").splitlines() if ":" in one)
    except OSError as error:
        seen.missing["memory.total"] = why(error, "/proc/meminfo")
        return
    for key, name in (("total", "MemTotal"), ("swap", "SwapTotal")):
        told = pairs.get(name, "")
        gap = f"{name} in /proc/meminfo is {clean(told)!r}, which is no size" if told else f"no {name} in /proc/meminfo"
        seen.said("memory", key, told if SIZE.fullmatch(told.strip()) else "", gap, filler=key == "total")
