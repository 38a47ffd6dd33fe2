"""The same steps end in the same bits: on each device, on the same device again, and before and after the load."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
import runs
import torch

from gpuburn.agent.training.loop import Took, Training
from gpuburn.finding import Verdict
from gpuburn.measurement import Fact, Reading, Work
from gpuburn.probe import discover
from tests.agent.threads import one_thread  # noqa: F401  the fixture, found here by name
from tests.agent.training import alone

REPLAY = discover()["replay"]
STEPS = ("replay", "gemm", "replay_hot")


@pytest.fixture(autouse=True)
def calm(one_thread):  # noqa: F811
    """As in a rehearsal's process."""


def taken(folder: Path, rank: int = 0, **params: float) -> list[Reading | Fact | Work]:
    return list(REPLAY.run(alone.device(folder, rank, 3), **{**REPLAY.smoke, **params}))


def bits(found: list[Reading | Fact | Work]) -> str:
    [one] = [one.value for one in found if isinstance(one, Fact)]
    return one


def numbers(found: list[Reading | Fact | Work], metric: str) -> list[float]:
    return [one.value for one in found if isinstance(one, Reading) and one.metric == metric]


def test_every_device_ends_in_the_same_bits_and_so_does_it_again(tmp_path):
    each = [taken(tmp_path, rank) for rank in range(3)]
    assert len({bits(one) for one in each}) == 1
    assert [numbers(one, "differing") for one in each] == [[0.0]] * 3 and numbers(each[0], "not_finite") == [0.0, 0.0]
    assert sum(one.iterations for one in each[0] if isinstance(one, Work)) == 2 * REPLAY.smoke["steps"]


def test_other_work_ends_in_other_bits(tmp_path):
    assert bits(taken(tmp_path)) != bits(taken(tmp_path, steps=4))


def flipping(monkeypatch: pytest.MonkeyPatch, replay: int, bit: int = 0) -> None:
    """One bit of one weight, after the first step of that replay."""
    honest, begun = Training.advance, [0]

    def advance(self: Training) -> Took:
        took = honest(self)
        begun[0] += self.step == 1
        if self.step == 1 and begun[0] == replay:
            self.weights.view(torch.int32)[5] ^= 1 << bit
        return took

    monkeypatch.setattr(Training, "advance", advance)


@pytest.mark.parametrize("bit", [0, 12, 31])
def test_a_flip_in_a_later_replay_differs_from_the_first(tmp_path, monkeypatch, bit):
    sound = bits(taken(tmp_path))
    flipping(monkeypatch, 2, bit)
    found = taken(tmp_path)
    assert bits(found) == sound and numbers(found, "differing") == [1.0]


def test_a_flip_in_the_first_replay_differs_from_other_devices(tmp_path, monkeypatch):
    sound = bits(taken(tmp_path))
    flipping(monkeypatch, 1)
    found = taken(tmp_path)
    assert bits(found) != sound and numbers(found, "differing") == [1.0]


def test_a_step_that_is_not_finite_is_counted(tmp_path, monkeypatch):
    honest = Training.advance

    def advance(self: Training) -> Took:
        took = honest(self)
        return dataclasses.replace(took, loss=float("nan")) if self.step == 2 else took

    monkeypatch.setattr(Training, "advance", advance)
    assert numbers(taken(tmp_path), "not_finite") == [1.0, 1.0]


def judged(hot: dict[str, str], count: int = 3) -> list[tuple[str, str, str, str]]:
    """What is found where these devices end in other bits when they are hot."""
    of = runs.plan(runs.hardware(count=count), steps=STEPS)
    given = runs.answers(of)
    given["replay_hot"] = [
        dataclasses.replace(one, value=hot[one.subject])
        if isinstance(one, Fact) and one.name == "bits" and one.subject in hot
        else one
        for one in given["replay_hot"]
    ]
    return sorted({(f.code, f.about, f.subject, f.step) for f in runs.judged(of, runs.outcomes(of, given))
                   if f.verdict in (Verdict.FAIL, Verdict.INCOMPLETE)})  # fmt: skip


def test_a_device_that_computes_otherwise_when_it_is_hot_differs_from_itself():
    assert judged({}) == []
    assert judged({"gpu1": "f" * 64}) == [("fact.failed", "replay.bits", "gpu1", "replay_hot")]
    assert judged({"gpu0": "f" * 64}, count=1) == [("fact.failed", "replay.bits", "gpu0", "replay_hot")]


def test_bits_that_the_hot_replay_does_not_tell_prove_nothing():
    assert ("fact.unobserved", "replay.bits", "gpu1", "replay_hot") in judged({"gpu1": "unknown: it ended early"})
