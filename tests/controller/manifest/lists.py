"""Vendors' lists made by hand, and what hosts show of themselves."""

from __future__ import annotations

from typing import Any

from gpuburn.controller.manifest import file
from gpuburn.controller.manifest.compare import compare
from gpuburn.controller.manifest.shown import Shown
from gpuburn.manifest import Item, Manifest, Ordered, settled


def read(*lines: str) -> Manifest:
    return settled(file.parse("\n".join(lines).encode(), "list.csv"))


def one(*lines: str) -> Ordered:
    [host] = read(*lines).hosts
    return host


def seen(**changed: Any) -> Shown:
    """Host node1 with two GPUs, two interfaces, one disk and two modules; all of it told."""
    parts: dict[str, dict[str, str]] = {
        "host": {
            "product_serial": "P1", "board_serial": "B1", "chassis_serial": "C1", "cpu_model": "Xeon 8480",
            "memory_gib": "64", "gpu_count": "2", "nic_count": "2", "nvme_count": "1", "dimm_count": "2",
        },
        "gpu0": gpu("G0", "0000:18:00.0"), "gpu1": gpu("G1", "0000:2a:00.0"),
        "nic.eth0": {"nic_mac": "00:11:22:33:44:00", "nic_model": "CX7", "nic_firmware": "28.39"},
        "nic.eth1": {"nic_mac": "00:11:22:33:44:01", "nic_model": "CX7", "nic_firmware": "28.39"},
        "disk.nvme0n1": {"nvme_serial": "N1", "nvme_model": "PM9A3", "nvme_firmware": "F1", "nvme_size_gb": "3840.756"},
        "dimm.A1": {"dimm_serial": "D1", "dimm_part": "M1", "dimm_size_gib": "32", "dimm_slot": "A1"},
        "dimm.A2": {"dimm_serial": "D2", "dimm_part": "M1", "dimm_size_gib": "32", "dimm_slot": "A2"},
    }  # fmt: skip
    whole = ["gpu", "nic", "nvme", "dimm"]
    return Shown(**{"parts": parts, "whole": whole, **changed})


def gpu(serial: str, pci: str) -> dict[str, str]:
    return {
        "gpu_serial": serial, "gpu_uuid": f"GPU-{serial}", "gpu_slot": pci, "gpu_vbios": "96.00", "gpu_model": "H100",
        "sku": "h100-sxm5-80gb", "gpu_memory_gib": "79.6", "pcie_gen": "5", "pcie_width": "16", "power_limit_w": "700",
    }  # fmt: skip


def without(part: str, column: str = "") -> Shown:
    """The same host, where one part, or one column of it, is not shown."""
    found = seen()
    if column:
        del found.parts[part][column]
    else:
        del found.parts[part]
    return found


def items(ordered: Ordered, shown: Shown) -> list[tuple[str, str, str]]:
    """(outcome, column, subject) of everything but what matches or is not in the list."""
    return [(i.outcome, i.column, i.subject) for i in told(ordered, shown) if i.outcome != "match"]


def told(ordered: Ordered, shown: Shown) -> list[Item]:
    return [one for one in compare(ordered, shown) if one.outcome != "not_in_manifest"]


def matched(ordered: Ordered, shown: Shown) -> list[tuple[str, str]]:
    return [(i.column, i.subject) for i in compare(ordered, shown) if i.outcome == "match"]
