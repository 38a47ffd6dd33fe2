"""Speed and cost, as ratios in one run or a figure against its budget. Run by `make bench`; no part of `make test`.

A ratio is the median over interleaved pairs: identical pairs vary by about a tenth on a small machine.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from gpuburn import planning, strict
from gpuburn.agent import processes

ROOT = Path(__file__).parents[2]
PAIRS = 15
TICKS = os.sysconf("SC_CLK_TCK")


def test_supervisor_and_sampler_cost_less_than_a_hundredth_of_a_core():
    request = planning.Request(
        "20261130T080000Z-abcd",
        "bench",
        "rehearsal",
        "quick",
        ("training",),
        privileges="user",
        count=1,
        only=("idle",),
    )
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        (folder / "plan.json").write_bytes(strict.encode(planning.make(request, "ab" * 16, time.time())))
        supervisor = subprocess.Popen([sys.executable, "-m", "gpuburn.agent", "run", scratch], cwd=ROOT)
        while not list(folder.glob("steps/idle/telemetry.jsonl")):
            time.sleep(0.1)
        time.sleep(3)  # past the start of the processes
        watched = [supervisor.pid, *_samplers(supervisor.pid)]
        before, began = [_cpu(pid) for pid in watched], time.monotonic()
        time.sleep(20)
        used = [after - earlier for after, earlier in zip((_cpu(pid) for pid in watched), before)]
        shares = [seconds / (time.monotonic() - began) for seconds in used]
        supervisor.terminate()
        supervisor.wait(60)
    print(f"\nsupervisor {shares[0]:.2%} and sampler {sum(shares[1:]):.2%} of one core; wanted together below 1 %")
    assert len(watched) == 2 and sum(shares) < 0.01


def _samplers(parent: int) -> list[int]:
    return [
        pid
        for pid, _ in processes.tree([parent])
        if b"gpuburn.agent.telemetry" in Path(f"/proc/{pid}/cmdline").read_bytes()
    ]


def _cpu(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def test_commands_answer_in_less_than_three_tenths_of_a_second(tmp_path: Path):
    commands = {
        "gpuburn --help": [sys.executable, "-m", "gpuburn.controller", "--help"],
        "gpuburn-agent status": [sys.executable, "-m", "gpuburn.agent", "status", str(tmp_path)],
    }
    for name, command in commands.items():
        times = []
        for _ in range(PAIRS):
            start = time.perf_counter()
            subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
            times.append(time.perf_counter() - start)
        print(f"\n{name}: {statistics.median(times):.3f} s (median of {PAIRS}); wanted below 0.3 s")
        assert statistics.median(times) < 0.3
