"""Builds the stand-in for libnvidia-ml.so.1, and says how a process is made to load it."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

FOLDER = Path(__file__).parent
SOURCES = [FOLDER / name for name in ("nvml.c", "health.c", "scenario.c")]
LIBRARY = """\
library driver 580.95.05
library nvml 13.580.95.05
library cuda 13000
library count {count}
"""
# One H200 of an HGX board at rest. Units are NVML's own: mW, mJ, ns.
H200 = """\
{i} uuid GPU-beea000{n}-0000-0000-0000-00000000000{n}
{i} serial {serial}
{i} name NVIDIA H200
{i} pci 00000000:{bus}:00.0
{i} pci_id 233510DE
{i} vbios 96.00.CF.00.01
{i} part 900-21010-0020-000
{i} memory_mib 143771
{i} memory_used_mib 1
{i} temperature {temperature}
{i} power_mw {power}
{i} power_limit_mw 700000
{i} power_default_mw 700000
{i} power_min_mw 200000
{i} power_max_mw 700000
{i} bus_width 6144
{i} max_mem_clock 3201
{i} sm_clock 345
{i} ecc_mode 1 1
{i} ecc_corrected 0
{i} ecc_uncorrected 0
{i} ecc_corrected_total 0
{i} ecc_uncorrected_total 0
{i} sram_exceeded 0
{i} remapped 0 0 0 0
{i} pcie_gen 5
{i} pcie_gen_max 5
{i} pcie_width 16
{i} pcie_width_max 16
{i} links 18 18
{i} nvlink_version 6
{i} fabric 3 0 1
{i} reasons 1
{i} reasons_supported 511
{i} shutdown_at 92
{i} slowdown_at 89
{i} memory_max_at 95
{i} gpu_max_at 87
{i} margin 50
{i} persistence 1
{i} mig_mode 0 0
{i} virtualization 0
{i} inforom G520.0200.00.05
{i} inforom_valid 1
{i} processes none
{i} field_74 0
{i} field_76 0
{i} field_82 35
{i} field_83 {energy}
{i} field_91 18
{i} field_94 0
{i} field_186 {power}
{i} field_161 0
{i} field_162 0
{i} field_163 0
{i} field_230 0
{i} field_269 0
{i} field_270 0
{i} field_271 0
"""
BUSES = ("18", "2A", "3A", "5D", "9A", "AB", "BA", "DB")  # of an HGX board


def healthy(count: int = len(BUSES)) -> str:
    """The scenario of so many healthy H200: one board of an HGX system, at rest."""
    cards = [
        H200.format(
            i=index, n=index + 1, serial=1655023015625 + index, bus=BUSES[index], temperature=31 + 2 * index,
            power=75250 + 1750 * index, energy=900_000_000 + index,
        )
        for index in range(count)
    ]  # fmt: skip
    return LIBRARY.format(count=count) + "".join(cards)


HEALTHY = healthy(2)


def later(scenario: str, now: float, *changes: str) -> str:
    """The scenario with these lines in force before its own, read at this many seconds of its clock."""
    return "\n".join([f"library now {now:g}", *changes, scenario])


def library(folder: Path) -> Path:
    """Compile the library into the folder."""
    built = folder / "libnvidia-ml.so.1"
    command = ["cc", "-shared", "-fPIC", "-O1", "-Wall", "-Wextra", "-Werror", "-o", str(built), *map(str, SOURCES)]
    subprocess.run(command, check=True)
    return built


def environment(built: Path, scenario: Path) -> dict[str, str]:
    """The environment of a process that finds this library first, and reads this scenario."""
    return {**os.environ, "LD_LIBRARY_PATH": str(built.parent), "GPUBURN_FAKE_NVML": str(scenario)}
