"""Percentiles: the documented floors, and the promise itself, tried by simulation with fixed seeds."""

from __future__ import annotations

import math
import random

import pytest
from hypothesis import given, strategies as st

from gpuburn.percentile import CONFIDENCE, allowed, bound, floor


@pytest.mark.parametrize(("quantile", "count"), [(0.9, 64), (0.99, 662), (0.999, 6636)])
def test_the_floors_are_those_of_mlperf(quantile: float, count: int) -> None:
    assert floor(quantile) == count
    assert allowed(count, quantile) == 1
    assert allowed(count - 1, quantile) == 0


@pytest.mark.parametrize("quantile", [0.5, 0.9, 0.99])
def test_below_its_floor_a_percentile_is_absent(quantile: float) -> None:
    count = floor(quantile)
    assert bound([1.0] * (count - 1), quantile) is None
    assert bound([1.0] * count, quantile) == 1.0


def test_no_value_and_one_value_prove_nothing() -> None:
    assert bound([], 0.5) is None
    assert bound([1.0], 0.5) is None


@pytest.mark.parametrize(("quantile", "count"), [(0.5, 40), (0.9, 64), (0.9, 300), (0.99, 700)])
def test_the_bound_is_at_or_above_the_true_quantile_99_times_in_100(quantile: float, count: int) -> None:
    random_ = random.Random(20260101)
    true = -math.log(1 - quantile)  # of the exponential distribution
    trials = 1500
    covered = 0
    for _ in range(trials):
        found = bound([random_.expovariate(1.0) for _ in range(count)], quantile)
        assert found is not None
        covered += found >= true
    slack = 4 * math.sqrt(CONFIDENCE * (1 - CONFIDENCE) / trials)
    assert covered / trials >= CONFIDENCE - slack


@given(st.lists(st.floats(0, 1e6), min_size=11, max_size=80), st.sampled_from([0.5, 0.9]))
def test_the_bound_is_one_of_the_values_and_never_below_the_nearest_rank(values: list[float], quantile: float) -> None:
    found = bound(values, quantile)
    if found is not None:
        assert found in values
        assert found >= sorted(values)[math.ceil(quantile * len(values)) - 1]


@given(st.lists(st.floats(0, 1e6), min_size=20, max_size=60), st.randoms())
def test_the_order_of_the_values_does_not_matter(values: list[float], random_: random.Random) -> None:
    mixed = list(values)
    random_.shuffle(mixed)
    assert bound(mixed, 0.5) == bound(values, 0.5)


@given(st.integers(2, 3000), st.sampled_from([0.5, 0.9, 0.95, 0.99]))
def test_more_values_never_allow_fewer_over_the_bound(count: int, quantile: float) -> None:
    assert allowed(count, quantile) <= allowed(count + 1, quantile) <= allowed(count, quantile) + 1


def test_too_many_failed_requests_push_the_bound_to_infinity() -> None:
    good = [1.0] * 1000
    over = allowed(1000, 0.99)
    assert over == 2
    assert bound([*good[over - 1 :], *[math.inf] * (over - 1)], 0.99) == 1.0
    assert bound([*good[over:], *[math.inf] * over], 0.99) == math.inf
