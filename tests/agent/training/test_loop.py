"""The loop: the same bits each time, a schedule that needs no memory, and steps that a bad number does not poison."""

import dataclasses
import math
import os

import pytest
import torch

from gpuburn.agent.training.loop import FIXED_ORDER, Training, reproducible
from tests.agent.training.alone import RECIPE, device, group


@pytest.fixture(autouse=True)
def one_rank(tmp_path):
    with group(tmp_path), reproducible():
        yield


def after(folder, steps, recipe=RECIPE):
    training = Training(recipe, device(folder))
    return training, [training.advance() for _ in range(steps)]


def test_two_runs_of_a_recipe_have_the_same_bits_and_another_seed_has_others(tmp_path):
    (one, losses), (two, again) = after(tmp_path, 5), after(tmp_path, 5)
    assert [took.loss.hex() for took in losses] == [took.loss.hex() for took in again]
    assert (one.parameters(), one.state()) == (two.parameters(), two.state())
    other, _ = after(tmp_path, 5, dataclasses.replace(RECIPE, seed=8))
    assert other.parameters() != one.parameters()


def test_the_model_s_weights_and_gradients_are_views_of_the_flat_ones(tmp_path):
    training, _ = after(tmp_path, 1)
    flat = training.weights.untyped_storage().data_ptr()
    assert all(weight.untyped_storage().data_ptr() == flat for weight in training.model.parameters())
    total = sum(weight.grad.square().sum() for weight in training.model.parameters())
    assert total.item() == pytest.approx(training.gradients.square().sum().item(), rel=1e-5)
    assert sum(weight.numel() for weight in training.model.parameters()) == RECIPE.shape.parameters


def test_weights_and_moments_are_float32_under_bfloat16(tmp_path):
    training, _ = after(tmp_path, 1)
    assert {one.dtype for one in (training.weights, *training.moments)} == {torch.float32}
    assert all(moment.abs().sum() > 0 for moment in training.moments)
    assert training.updates.item() == 1


def test_a_gradient_longer_than_the_clip_is_shortened_to_it(tmp_path):
    training, [took] = after(tmp_path, 1, dataclasses.replace(RECIPE, clip=0.01))
    assert took.norm > 0.01
    assert torch.linalg.vector_norm(training.gradients).item() == pytest.approx(0.01, rel=1e-3)


def test_a_step_that_is_not_finite_updates_nothing(tmp_path, monkeypatch):
    training, _ = after(tmp_path, 2)
    before = training.parameters(), training.state()
    exchange = training.exchange
    monkeypatch.setattr(training, "exchange", lambda: (exchange(), training.gradients[3:4].fill_(math.nan)))
    took = training.advance()
    assert not took.finite and (training.parameters(), training.state()) == before
    monkeypatch.undo()
    assert training.advance().finite


def test_the_rate_rises_and_then_stays():
    assert [RECIPE.rate(step) for step in (1, 2, 3, 1000)] == [1.5e-3, 3e-3, 3e-3, 3e-3]


def test_the_name_of_a_recipe_holds_all_of_it_and_the_ranks():
    names = {RECIPE.digest(3), RECIPE.digest(4)}
    for field in dataclasses.fields(RECIPE):
        value = getattr(RECIPE, field.name)
        other = dataclasses.replace(value, layers=2) if field.name == "shape" else "float16"
        changed = value + 1 if isinstance(value, (int, float)) else other
        names.add(dataclasses.replace(RECIPE, **{field.name: changed}).digest(3))
    assert len(names) == 2 + len(dataclasses.fields(RECIPE))


def test_determinism_ends_with_its_block():
    assert torch.are_deterministic_algorithms_enabled()
    with reproducible():
        pass
    assert torch.are_deterministic_algorithms_enabled()


def test_determinism_is_off_again_after_the_outermost_block():
    torch.use_deterministic_algorithms(False)
    with reproducible():
        assert torch.are_deterministic_algorithms_enabled()
    assert not torch.are_deterministic_algorithms_enabled()


def test_at_a_rate_of_nothing_no_weight_moves(tmp_path):
    training = Training(dataclasses.replace(RECIPE, learning_rate=0.0), device(tmp_path))
    before = training.parameters()
    training.advance()
    assert training.parameters() == before and training.updates.item() == 1


def test_the_environment_is_as_it_was_when_the_block_is_over(monkeypatch):
    for name in FIXED_ORDER:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("NCCL_ALGO", "Tree")
    before = dict(os.environ)
    with reproducible():
        assert {**FIXED_ORDER, "NCCL_ALGO": "Tree"}.items() <= os.environ.items(), "a step's own goes first"
    assert dict(os.environ) == before
