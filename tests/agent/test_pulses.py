"""Power between two passes: seen 20 times a second while a load pulses, and not looked for beside any other."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from gpuburn import evidence, strict
from gpuburn.agent import nvml, pulses
from gpuburn.agent.nvml import Gpu, Seen
from gpuburn.agent.pulses import Pulses
from gpuburn.agent.worker import Assignment
from gpuburn.measurement import Reading
from gpuburn.plan import Device
from gpuburn.probe import discover
from tests.agent.test_telemetry import BY_PCI, ROOT, built, compiled  # noqa: F401  built: the fixture, found by name
from tests.fakes.nvml.build import HEALTHY, environment


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def time(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


class Bursts(nvml.Nvml):
    """A board that draws 700 W in the first 50 ms of each second, and another that tells no momentary power."""

    def __init__(self, clock: Clock) -> None:
        self.clock, self.looks = clock, 0

    def look(self, names=()):
        self.looks += 1
        watts = 700.0 if self.clock.now % 1 < 0.05 else 90.0
        return Seen([Gpu(0, {"pci": BY_PCI[0].pci, "power_now": watts}), Gpu(1, {"pci": BY_PCI[1].pci})])


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    one = Clock()
    monkeypatch.setattr(pulses, "time", one)
    return one


def test_a_burst_between_two_passes_is_seen_and_told_once(clock):
    watched = Pulses(BY_PCI, Bursts(clock))
    watched.watch(1001.0)
    assert clock.now == pytest.approx(1001.0)
    told = {one.metric: one for one in watched.told(1001.0)}
    assert (told["power_low"].value, told["power_peak"].value) == (90.0, 700.0)
    assert 20 <= told["power_looks"].value <= 22 and {one.subject for one in told.values()} == {"gpu0"}
    assert list(watched.told(1002.0)) == []


def test_a_pass_that_took_too_long_still_leaves_one_look(clock):
    watched = Pulses(BY_PCI, Bursts(clock))
    watched.watch(990.0)
    assert [one.value for one in watched.told(990.0)] == [700.0, 700.0, 1.0] and clock.now == 1000.0


def test_without_gpus_to_watch_it_only_waits(clock):
    library = Bursts(clock)
    watched = Pulses([], library)
    watched.watch(1001.0)
    assert clock.now == 1001.0 and library.looks == 0 and list(watched.told(1001.0)) == []


@compiled
@pytest.mark.parametrize("probe", ["power_steps", "gemm"])
def test_the_sampler_looks_in_between_beside_a_probe_that_pulses_alone(probe, built, tmp_path):  # noqa: F811
    assert discover()[probe].pulses is (probe == "power_steps")
    scenario = tmp_path / "scenario"
    scenario.write_text(HEALTHY)
    assignment = Assignment(probe, "device", {}, [Device("gpu0", "cuda", pci=BY_PCI[0].pci)], 7, 1, 60.0)
    (tmp_path / "assignment.json").write_bytes(strict.encode(assignment))
    command = [sys.executable, "-m", "gpuburn.agent.telemetry", str(tmp_path)]
    with subprocess.Popen(command, cwd=ROOT, env=environment(built, scenario)) as one:
        end = time.monotonic() + 60
        while len(_passes(tmp_path)) < 2 and time.monotonic() < end:
            one.poll()
        one.send_signal(signal.SIGTERM)
    seen = [r for r in evidence.parse((tmp_path / evidence.SAMPLER).read_bytes(), "x") if isinstance(r, Reading)]
    peaks = [(r.subject, r.value) for r in seen if r.metric == "power_peak"]
    assert bool(peaks) is (probe == "power_steps")
    assert set(peaks) <= {("gpu0", 75.25)}


def _passes(folder: Path) -> list[bytes]:
    file = folder / evidence.SAMPLER
    return [line for line in file.read_bytes().splitlines() if b'"samples"' in line] if file.exists() else []
