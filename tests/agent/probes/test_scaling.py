"""Scaling on three ranks: against the median of all devices alone, in groups of every size."""

from __future__ import annotations

import itertools
from unittest import mock

import pytest

from gpuburn import filled
from gpuburn.agent.training.loop import Training
from gpuburn.measurement import Fact, Point, Reading, Work
from gpuburn.probe import discover
from gpuburn.strict import Refused
from tests.agent.training import alone
from tests.agent.training.three_ranks import WORLD, run

SCALING = discover()["scaling"]
SMALL = {**SCALING.smoke, "counts": [1, 2, 3]}
HONEST = Training.advance


def fixed(compute, seconds):
    """Steps whose times are set: of a training on `world` ranks."""

    def advance(training):
        took = HONEST(training)
        return type(took)(took.step, took.loss, took.norm, compute(training), seconds(training), took.elapsed)

    return mock.patch.object(Training, "advance", advance)


def cases(device):
    yield "healthy", SCALING.run(device, **SMALL)
    yield "more", SCALING.run(device, **{**SMALL, "counts": [1, 3, 4]})
    # A row takes a second on every device but the last, where it takes two; each partner adds half a second a step.
    pace = [1.0, 1.0, 2.0][device.rank]
    work = lambda training: pace * training.recipe.batch  # noqa: E731
    with fixed(work, lambda training: work(training) + 0.5 * (training.world - 1)):
        yield "known", SCALING.run(device, **SMALL)
    with mock.patch.object(
        Training, "learn", lambda training: setattr(training, "_loss", training._loss * float("nan"))
    ):
        yield "nan", SCALING.run(device, **{**SMALL, "counts": [1]})


@pytest.fixture(scope="module")
def taken(tmp_path_factory):
    return run(cases, tmp_path_factory.mktemp("scaling"))


def values(taken, metric):
    """{devices together: value} of what rank 0 tells of the host."""
    found = [one for one in itertools.chain(*taken) if isinstance(one, Reading) and one.metric == metric]
    assert {one.subject for one in found} == {"host"}
    return {one.point.as_data()["devices"]: one.value for one in found}


def test_every_size_of_group_is_told_both_ways(taken):
    for metric in ("weak", "strong", "exposed"):
        told = values(taken["healthy"], metric)
        assert set(told) == {1, 2, 3} and all(value >= 0 for value in told.values())
    for rank in range(WORLD):
        assert sum((one for one in taken["healthy"][rank] if isinstance(one, Work)), Work()).iterations > 0


def test_the_base_is_the_median_of_all_devices_alone(taken):
    # weak, 2 rows: alone 2, 2 and 4 s, median 2; two devices 2.5 s; three wait for the slow one, 4 + 1 s
    assert values(taken["known"], "weak") == pytest.approx({1: 2 / 4, 2: 2 / 2.5, 3: 2 / 5})
    # strong, 6 rows: alone 6, 6 and 12 s, median 6; 3 rows each 3.5 s of ideal 3; 2 rows each 5 s of ideal 2
    assert values(taken["known"], "strong") == pytest.approx({1: 6 / 12, 2: 3 / 3.5, 3: 2 / 5})
    assert values(taken["known"], "exposed") == pytest.approx({1: 0, 2: 0.5 / 2.5, 3: 1 / 5})


def test_the_worst_group_is_named(taken):
    told = {one.point: one.value for one in taken["known"][0] if isinstance(one, Fact)}
    assert told[Point.of(devices=1)] == "cpu2: 0.5000; the best: 1.0000"
    assert told[Point.of(devices=2)].startswith("cpu0 cpu1: 0.8000")


def test_a_loss_that_is_no_number_is_counted(taken):
    odd = [one.value for one in taken["nan"][1] if isinstance(one, Reading) and one.metric == "not_finite"]
    assert sum(odd) == 2 * (SMALL["warm"] + SMALL["steps"])


def test_sizes_without_a_base_are_refused(tmp_path):
    with pytest.raises(Refused, match="1 first"):
        list(SCALING.run(alone.device(tmp_path, 0, 3), **{**SMALL, "counts": [2, 3]}))


def test_a_size_that_there_are_no_devices_for_stays_open(taken):
    assert set(values(taken["more"], "weak")) == {1, 3}


@pytest.mark.parametrize(
    ("count", "sizes"), [(1, [1]), (2, [1, 2]), (3, [1, 2, 3]), (4, [1, 2, 4]), (7, [1, 2, 4, 7]), (8, [1, 2, 4, 8])]
)
def test_a_plan_knows_the_sizes_from_the_number_of_devices(count, sizes):
    assert filled.doublings(count) == sizes
