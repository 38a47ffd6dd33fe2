"""Counters over passes: what is added, what is held, what is lost, what is written at all."""

from __future__ import annotations

from itertools import pairwise

import pytest

from gpuburn.agent import nvml, sensors
from gpuburn.agent.counters import Counters
from gpuburn.agent.nvml import Gpu
from gpuburn.agent.telemetry import Sampler
from gpuburn.measurement import NOTHING, Fact, Reading, absences, reasons, reduce
from gpuburn.telemetry import TELEMETRY


def over(*passes: dict[str, float] | None, period: float = 1.0) -> dict[str, list[float]]:
    """The readings of one GPU over passes; None: it did not answer."""
    counters, found = Counters(), {}
    for number, values in enumerate(passes):
        gpu = None if values is None else Gpu(0, dict(values))
        for one in counters.taken("gpu0", gpu, 100.0 + number * period):
            if isinstance(one, Reading):
                found.setdefault(one.metric, []).append(one.value)
    return found


def test_a_counter_gives_what_was_added_and_a_calm_one_a_single_zero() -> None:
    found = over({"replays": 7}, {"replays": 7}, {"replays": 9}, {"replays": 9})
    assert found["replays"] == [0, 2]


@pytest.mark.parametrize(("values", "wanted"), [((5, 8, 2, 3), 6), ((0, 1), 1), ((9,), 0)])
def test_what_a_counter_says_after_it_began_anew_is_all_new(values, wanted) -> None:
    assert sum(over(*({"ecc_uncorrected": one} for one in values))["uncorrected"]) == wanted


def test_a_quantity_that_is_not_told_gives_no_reading() -> None:
    assert set(over({}, {})) == {"lost"}
    assert "remapped" not in over({"remapped_corrected": 1}), "half of a sum is no sum"


def test_a_sum_over_fewer_links_than_before_is_passed_over_and_one_over_more_begins_anew() -> None:
    def links(errors: float, of: int) -> dict[str, float]:
        return {"link_errors": errors, "link_errors_of": of}

    assert sum(over(links(7, 18), links(5, 17), links(7, 18))["link_errors"]) == 0
    assert sum(over(links(7, 18), links(5, 17), links(8, 18))["link_errors"]) == 1
    assert sum(over(links(5, 17), links(7, 18), links(9, 18))["link_errors"]) == 2


def test_a_gpu_is_lost_only_after_it_answered() -> None:
    assert over(None, None) == {}
    assert over({}, None, None, {})["lost"] == [0, 1, 1]


def test_reasons_stand_for_the_time_since_the_last_pass_and_counters_go_before_them() -> None:
    found = over({"reasons": 0x4}, {"reasons": 0x24}, {"reasons": 0x1}, period=3.0)
    assert found["capped"] == [1, 3] and found["sw_thermal"] == [0, 3]
    counted = over({"reasons": 0x40, "hw_thermal": 5.0}, {"reasons": 0x40, "hw_thermal": 5.5})
    assert counted["hw_thermal"] == [0, 0.5]


@pytest.mark.parametrize(("mask", "wanted"), [(0x8, 1), (0x48, 0), (0x88, 0), (0x28, 1)])
def test_a_slowdown_of_the_hardware_counts_where_it_names_no_cause_of_its_own(mask, wanted) -> None:
    assert sum(over({"reasons": mask})["hw_slowdown"]) == wanted


def test_energy_is_written_for_ten_passes_together_and_nothing_of_them_is_lost() -> None:
    written = over(*({"energy": 700.0 * number} for number in range(41)))["energy"]
    assert sum(written) == 700 * 39 and len(written) == 10 + 3


def test_thermal_resistance_is_over_the_coolest_reading_and_only_under_load() -> None:
    rest, half = {"power_limit": 700.0}, {"power_limit": 700.0}
    rest |= {"temperature": 30.0, "power": 80.0}
    half |= {"temperature": 60.0, "power": 680.0}
    assert over(rest, rest, half)["thermal_resistance"] == [pytest.approx(0.05)]
    assert "thermal_resistance" not in over(rest, {**rest, "power": 200.0})


class Told(nvml.Nvml):
    """A library whose one GPU says one temperature after the other."""

    def __init__(self, *temperatures: float) -> None:
        super().__init__()
        self._next = iter(temperatures)

    def look(self, names=()):
        values = {"pci": "0000:18:00.0", "temperature": next(self._next), "power": 70.0}
        return nvml.Seen([Gpu(0, values, {"fan": "Not Supported", "processes": "Insufficient Permissions"})])


def test_an_extreme_is_written_at_once_and_the_course_at_every_tenth_pass() -> None:
    from gpuburn.plan import Device

    course = [30, 31, 31, 30, 40, 35, 35, 35, 35, 36, 35, 41, 40]
    sampler = Sampler([Device("gpu0", "cuda", pci="0000:18:00.0")], Told(*course))
    written = [one for now in range(len(course)) for one in sampler.news(float(now))]
    heat = [one for one in written if isinstance(one, Reading) and one.metric == "temperature"]
    assert [one.value for one in heat] == [30, 31, 40, 36, 41]
    assert reduce(TELEMETRY.metrics["temperature"].reduce, heat) == max(course)
    assert all(one.value != two.value for one, two in pairwise(heat))
    power = [one for one in written if isinstance(one, Reading) and one.metric == "power"]
    assert len(power) == len(course), "every reading of a median counts"
    [unread] = [one for one in written if isinstance(one, Fact) and one.name == "unread"]
    assert reasons(unread.value) == {"fan": "Not Supported", "foreign": "Insufficient Permissions"}


def test_reasons_survive_being_written_as_one_fact() -> None:
    said = {"fan": "Not Supported", "replays": "odd; with a semicolon: and a colon"}
    assert reasons(absences(said)) == {**said, "replays": "odd, with a semicolon: and a colon"}
    assert absences({}) == NOTHING and reasons(NOTHING) == {}


def test_every_quantity_of_the_sampler_is_declared() -> None:
    assert {*sensors.GPU, *sensors.COUNTED, *sensors.HELD, "link_crc", "foreign", "lost"} <= set(TELEMETRY.metrics)
