"""Faults that need a process: the agent runs a plan with a broken worker, and its sealed folder comes home."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
import time
from pathlib import Path

import runs

from caught import hosts
from caught.registry import caught
from gpuburn import strict
from gpuburn.controller.account import Account
from gpuburn.plan import Device, Plan
from gpuburn.probe import discover

ROOT = Path(__file__).parents[2]
FAULTS = ROOT / "tests" / "fakes" / "faults"


def plan(steps: tuple[str, ...], timeout: float = 60.0) -> Plan:
    """Two processes on the CPU, with the smallest parameters that the probes have. A rehearsal accepts nothing."""
    of = runs.plan(runs.request(host="bad", count=2), steps)
    small = [
        dataclasses.replace(
            step, params=(probe := discover()[step.probe]).settled(probe.smoke, "test"), expected=1.0, timeout=timeout
        )
        for step in of.steps
    ]
    now = time.time()
    return dataclasses.replace(of, steps=small, issued=now, deadline=now + 600)


def carried_out(tmp_path: Path, of: Plan, faults: str = "") -> Account:
    folder = tmp_path / "host"
    folder.mkdir()
    (folder / "plan.json").write_bytes(strict.encode(of))
    env = {**os.environ, "PYTHONPATH": f"{ROOT}:{FAULTS}", "GPUBURN_FAULTS": faults}
    done = subprocess.run([sys.executable, "-m", "gpuburn.agent", "run", str(folder)], env=env, timeout=120)
    assert done.returncode == 0, "the agent's exit status says that there is a result"
    run = runs.home(tmp_path / "reports", of)
    runs.bring(run, of.host, folder)
    return hosts.the(run, now=of.issued)


@caught("Imbue", "imbue-ai/cluster-health:health_checks/health_checks.py",
        "one worker that crashes leaves the run waiting for ever", "step.errored", "undecided")  # fmt: skip
def test_a_worker_dies_of_a_signal(tmp_path: Path) -> Account:
    one = carried_out(tmp_path, plan(("gemm",)), "gemm:segfault:cpu1")
    assert one.collected is not None
    [gemm] = one.collected.outcomes
    assert {s.subject: str(s.status) for s in gemm.subjects} == {"cpu0": "completed", "cpu1": "errored"}
    assert "signal 11" in one.reason
    return one


@caught("DCGM", "NVIDIA/DCGM#136", "the diagnostic hangs, and the hard cap is hours away", "step.timed_out",
        "undecided")  # fmt: skip
def test_a_worker_hangs(tmp_path: Path) -> Account:
    return carried_out(tmp_path, plan(("idle",), timeout=2.0), "idle:hang")


@caught("gpu-burn", "wilicc/gpu-burn#123", "all GPUs failed to start, and every one is printed OK", "step.errored",
        "undecided")  # fmt: skip
def test_no_gpu_could_be_used(tmp_path: Path) -> Account:
    of = hosts.plan(steps=("gemm",), privileges="user")
    smallest = dataclasses.replace(plan(("gemm",)).steps[0], profiles=of.steps[0].profiles)
    devices = [Device(f"gpu{i}", "cuda", pci=f"0000:{0xE0 + i:02x}:00.0", uuid=f"GPU-none-{i}") for i in range(2)]
    now = time.time()
    of = dataclasses.replace(of, devices=devices, steps=[smallest], issued=now, deadline=now + 600)
    one = carried_out(tmp_path, of)
    assert "is planned on CUDA" in one.reason
    return one
