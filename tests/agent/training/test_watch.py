"""What is made of a loss curve: spikes found, learning not called one, and a run that did not learn plain to see."""

import math
import random

import pytest

from gpuburn.agent.training.loop import Took
from gpuburn.agent.training.watch import Spikes, bits, learning, tail


def odd(losses, norm=1.0):
    spikes = Spikes()
    return [index for index, loss in enumerate(losses) if spikes.odd(Took(index + 1, loss, norm, 0.0, 0.0, 0.0))]


def curve(count, seed, noise=0.05, floor=0.7):
    chance = random.Random(seed)
    return [floor + 3.4 * math.exp(-index / 25) + chance.gauss(0, noise) for index in range(count)]


@pytest.mark.parametrize("seed", range(20))
def test_a_healthy_curve_has_no_anomaly(seed):
    assert odd(curve(600, seed)) == []


def test_learning_all_at_once_is_no_anomaly():
    assert odd([4.0 + random.Random(index).gauss(0, 0.02) for index in range(100)] + [1.0] * 100) == []


@pytest.mark.parametrize("at", [40, 100, 599])
def test_a_leap_is_an_anomaly_once_and_not_twice(at):
    losses = curve(600, 1)
    losses[at] += 1.0
    assert odd(losses) == [at]


def test_a_loss_that_leaps_and_stays_is_odd_again_and_again():
    losses = curve(300, 1)
    assert len(odd([*losses[:200], *(loss + 1.0 for loss in losses[200:])])) == 100


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_what_is_not_finite_is_odd_from_the_first_step_on(bad):
    losses = curve(100, 1)
    losses[0] = losses[50] = bad
    assert odd(losses) == [0, 50]
    assert odd([1.0, 1.0], norm=bad) == [0, 1]


def test_learning_in_numbers():
    found = learning([4.0] * 10 + [1.0] * 90, floor=0.5)
    assert (found.first, found.last, found.improvement, found.gap) == (4.0, 1.0, 3.0, 0.5)
    assert found.learnt == pytest.approx(3.0 / 3.5)
    assert learning([4.0] * 100, floor=0.5).learnt == 0


def test_of_a_run_that_is_not_finite_nothing_is_said():
    assert learning([], 0.5) is None
    assert learning([math.nan] + [1.0] * 99, 0.5) is None
    assert learning([4.0] * 99 + [math.nan], 0.5) is None


def test_the_tail_is_a_nearest_rank_and_leaves_the_warm_up_out():
    times = [50.0] * 10 + [1.0] * 85 + [3.0] * 5
    assert tail(times) == (3.0, 1.0)
    assert tail([50.0] * 10 + [1.0] * 87 + [3.0] * 3) == (1.0, 1.0)
    assert tail([2.0]) == (2.0, 2.0)


def test_a_curve_has_a_name_that_the_last_bit_changes():
    losses = curve(50, 1)
    assert bits(losses) == bits(list(losses))
    assert bits(losses) != bits([*losses[:-1], math.nextafter(losses[-1], 9.0)])
