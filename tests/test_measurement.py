"""Readings become measurements: every reduction, and what cannot be reduced is absent."""

from __future__ import annotations

import math
import statistics

import pytest
from hypothesis import given, strategies as st

from gpuburn import strict
from gpuburn.measurement import NOWHERE, REDUCE, UNITS, Measurement, Metric, Point, Reading, Work, measure, reduce
from gpuburn.strict import Refused

NUMBERS = st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=30)


def taken(*values: float, failed: tuple[int, ...] = ()) -> list[Reading]:
    return [Reading("m", v, at=float(i), failed="lost" if i in failed else "") for i, v in enumerate(values)]


@pytest.mark.parametrize(
    ("how", "value"),
    [("median", 3.0), ("min", 1.0), ("max", 9.0), ("sum", 18.0), ("last", 9.0), ("delta", 7.0), ("rate", 7 / 3)],
)
def test_each_reduction_is_what_its_name_says(how: str, value: float) -> None:
    assert reduce(how, taken(2, 1, 6, 9) if how != "median" else taken(2, 1, 4, 9)) == value


def test_a_trend_is_the_whole_change_and_one_outlier_does_not_make_it() -> None:
    assert reduce("trend", taken(0, 1, 2, 3, 4)) == 4.0
    assert reduce("trend", taken(5, 5, 5, 100, 5, 5, 5)) == 0.0


@pytest.mark.parametrize("how", ["rate", "trend"])
def test_what_needs_time_to_pass_is_absent_without_it(how: str) -> None:
    assert reduce(how, [Reading("m", 1.0, at=1.0)]) is None
    assert reduce(how, [Reading("m", 1.0, at=1.0), Reading("m", 2.0, at=1.0)]) is None


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_reading_is_a_finite_number(value: float) -> None:
    with pytest.raises(Refused, match="a reading is a finite number"):
        Reading("m", value)


def test_work_is_finite() -> None:
    with pytest.raises(Refused, match="finite"):
        Work(joules=math.inf)
    with pytest.raises(Refused, match="finite"):
        Work(joules=1.7e308) + Work(joules=1.7e308)


def test_a_failed_request_ranks_last() -> None:
    assert reduce("max", taken(1, 2, failed=(0,))) is None
    assert reduce("min", taken(1, 2, failed=(0,))) == 2.0
    assert reduce("median", taken(1, 2, 3, failed=(0,))) == 3.0
    assert reduce("median", taken(1, 2, 3, failed=(0, 1))) is None
    assert reduce("sum", taken(1, 2, failed=(1,))) is None


def test_a_trend_over_failures_is_not_guessed() -> None:
    for many in (
        taken(1, 2, 3, 4, 5, failed=(0, 1)),
        taken(*range(10), failed=(2, 8)),
        taken(*range(20), failed=(0, 19)),
    ):
        assert reduce("trend", many) is None


@pytest.mark.parametrize("how", [*REDUCE, "p50", "p99"])
def test_all_failed_is_no_measurement(how: str) -> None:
    lost = taken(*[1.0] * 700, failed=tuple(range(700))) if how.startswith("p") else taken(1, 2, 3, failed=(0, 1, 2))
    assert measure("a", {"m": Metric("ms", how)}, lost) == []


def test_a_percentile_is_a_bound_or_nothing() -> None:
    assert reduce("p90", taken(*range(63))) is None
    assert reduce("p90", taken(*range(64))) == 63.0
    assert reduce("p999", taken(*range(6635))) is None
    assert reduce("p999", taken(*range(6636))) == 6635.0


def test_readings_are_reduced_in_the_order_of_time_not_of_lines() -> None:
    mixed = [Reading("m", 5.0, at=3.0), Reading("m", 1.0, at=1.0)]
    [one] = measure("a", {"m": Metric("J", "delta")}, mixed)
    assert one.value == 4.0
    [one] = measure("a", {"m": Metric("J", "last")}, mixed)
    assert one.value == 5.0


def test_a_measurement_keeps_its_range_and_count() -> None:
    [one] = measure("gemm", {"m": Metric("TFLOP/s")}, taken(4, 1, 3))
    assert one == Measurement("gemm.m", "TFLOP/s", "", NOWHERE, 3.0, 1.0, 4.0, 3, 0.57282196186948)


def test_the_range_is_of_those_that_did_not_fail_and_the_count_of_all() -> None:
    [one] = measure("a", {"m": Metric("ms")}, taken(9, 1, 2, 3, failed=(0,)))
    assert (one.low, one.high, one.count) == (1.0, 3.0, 4)


def test_subjects_and_points_are_never_mixed() -> None:
    readings = [
        Reading("m", value, Point.of(size=size), subject)
        for value, size, subject in [(1, 1, "gpu0"), (2, 1, "gpu1"), (3, 2, "gpu0"), (5, 1, "gpu0")]
    ]
    found = {(m.subject, m.point): m.value for m in measure("a", {"m": Metric("s", "max")}, readings)}
    assert found == {("gpu0", Point.of(size=1)): 5, ("gpu1", Point.of(size=1)): 2, ("gpu0", Point.of(size=2)): 3}


def test_no_reading_is_no_measurement() -> None:
    assert measure("a", {"m": Metric("s")}, []) == []


@given(NUMBERS)
def test_order_statistics_are_values_between_low_and_high(values: list[float]) -> None:
    for how in ("median", "min", "max", "last"):
        [one] = measure("a", {"m": Metric("s", how)}, taken(*values))
        assert one.low <= one.value <= one.high
    assert reduce("median", taken(*values)) == statistics.median(values)


@given(NUMBERS, st.randoms())
def test_lines_in_another_order_are_the_same_measurement(values: list[float], random: object) -> None:
    mixed = taken(*values)
    random.shuffle(mixed)  # type: ignore[attr-defined]
    for how in ("median", "min", "max", "last", "delta", "trend"):
        assert measure("a", {"m": Metric("s", how)}, mixed) == measure("a", {"m": Metric("s", how)}, taken(*values))


@given(st.lists(st.integers(-100, 100), min_size=2, max_size=12), st.integers(-50, 50))
def test_a_constant_offset_changes_no_change(values: list[int], offset: int) -> None:
    moved = [value + offset for value in values]
    for how in ("delta", "rate", "trend"):
        assert reduce(how, taken(*moved)) == pytest.approx(reduce(how, taken(*values)))


@pytest.mark.parametrize("unit", ["TFLOPS", "GiB/s", "", "seconds"])
def test_a_unit_that_the_field_does_not_use_is_refused(unit: str) -> None:
    with pytest.raises(Refused, match="unit"):
        Metric(unit)


@pytest.mark.parametrize("how", ["mean", "p5", "p", "p00", "median ", ""])
def test_a_reduction_that_is_not_known_is_refused(how: str) -> None:
    with pytest.raises(Refused, match="reduce="):
        Metric("s", how)


def test_every_unit_is_one_of_the_fields() -> None:
    assert [Metric(unit).unit for unit in UNITS] == list(UNITS)


def test_a_point_is_the_same_whatever_the_order_of_its_keys() -> None:
    assert Point.of(a=1, b="x") == Point.of(b="x", a=1)
    assert str(Point.of(b="x", a=1)) == "a=1 b=x"
    assert Point.from_data(strict.loads(strict.line(Point.of(b="x", a=1)), "a"), "a") == Point.of(a=1, b="x")


@pytest.mark.parametrize("data", [[], "a", {"a": True}, {"a": None}, {"a": [1]}, {"a": {}}])
def test_a_point_is_of_strings_and_numbers(data: object) -> None:
    with pytest.raises(Refused, match="a point is an object of strings and numbers"):
        Point.from_data(data, "a")


def test_an_empty_point_includes_every_point_and_a_full_one_only_its_own() -> None:
    one, two = Point.of(a=1), Point.of(a=1, b=2)
    assert NOWHERE.includes(one)
    assert one.includes(two)
    assert not two.includes(one)
    assert not one.includes(NOWHERE)
    assert not Point.of(a=2).includes(one)


@given(*[st.tuples(st.integers(0, 10**6), st.integers(0, 10**6), st.floats(0, 1e6))] * 2)
def test_work_adds_up_and_keeps_its_subject(a: tuple[int, int, float], b: tuple[int, int, float]) -> None:
    total = Work(*a, subject="gpu0") + Work(*b)
    assert (total.iterations, total.bytes, total.subject) == (a[0] + b[0], a[1] + b[1], "gpu0")
    assert total.joules == pytest.approx(a[2] + b[2], abs=1e-5)
