"""Driver, library and fabric manager: three versions that must be one.

NVIDIA Fabric Manager User Guide: its version must be the driver's. Systems of NVSwitches do not come up without it.
"""

from __future__ import annotations

import re
from typing import Any

from gpuburn.agent import command, nics, pci
from gpuburn.agent.look import Look

TOOL, SECONDS = "nv-fabricmanager", 3.0
MODULE = "/sys/module/nvidia/version"
VERSION = re.compile(rb"version is\s*:\s*(\d+(?:\.\d+)+)", re.IGNORECASE)
MISMATCH = "version mismatch"  # in NVML's words: driver/library version mismatch


def switches(seen: Look) -> int:
    """NVSwitches on the PCI bus: NVIDIA's bridges of class "other"."""
    folders = (f"{pci.DEVICES}/{address}" for address in seen.within(pci.DEVICES))
    return sum(
        seen.word(f"{one}/vendor") == pci.NVIDIA and seen.word(f"{one}/class").startswith(pci.SWITCH) for one in folders
    )


def manager(seen: Look, bridges: dict[str, Any]) -> str:
    """Its version, "none: why" where none is needed, "unknown: why" where one is and does not tell.

    bridges: as root reads them in nics.py.
    """
    tool = command.found(TOOL)
    if not tool:
        return _unmanaged(seen, bridges)
    try:
        told = VERSION.search(command.answer([tool, "--version"], SECONDS))
    except command.SilentError as error:
        return f"unknown: {error}"
    return told[1].decode() if told else f"unknown: {TOOL} --version tells no version"


def _unmanaged(seen: Look, bridges: dict[str, Any]) -> str:
    """What its absence means. Trays of a larger fabric (GB200) have neither switches nor ways to them."""
    if count := switches(seen):
        return f"unknown: {count} NVSwitches and no {TOOL}"
    if count := len(bridges.get("addresses", ())):
        return f"unknown: {count} adapters that lead to NVSwitches and no {TOOL}"
    if "unknown" in bridges and seen.within(nics.INFINIBAND):
        return f"unknown: no {TOOL}, and whether an adapter leads to NVSwitches cannot be read: {bridges['unknown']}"
    return "none: not installed, and no NVSwitch"


def driver(seen: Look, library: str, absent: str) -> tuple[str, bool | None]:
    """What the loaded module and the library say of the driver's version, and whether they differ (None: no driver)."""
    module = seen.word(MODULE)
    if MISMATCH in absent.lower():
        return f"module {module or 'untold'}, library of another version", True
    if not module:
        return "none: no NVIDIA driver is loaded", None
    if not library:
        return f"unknown: module {module}, and NVML tells none: {absent or 'no reason'}", None
    return (module, False) if module == library else (f"module {module}, library {library}", True)
