"""A driver that hangs, in real processes: its step says so and ends, and the next one reads on where it answers."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from gpuburn.agent import launch, processes
from gpuburn.agent.step import carry_out
from gpuburn.agent.user import Account
from gpuburn.limit import Limit, When
from gpuburn.outcome import Outcome, Status
from gpuburn.plan import Device, Guard
from tests.agent.test_run import ROOT, make, step
from tests.fakes.nvml.build import BUSES, environment, healthy, later, library

pytest.importorskip("pynvml")
pytestmark = pytest.mark.skipif(not shutil.which("cc"), reason="no C compiler for the fake libnvidia-ml.so.1")
GPUS = [Device(f"gpu{index}", "cuda", pci=f"0000:{bus.lower()}:00.0") for index, bus in enumerate(BUSES)]


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Carry out one step under a scenario, with its real sampler and worker."""
    built, scenario = library(tmp_path), tmp_path / "scenario"
    for name, value in environment(built, scenario).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setattr(launch, "PATIENCE", 1.0)

    def carried(probe: str, text: str, guards: tuple[Guard, ...] = (), **params) -> Outcome:
        scenario.write_text(text)
        one = step(probe, **params)
        devices = GPUS if one.scope == "host" else [Device("gpu3", "cpu", pci=GPUS[3].pci)]
        plan = make([one], demands(one.name), devices=devices, kind="simulated", guards=list(guards))
        folder = tmp_path / "steps" / one.name
        folder.mkdir(parents=True)
        outcome = carry_out(plan, one, folder, Account(), 1, lambda: "", lambda: None)
        mine = [pid for pid, _ in processes.tree([os.getpid()]) if str(folder) in command(pid)]
        assert mine == [], "nothing is left behind"
        return outcome

    return carried


def demands(name: str) -> list[Limit]:
    when = When(steps=(name,), profiles=("training",))
    return [Limit("telemetry.samples", "count", "a test of it", min=1, when=when)]


def command(pid: int) -> str:
    path = Path(f"/proc/{pid}/cmdline")
    return path.read_text(errors="replace") if path.exists() else ""


def test_a_call_that_never_returns_ends_its_step_and_the_next_one_reads_on(run, monkeypatch):
    monkeypatch.setattr(launch, "BLIND", 3.0)
    hanging = run("idle", later(healthy(), 0, "3 ecc_uncorrected !hang"), seconds=600.0)
    assert hanging.status is Status.ERRORED and "the sampler is blind" in hanging.why
    after = run("gpu_health", healthy())
    assert after.status is Status.COMPLETED
    seen = {(m.name, m.subject) for m in after.measurements}
    assert {("gpu_health.ecc_uncorrected", f"gpu{index}") for index in range(8)} <= seen


def test_a_driver_that_hangs_while_the_probe_asks_ends_its_step(run):
    """The sampler does not ask for the InfoROM, and sees; the probe is ended by the time that its step has."""
    outcome = run("gpu_health", later(healthy(), 0, "3 inforom_valid !hang"), timeout=3.0)
    assert outcome.status is Status.TIMED_OUT
    seen = {(m.name, m.subject) for m in outcome.measurements}
    assert ("telemetry.temperature", "gpu3") in seen and ("gpu_health.ecc_uncorrected", "gpu3") not in seen


@pytest.mark.parametrize(("brake", "field", "reason"), [("power_brake", 271, 0x80), ("sw_thermal", 269, 0x20)])
def test_a_brake_ends_steps_of_load_and_no_other_step(run, brake, field, reason):
    held = Guard(brake, "s", "held back", max=0.0, probes=("power_steps",))
    braked = f"3 field_{field} !3\n3 reasons {reason}\n{healthy()}"  # without a counter the reasons of each look count
    outcome = run("power_steps", braked, (held,), seconds=600.0, timeout=900.0)
    assert (outcome.status, {trip.guard for trip in outcome.trips}) == (Status.ABORTED, {brake})
    assert outcome.why.startswith(f"{brake} of gpu3 was ")
    other = run("idle", braked, (held,), seconds=3.0)
    assert other.status is Status.COMPLETED and other.trips == []


def test_without_a_brake_steps_of_load_go_on_to_their_end(run):
    held = Guard("power_brake", "s", "held back", max=0.0, probes=("power_steps",))
    assert run("power_steps", healthy(), (held,)).status is Status.COMPLETED
