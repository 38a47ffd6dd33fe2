"""The memory node of a PCI device: this process is bound to its CPUs, so that what it allocates next lies there too.

Linux takes memory from the node of the CPU that touches it first (Documentation/admin-guide/mm/numa_memory_policy).
"""

from __future__ import annotations

import os
from pathlib import Path


def bind(pci: str, root: Path = Path("/")) -> str:
    """Bind the calling process, and say to what: "node 0: 32 CPUs", or "none: " or "unknown: " and why it is not bound.

    pci: as the kernel writes it; "" of what is no PCI device. Only CPUs that the process may use already are taken.
    """
    if not pci:
        return "none: not a PCI device"
    try:
        node = int((root / "sys/bus/pci/devices" / pci.lower() / "numa_node").read_text())
        if node < 0:  # the firmware says nothing of it, or there is one node
            return "none: the kernel knows of no memory node of the device"
        listed = (root / f"sys/devices/system/node/node{node}/cpulist").read_text()
        near = cpus(listed) & os.sched_getaffinity(0)
        if not near:
            return f"unknown: no CPU of node {node} may be used by this process"
        os.sched_setaffinity(0, near)
    except (OSError, ValueError) as error:
        return f"unknown: {error}"[:200]
    return f"node {node}: {len(near)} CPUs"


def cpus(listed: str) -> set[int]:
    """The numbers of a kernel list such as "0-3,8". Raises ValueError for other text."""
    found: set[int] = set()
    for part in listed.strip().split(",") if listed.strip() else []:
        low, _, high = part.partition("-")
        found |= set(range(int(low), int(high or low) + 1))
    return found
