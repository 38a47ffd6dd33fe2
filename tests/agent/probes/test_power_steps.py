"""Steps of load on a common clock: all devices in phase or each behind its neighbour, and the bits that come of it."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from gpuburn.agent.device import Cpu
from gpuburn.agent.probes import power_steps as probed
from gpuburn.evidence import amounts
from gpuburn.measurement import Point
from gpuburn.plan import Device as Planned
from gpuburn.probe import discover
from tests.agent.threads import one_thread  # noqa: F401  the fixture, found here by name

STEPS = discover()["power_steps"]


class Clock:
    """Stands in for the module time: sleeping moves it, and so does work."""

    def __init__(self, now: float = 1000.0) -> None:
        self.now = now

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


class Clocked(Cpu):
    """A CPU of which every product takes so many seconds of that clock; `began` has the start of each step of load."""

    def __init__(self, folder: Path, clock: Clock, rank: int = 0, world: int = 1, product: float = 0.01) -> None:
        super().__init__(Planned(f"cpu{rank}", "cpu"), rank, world, folder, 7)
        self.clock, self.product, self.began, self.slower = clock, product, list[float](), 1.0

    def timed(self, work: Callable[[], object], rounds: int = 1) -> float:
        self.began.append(self.clock.now)
        work()
        self.clock.now += rounds * self.product * self.slower
        return rounds * self.product * self.slower

    def calibrate(self, work: Callable[[], object], seconds: float) -> int:
        self.began.clear()
        return max(1, round(seconds / self.product))


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(probed, "time", clock)
    return clock


def numbers(device: Clocked, **params: object) -> tuple[dict[tuple[str, Point], float], dict[str, str]]:
    said = list(STEPS.run(device, **STEPS.settled({**STEPS.smoke, **params}, "test")))
    measurements, facts, _ = amounts(said, [STEPS])
    return {(m.name.partition(".")[2], m.point): m.value for m in measurements}, {f.name: f.value for f in facts}


def one(period: int, phase: str = "together", seconds: float = 4.0) -> dict[str, object]:
    return {"periods_ms": [period], "phases": [phase], "seconds": seconds}


@pytest.mark.parametrize("period", [4000, 1000, 400, 100])
def test_the_load_is_on_for_half_of_each_period_and_begins_on_the_clock(period, clock, tmp_path):
    device = Clocked(tmp_path, clock)
    values, facts = numbers(device, **one(period, seconds=8.0))
    at = Point.of(period_ms=period, phase="together")
    assert values["given", at] == pytest.approx(1.0, abs=0.15) and values["late", at] < 1e-3
    edges = [moment for moment in device.began if abs(moment * 1e3 / period - round(moment * 1e3 / period)) < 1e-6]
    assert len(edges) >= values["steps", at] >= 0.85 * 8000 / period
    assert facts["power_steps.mismatch"] == "nothing"


def starts(folder: Path, phase: str, world: int = 4) -> list[float]:
    """Where in its period of 400 ms the first step of each device begins, ms."""
    found = []
    for rank in range(world):
        clock = Clock(1000.0 + 0.013 * rank)  # the processes reach this place at different moments
        probed.time = clock  # type: ignore[assignment]
        device = Clocked(folder, clock, rank, world)
        numbers(device, **one(400, phase, seconds=1.0))
        found.append(round(device.began[0] * 1e3 % 400, 3) % 400)
    return found


def test_devices_step_together_or_each_a_share_of_the_period_behind_its_neighbour(clock, tmp_path):
    assert starts(tmp_path, "together") == pytest.approx([0.0] * 4, abs=0.01)
    assert starts(tmp_path, "staggered") == pytest.approx([0.0, 100.0, 200.0, 300.0], abs=0.01)


def test_a_device_that_slows_down_misses_steps_and_says_so(clock, tmp_path):
    device = Clocked(tmp_path, clock)
    device.slower = 2.5  # a step takes longer than its whole period
    values, _ = numbers(device, **one(400))
    assert values["given", Point.of(period_ms=400, phase="together")] == pytest.approx(0.5, abs=0.1)


def test_every_pattern_is_given_at_least_once_and_has_a_point_of_its_own(clock, tmp_path):
    values, _ = numbers(Clocked(tmp_path, clock), periods_ms=[400, 100], phases=["together", "staggered"], seconds=0.0)
    assert {at for name, at in values if name == "steps"} == {
        Point.of(period_ms=period, phase=phase) for period in (400, 100) for phase in ("together", "staggered")
    }


@pytest.mark.parametrize(("harm", "not_finite"), [("flip", 0), ("nan", 1)])
def test_a_wrong_bit_ends_the_step_and_is_told(harm, not_finite, clock, tmp_path, monkeypatch):
    honest, calls = torch.matmul, itertools.count(1)

    def harmful(*given: torch.Tensor, **named: torch.Tensor) -> torch.Tensor:
        out = honest(*given, **named)
        if next(calls) == 5:
            if harm == "flip":
                out.view(torch.int32).flatten()[7] ^= 1
            else:
                out.flatten()[7] = torch.nan
        return out

    monkeypatch.setattr(torch, "matmul", harmful)
    values, facts = numbers(Clocked(tmp_path, clock), periods_ms=[2000, 1000], phases=["together"], seconds=8.0)
    nowhere = Point.of()
    assert values["wrong", nowhere] == 1 and (values["not_finite", nowhere] > 0) == bool(not_finite)
    assert facts["power_steps.mismatch"].startswith("buffer ")
    assert Point.of(period_ms=1000, phase="together") not in {at for _, at in values}, "the next pattern is not begun"
