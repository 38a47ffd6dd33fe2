"""Training on three ranks: healthy, and with each fault that it must not miss."""

from __future__ import annotations

import contextlib
import dataclasses
import gc
import math
from unittest import mock

import pytest
import torch

from gpuburn.agent.training.fit import Guard
from gpuburn.agent.training.loop import Recipe, Training
from gpuburn.measurement import Fact, Reading, Work, measure
from gpuburn.probe import discover
from tests.agent.training.three_ranks import WORLD, run

TRAIN = discover()["train"]
FLOOR = 0.7294760  # nats: the entropy at vocab 64 and noise 0.1, computed by hand
ADVANCE, UPDATE, EXCHANGE, LEARN = Training.advance, Training.update, Training.exchange, Training.learn


def flip(tensor: torch.Tensor, place: int) -> None:
    """Flip the lowest bit of one number: far below what a loss would show."""
    tensor.view(torch.int32)[place] ^= 1


def at(step: int, rank: int, then):
    """A method after which `then` happens, on one rank in one step."""

    def patched(original):
        def method(training):
            original(training)
            if (training.step, training.rank) == (step, rank):
                then(training)

        return method

    return patched


FAULTS = {
    "short": {},
    "gradient": {"exchange": at(7, 1, lambda training: flip(training.gradients, 11))(EXCHANGE)},
    "weight": {"update": at(10, 2, lambda training: flip(training.weights, 11))(UPDATE)},
    "moment": {"update": at(10, 0, lambda training: flip(training.moments[1], 11))(UPDATE)},
    "before": {"learn": at(7, 1, lambda training: flip(training.gradients, 11))(LEARN)},
}
BAD = {
    "nan": {"learn": at(36, 1, lambda training: training.gradients[:1].fill_(math.nan))(LEARN)},
    "leap": {"learn": at(45, 2, lambda training: setattr(training, "_loss", training._loss + 9.0))(LEARN)},
}
SHORT = {**TRAIN.smoke, "steps": 10, "check_every": 4}
HALF = {**TRAIN.smoke, "dtype": "float16", "steps": 40}
OVERFLOWS = at(30, 1, lambda training: training.gradients[:1].fill_(math.inf))(LEARN)


def flipped_guard(training):
    """Flip a bit of what the last step's memory does not need, wherever it is."""
    guard = next(one for one in gc.get_objects() if isinstance(one, Guard))
    guard.words[0] ^= 1


def cases(device):
    yield "healthy", TRAIN.run(device, **TRAIN.smoke)
    yield "again", TRAIN.run(device, **TRAIN.smoke)
    for name, patches in {**FAULTS, **BAD}.items():
        with contextlib.ExitStack() as stack:
            for method, fault in patches.items():
                stack.enter_context(mock.patch.object(Training, method, fault))
            yield name, TRAIN.run(device, **(TRAIN.smoke if name in BAD else SHORT))
    with mock.patch.object(Recipe, "rate", lambda recipe, step: 0.0):
        yield "frozen", TRAIN.run(device, **SHORT)
    yield "half", TRAIN.run(device, **HALF)
    with mock.patch.object(Training, "learn", OVERFLOWS):
        yield "overflow", TRAIN.run(device, **HALF)
    yield "full", TRAIN.run(device, **{**SHORT, "dtype": "float32", "peak": 0.001})
    with mock.patch.object(type(device), "free", lambda device: int(0.9 * device.memory)):  # others hold a tenth
        yield "filled", TRAIN.run(device, **{**SHORT, "fill": 0.104})
    with mock.patch.object(Training, "update", at(5, 1, flipped_guard)(UPDATE)):
        yield "guard", TRAIN.run(device, **SHORT)
    with mock.patch.object(Training, "advance", lambda training: dataclasses.replace(ADVANCE(training), elapsed=0.125)):
        yield "longer", TRAIN.run(device, **{**SHORT, "seconds": 1.75})


@pytest.fixture(scope="module")
def taken(tmp_path_factory):
    return run(cases, tmp_path_factory.mktemp("three"))


def number(taken, metric, rank=0):
    """The one value of a metric on a rank, reduced as declared; None if it was not taken."""
    readings = [one for one in taken[rank] if isinstance(one, Reading)]
    found = {one.name: one.value for one in measure("train", TRAIN.metrics, readings)}
    return found.get(f"train.{metric}")


def facts(taken, name):
    return [[one.value for one in rank if isinstance(one, Fact) and one.name == name] for rank in taken]


def test_every_promise_is_kept_on_every_rank(taken):
    for rank in range(WORLD):
        told = {name for name, one in TRAIN.metrics.items() if not one.unless}
        assert all(number(taken["healthy"], metric, rank) is not None for metric in told)
        assert sum((one for one in taken["healthy"][rank] if isinstance(one, Work)), Work()).iterations == 60
    assert all(len(rank) == 1 for fact in TRAIN.facts for rank in facts(taken["healthy"], fact))


def test_a_healthy_run_learns_what_there_is_to_learn(taken):
    healthy = taken["healthy"]
    assert number(healthy, "loss_first") == pytest.approx(math.log(64), abs=0.1)
    assert number(healthy, "loss_gap") == pytest.approx(number(healthy, "loss_last") - FLOOR, abs=1e-6)
    assert -0.1 < number(healthy, "loss_gap") < 0.3
    assert number(healthy, "improvement") > 3
    assert number(healthy, "learnt") > 0.9
    assert [number(healthy, "anomalies", rank) for rank in range(WORLD)] == [0, 0, 0]
    assert [number(healthy, "replicas_differ", rank) for rank in range(WORLD)] == [0, 0, 0]


def test_all_ranks_and_a_second_run_have_the_same_bits(taken):
    for fact in TRAIN.facts:
        said = facts(taken["healthy"], fact) + facts(taken["again"], fact)
        assert len(said) == 2 * WORLD and all(one == said[0] for one in said)


@pytest.mark.parametrize("fault, rank", [("gradient", 1), ("weight", 2), ("moment", 0)])
def test_one_flipped_bit_on_one_rank_names_that_rank(taken, fault, rank):
    differ = [number(taken[fault], "replicas_differ", each) for each in range(WORLD)]
    assert differ[rank] > 0 and sum(differ) == differ[rank]


def test_a_bit_flipped_before_the_exchange_is_seen_by_no_replica_but_changes_the_run(taken):
    assert [number(taken["before"], "replicas_differ", rank) for rank in range(WORLD)] == [0, 0, 0]
    assert facts(taken["before"], "gradients") != facts(taken["short"], "gradients")


@pytest.mark.parametrize("fault", ["nan", "leap"])
def test_a_bad_step_is_one_anomaly_on_every_rank(taken, fault):
    assert [number(taken[fault], "anomalies", rank) for rank in range(WORLD)] == [1, 1, 1]
    assert number(taken[fault], "learnt") > 0.9


def test_a_run_that_learns_nothing_has_a_number_that_says_so(taken):
    assert number(taken["frozen"], "learnt") == pytest.approx(0, abs=0.05)
    assert number(taken["frozen"], "loss_gap") > 3
    assert number(taken["frozen"], "improvement") < 0.2


def test_training_goes_on_until_the_time_is_up_on_all_ranks_alike(taken):
    counts = {sum((one for one in rank if isinstance(one, Work)), Work()).iterations for rank in taken["longer"]}
    assert counts == {14}


def test_the_smoke_parameters_are_those_of_the_floor():
    recipe = {field.name: field.default for field in dataclasses.fields(Recipe)}
    assert (TRAIN.smoke["vocab"], recipe["noise"]) == (64, 0.1)


def test_half_precision_learns_and_its_scaler_leaves_out_what_overflows(taken):
    assert number(taken["half"], "learnt") > 0.5 and number(taken["half"], "anomalies") == 0
    assert number(taken["half"], "scale") > 1 and number(taken["half"], "skips") == 0
    assert number(taken["overflow"], "skips") == pytest.approx(1 / 36)  # one of the steps after the first tenth
    assert number(taken["overflow"], "scale") == number(taken["half"], "scale") / 2
    assert number(taken["overflow"], "anomalies") == 0 and number(taken["overflow"], "replicas_differ") == 0


def test_each_precision_ends_in_other_bits(taken):
    ends = {name: facts(taken[name], "parameters")[0][0] for name in ("half", "full", "short")}
    assert len(set(ends.values())) == 3


def test_mfu_is_a_share_of_the_peak_and_absent_without_one(taken):
    assert number(taken["full"], "mfu") == pytest.approx(number(taken["full"], "tflops") / 0.001)
    assert facts(taken["full"], "peak_of")[0] == ["0.001 TFLOP/s, dense, float32"]
    assert number(taken["healthy"], "mfu") is None
    assert facts(taken["healthy"], "peak_of")[0][0].startswith("none: ")


def test_a_batch_fills_the_memory_alike_on_all_ranks_and_the_guard_takes_the_rest(taken):
    [[rows]] = {tuple(one) for one in facts(taken["filled"], "rows")}
    assert int(rows) > SHORT["batch"]
    told = [number(taken["filled"], "memory", rank) for rank in range(WORLD)]
    assert told == pytest.approx([0.004] * WORLD, rel=0.02)
    assert number(taken["filled"], "guard_changed") == 0
    assert number(taken["short"], "memory") < 0.002


def test_a_bit_that_flips_in_memory_left_over_is_found_on_its_rank(taken):
    assert [number(taken["guard"], "guard_changed", rank) for rank in range(WORLD)] == [0, 1, 0]
