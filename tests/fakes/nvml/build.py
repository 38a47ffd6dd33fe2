"""Builds the stand-in for libnvidia-ml.so.1, and says how a process is made to load it."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

SOURCE = Path(__file__).parent / "nvml.c"
HEALTHY = """\
library driver 580.95.05
library count 2
0 uuid GPU-beea0001-0000-0000-0000-000000000001
0 serial 1655023015625
0 name NVIDIA H200
0 pci 00000000:18:00.0
0 pci_id 233510DE
0 vbios 96.00.CF.00.01
0 memory_mib 143771
0 temperature 31
0 power_mw 75250
0 power_limit_mw 700000
0 bus_width 6144
0 max_mem_clock 3201
0 sm_clock 345
1 uuid GPU-beea0002-0000-0000-0000-000000000002
1 serial 1655023015626
1 name NVIDIA H200
1 pci 00000000:2A:00.0
1 pci_id 233510DE
1 vbios 96.00.CF.00.01
1 memory_mib 143771
1 temperature 33
1 power_mw 77000
1 power_limit_mw 700000
1 bus_width 6144
1 max_mem_clock 3201
1 sm_clock 345
"""


def library(folder: Path) -> Path:
    """Compile the library into the folder."""
    built = folder / "libnvidia-ml.so.1"
    command = ["cc", "-shared", "-fPIC", "-O1", "-Wall", "-Wextra", "-Werror", "-o", str(built), str(SOURCE)]
    subprocess.run(command, check=True)
    return built


def environment(built: Path, scenario: Path) -> dict[str, str]:
    """The environment of a process that finds this library first, and reads this scenario."""
    return {**os.environ, "LD_LIBRARY_PATH": str(built.parent), "GPUBURN_FAKE_NVML": str(scenario)}
