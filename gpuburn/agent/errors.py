"""Error counters that the kernel keeps: of PCI links (AER), of memory (EDAC), of InfiniBand; and what stands by them.

Every answer is either numbers or the reason why there are none: "none: why" where the host has no such part, "unknown:
why" where it has and could not be asked.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from gpuburn.agent import pci
from gpuburn.agent.look import Look, clean

EDAC, CPU, GROUPS = "/sys/devices/system/edac/mc", "/sys/devices/system/cpu", "/sys/kernel/iommu_groups"
AER = {"correctable": "TOTAL_ERR_COR", "nonfatal": "TOTAL_ERR_NONFATAL", "fatal": "TOTAL_ERR_FATAL"}
ACTIVE = "4: ACTIVE"
LONG = 180  # characters of a list in a fact


@dataclass(frozen=True, slots=True)
class Counted:
    """told: what was counted, or why nothing was. numbers: totals by name. odd: who counted something, with what."""

    told: str
    numbers: dict[str, float] = field(default_factory=dict)
    odd: list[str] = field(default_factory=list)


def listed(names: list[str]) -> str:
    """So many names as fit into a fact."""
    text = "; ".join(names)
    return text if len(text) <= LONG else f"{text[:LONG]}... ({len(names)} in all)"


def aer(seen: Look, addresses: list[str]) -> Counted:
    """Advanced error reporting of these PCI devices and the bridges over them (sysfs-bus-pci-devices-aer_stats)."""
    if not addresses:
        return Counted("none: no GPU, network adapter or NVMe is on the PCI bus")
    every = sorted({one for address in addresses for one in pci.above(seen, address)})
    counted = {one: told for one in every if (told := _of(seen, one))}
    if not counted:
        return Counted("unknown: the kernel keeps no AER counters for any GPU, adapter, NVMe or bridge over them")
    odd = [
        f"{one} {', '.join(f'{kind} {count}' for kind, count in told.items() if count)}"
        for one, told in counted.items()
        if any(told.values())
    ]
    totals = {kind: float(sum(told[kind] for told in counted.values())) for kind in AER}
    return Counted(f"read of {len(counted)} of {len(every)} devices", totals, odd)


def _of(seen: Look, address: str) -> dict[str, int]:
    found: dict[str, int] = {}
    for kind, total in AER.items():
        lines = (line.split() for line in _lines(seen, f"{pci.DEVICES}/{address}/aer_dev_{kind}"))
        value = next((words[1] for words in lines if len(words) == 2 and words[0] == total), "")
        if not (value.isascii() and value.isdigit()):
            return {}
        found[kind] = int(value)
    return found


def _lines(seen: Look, path: str) -> list[str]:
    try:
        return seen.text(path).splitlines()
    except OSError:
        return []


def edac(seen: Look, unchecked: bool = False) -> Counted:
    """Memory errors, corrected and not, over all memory controllers (Documentation/admin-guide/RAS).

    unchecked: whether the board says that no module has bits to check with.
    """
    totals, odd = {"corrected": 0.0, "uncorrected": 0.0}, []
    controllers = [name for name in seen.within(EDAC) if name.startswith("mc")]
    for name in controllers:
        counts = {}
        for kind, file in (("corrected", "ce_count"), ("uncorrected", "ue_count")):
            value = seen.word(f"{EDAC}/{name}/{file}")
            if not (value.isascii() and value.isdigit()):
                return Counted(f"unknown: {EDAC}/{name}/{file} cannot be read")
            counts[kind] = int(value)
            totals[kind] += int(value)
        odd += [f"{name} {kind} {count}" for kind, count in counts.items() if count]
    if not controllers and unchecked:
        return Counted("none: the host's memory has no ECC")
    if not controllers:
        return Counted("unknown: no EDAC driver counts errors of the host's memory")
    return Counted(f"read of {len(controllers)} memory controllers", totals, odd)


def infiniband(sources: dict[str, dict[str, str]], missing: dict[str, str]) -> Counted:
    """Of every port whose link layer is InfiniBand: errors, ports that are not active, the slowest rate (GB/s)."""
    ports = {
        name[3:]: told
        for name, told in sources.items()
        if name.startswith("ib.") and told.get("link_layer") == "InfiniBand"
    }
    if not ports:
        return Counted("none: no InfiniBand port")
    totals = dict.fromkeys(("symbol_error", "link_downed", "link_error_recovery", "port_rcv_errors"), 0.0)
    odd = []
    for name, told in ports.items():
        for counter in totals:
            value = told.get(counter, "")
            if not (value.isascii() and value.isdigit()):
                return Counted(f"unknown: {name}: {missing.get(f'ib.{name}.{counter}', 'no number')}")
            totals[counter] += int(value)
            odd += [f"{name} {counter} {value}"] if int(value) else []
    down = [name for name, told in ports.items() if told.get("state") != ACTIVE]
    odd += [f"{name} {ports[name].get('state', 'no state')}" for name in down]
    rates = [_rate(told.get("rate", "")) for name, told in ports.items() if name not in down]
    slowest = {"rate": min(rates)} if rates and min(rates) > 0 else {}
    return Counted(f"read of {len(ports)} ports", {**totals, "down": float(len(down)), **slowest}, odd)


def _rate(text: str) -> float:
    """GB/s of "400 Gb/sec (4X NDR)"; 0 where it is not that."""
    words = text.split()
    try:
        return float(words[0]) / 8 if words[1:2] == ["Gb/sec"] else 0.0
    except (ValueError, IndexError):
        return 0.0


def governor(seen: Look) -> str:
    """The frequency governor of all processors, or which there are."""
    names = [name for name in seen.within(CPU) if name.startswith("cpu") and name[3:].isdigit()]
    found = sorted({seen.word(f"{CPU}/{name}/cpufreq/scaling_governor") for name in names} - {""})
    return "none: no cpufreq" if not found else found[0] if len(found) == 1 else f"mixed: {', '.join(found)}"


def iommu(seen: Look) -> str:
    """Whether devices are in groups, and what the command line says of it."""
    groups = len(seen.within(GROUPS))
    words = [word for word in seen.word("/proc/cmdline").split() if "iommu" in word]
    return f"{'on' if groups else 'off'}: {groups} groups; {clean(' '.join(words)) or 'nothing on the command line'}"
