"""The ratio of two medians: exact where there is no doubt, its interval covers the truth, and its words are honest."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st

from gpuburn.controller.ratio import Ratio, ratio

# Healthy devices of 1 % spread; alike: the share of it that devices of a host have in common.
FLEETS = [(hosts, alike, shape) for hosts in (6, 8, 32) for alike in (0.0, 0.5, 0.95) for shape in ("normal", "skewed")]
TRIES = 1500


def fleet(dice: np.random.Generator, hosts: int, alike: float, shape: str) -> list[list[float]]:
    common, own = dice.normal(0, 1, (hosts, 1)), dice.normal(0, 1, (hosts, 8))
    off = 0.01 * (np.sqrt(alike) * common + np.sqrt(1 - alike) * own)
    values = 700 * (1 + off) if shape == "normal" else 700 * (1 - 2 * np.abs(off))
    return [list(one) for one in np.round(values, 1)]


@pytest.mark.parametrize(("hosts", "alike", "shape"), FLEETS)
def test_the_interval_covers_the_true_ratio_at_least_93_times_in_a_hundred(
    hosts: int, alike: float, shape: str
) -> None:
    dice = np.random.default_rng(20260101)
    hit = 0
    for _ in range(TRIES):
        one = ratio(fleet(dice, hosts, alike, shape), fleet(dice, hosts, alike, shape))
        assert one.low is not None and one.high is not None
        hit += one.low <= 1 <= one.high
    assert hit / TRIES >= 0.93


def test_equal_sides_have_the_ratio_one_and_the_same_words() -> None:
    side = [[100.0] * 8] * 6
    assert ratio(side, side) == Ratio(100.0, 100.0, 1.0, 1.0, 1.0)
    assert ratio(side, side).word("higher") == "same"


@pytest.mark.parametrize(
    ("low", "high", "better", "says"),
    [
        (0.991, 1.009, "higher", "same"),
        (0.995, 0.999, "higher", "same"),
        (0.98, 0.989, "higher", "worse"),
        (0.98, 0.989, "lower", "better"),
        (1.02, 1.03, "higher", "better"),
        (1.02, 1.03, "lower", "worse"),
        (0.98, 1.02, "higher", "unclear"),
        (None, None, "higher", "not enough hosts"),
    ],
)
def test_a_word_says_what_the_interval_allows(low: float | None, high: float | None, better: str, says: str) -> None:
    assert Ratio(1.0, 1.0, 1.0, low, high).word(better) == says


def test_few_hosts_have_a_ratio_and_no_interval_however_many_devices_they_have() -> None:
    one = ratio([[100.0 + i for i in range(72)]] * 5, [[200.0 + i for i in range(8)]] * 50)
    assert one.of == pytest.approx(203.5 / 135.5)
    assert (one.low, one.high, one.word("higher")) == (None, None, "not enough hosts")


def test_a_median_of_nothing_has_no_ratio() -> None:
    assert ratio([[0.0]] * 6, [[1.0]] * 6).of is None


sides = st.lists(st.lists(st.floats(0.1, 1e6), min_size=1, max_size=8), min_size=6, max_size=12)


@given(sides, sides, st.randoms(use_true_random=False))
def test_the_order_of_hosts_and_devices_changes_nothing(
    a: list[list[float]], b: list[list[float]], dice: object
) -> None:
    before = ratio(a, b)
    mixed = [list(reversed(one)) for one in reversed(a)]
    assert ratio(mixed, list(reversed(b))) == before


@given(sides, sides)
def test_the_other_way_round_is_the_inverse(a: list[list[float]], b: list[list[float]]) -> None:
    one, other = ratio(a, b), ratio(b, a)
    assert one.of and one.low and one.high and other.of and other.low and other.high
    assert (other.of, other.low, other.high) == (
        pytest.approx(1 / one.of), pytest.approx(1 / one.high), pytest.approx(1 / one.low),
    )  # fmt: skip


@given(sides, sides)
def test_the_ratio_lies_in_its_interval(a: list[list[float]], b: list[list[float]]) -> None:
    one = ratio(a, b)
    assert one.of and one.low and one.high
    assert one.low <= one.of * (1 + 1e-12) and one.of <= one.high * (1 + 1e-12)
