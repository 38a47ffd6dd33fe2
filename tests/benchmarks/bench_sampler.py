"""What the sampler costs over eight simulated GPUs: CPU time of a pass, with all that it writes, and its memory.

What reads events, NVML's and the kernel's, is measured with it.

The stand-in library answers in microseconds: this is our own share, beside which a driver's is small or blocks.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
from pathlib import Path

import pytest

from gpuburn import strict
from gpuburn.plan import Device
from tests.fakes.nvml.build import BUSES, environment, healthy, library

ROOT = Path(__file__).parents[2]
DEVICES = [Device(f"gpu{index}", "cuda", pci=f"0000:{bus.lower()}:00.0") for index, bus in enumerate(BUSES)]
MILLISECONDS, MEBIBYTES = 10.0, 150.0
PROGRAM = """
import json, resource, sys, time
from gpuburn import evidence, plan, strict
from pathlib import Path
from gpuburn.agent import nvml, telemetry
from gpuburn.agent.kernel_log import KernelLog
from gpuburn.agent.nvml_events import NvmlEvents
devices = strict.build(list[plan.Device], json.loads(sys.argv[1]), "devices")
took, written = [], 0
kernel = KernelLog()
with nvml.Nvml() as library, NvmlEvents(Path(sys.argv[2]), devices, library) as events:
    passes = telemetry.passes(devices, time.time(), library)
    next(passes)
    for _ in range(60):
        begun = time.process_time()
        written += sum(len(evidence.dump(one)) for one in next(passes))
        events.look()
        heard = len(list(kernel.events()))
        took.append((time.process_time() - begun) * 1e3)
print(json.dumps([took, written / 60, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024]))
"""


def test_a_pass_over_eight_gpus_costs_less_than_ten_milliseconds(tmp_path: Path) -> None:
    pytest.importorskip("pynvml")
    scenario = tmp_path / "scenario"
    scenario.write_text(healthy())
    command = [sys.executable, "-c", PROGRAM, json.dumps(strict.plain(DEVICES)), str(tmp_path)]
    env = environment(library(tmp_path), scenario)
    done = subprocess.run(command, cwd=ROOT, env=env, check=True, capture_output=True, text=True)
    took, written, memory = json.loads(done.stdout)
    usual = statistics.median(took)
    print(f"\na pass and a look for events over 8 simulated GPUs: {usual:.1f} ms of CPU "
          f"({min(took):.1f} to {max(took):.1f}), so "
          f"{usual / 10:.2f} % of one core; {written:.0f} bytes of evidence; {memory:.0f} MiB; wanted below "
          f"{MILLISECONDS:g} ms and {MEBIBYTES:g} MiB")  # fmt: skip
    assert usual < MILLISECONDS and memory < MEBIBYTES
