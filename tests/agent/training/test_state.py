"""Saving and loading a run: every part of its state comes back, and what is damaged or of another recipe does not."""

import dataclasses

import pytest
import torch

from gpuburn.agent.training import checkpoint, shard
from gpuburn.agent.training.loop import Training, reproducible
from gpuburn.strict import Refused
from tests.agent.training.alone import RECIPE, device, group


@pytest.fixture(autouse=True)
def one_rank(tmp_path):
    with group(tmp_path), reproducible():
        yield


@pytest.fixture
def saved(tmp_path):
    """A run saved after 4 steps, what its next 3 losses were, and its bits then."""
    training = Training(RECIPE, device(tmp_path))
    for _ in range(4):
        training.advance()
    place = checkpoint.save(tmp_path / "checkpoints", training)
    return place, [training.advance().loss.hex() for _ in range(3)], (training.parameters(), training.state())


def test_a_loaded_run_goes_on_as_if_nothing_had_been(saved, tmp_path):
    place, losses, bits = saved
    training = Training(RECIPE, device(tmp_path))
    checkpoint.load(place, training)
    assert training.step == 4
    assert [training.advance().loss.hex() for _ in range(3)] == losses
    assert (training.parameters(), training.state()) == bits


@pytest.mark.parametrize("part", ["weights", "moment1", "moment2", "updates", "noise", "step"])
def test_every_part_of_the_state_is_needed(saved, tmp_path, part):
    """A part that keeps what a fresh run has: the bits differ, so each part that is saved is one that counts."""
    place, losses, bits = saved
    training = Training(RECIPE, device(tmp_path))
    fresh = {
        "weights": training.weights.clone(),
        "moment1": training.moments[0].clone(),
        "moment2": training.moments[1].clone(),
        "updates": training.updates.clone(),
        "noise": training.noise.get_state(),
    }
    checkpoint.load(place, training)
    if part == "step":
        training.step = 0
    elif part == "noise":
        training.noise.set_state(fresh[part])
    else:
        moments = dict(zip(("moment1", "moment2"), training.moments))
        {**moments, "weights": training.weights, "updates": training.updates}[part].copy_(fresh[part])
    again = [training.advance().loss.hex() for _ in range(3)]
    assert (again, (training.parameters(), training.state())) != (losses, bits)


def test_another_recipe_is_refused(saved, tmp_path):
    training = Training(dataclasses.replace(RECIPE, learning_rate=1e-3), device(tmp_path))
    before = training.parameters()
    with pytest.raises(Refused, match="config"):
        checkpoint.load(saved[0], training)
    assert training.parameters() == before and training.step == 0


@pytest.mark.parametrize("damage", ["flip", "cut", "gone"])
def test_a_damaged_shard_is_refused_and_changes_nothing(saved, tmp_path, damage):
    path = shard.data(saved[0], 0)
    content = bytearray(path.read_bytes())
    content[-1] ^= 128
    path.unlink()
    if damage != "gone":
        path.write_bytes(content if damage == "flip" else content[:-1])
    training = Training(RECIPE, device(tmp_path))
    before = training.parameters(), training.state()
    with pytest.raises(Refused, match="rank-0"):
        checkpoint.load(saved[0], training)
    assert (training.parameters(), training.state()) == before and training.step == 0


def test_pieces_do_not_change_what_is_written(saved, tmp_path, monkeypatch):
    monkeypatch.setattr(checkpoint, "PIECE", 1000)
    training = Training(RECIPE, device(tmp_path))
    checkpoint.load(saved[0], training)
    again = checkpoint.save(tmp_path / "again", training)
    assert shard.described(again, 0) == shard.described(saved[0], 0)


def test_saving_disturbs_nothing(saved, tmp_path):
    training = Training(RECIPE, device(tmp_path))
    for _ in range(4):
        training.advance()
    assert [training.advance().loss.hex() for _ in range(3)] == saved[1]
    assert torch.are_deterministic_algorithms_enabled()
