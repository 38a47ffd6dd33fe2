"""The decoder: its size, its blindness for the future, and what its parts compute."""

import dataclasses
import math

import pytest
import torch

from gpuburn.agent.training.model import Attention, Decoder, Norm, Shape, angles, initialise, rotate
from gpuburn.strict import Refused

SHAPE = Shape(layers=2, width=32, heads=4, kv_heads=2, ffn=48, vocab=64, sequence=16)
LLAMA_3_8B = Shape(layers=32, width=4096, heads=32, kv_heads=8, ffn=14336, vocab=128256, sequence=8192)


def test_parameters_are_those_of_the_built_model_and_of_a_published_one():
    built = Decoder(SHAPE, torch.float32)
    assert SHAPE.parameters == sum(weight.numel() for weight in built.parameters())
    assert LLAMA_3_8B.parameters == 8_030_261_248  # Meta's model card: 8.03 B


def test_operations_per_token_leave_the_embedding_out():
    assert SHAPE.flops_per_token == 6 * (SHAPE.parameters - 64 * 32) + 12 * 2 * 32 * 16


@pytest.mark.parametrize("field, value", [("heads", 3), ("kv_heads", 3), ("layers", 0), ("width", 36)])
def test_sizes_that_do_not_fit_are_refused(field, value):
    with pytest.raises(Refused):
        dataclasses.replace(SHAPE, **{field: value})


def test_the_first_loss_is_near_that_of_knowing_nothing():
    model = Decoder(SHAPE, torch.float32)
    initialise(model, 1, torch.device("cpu"))
    text = torch.randint(64, (8, 17), generator=torch.Generator().manual_seed(1))
    loss = model(text, 0.0, torch.Generator())
    assert loss.item() == pytest.approx(math.log(64), rel=0.05)


def test_initial_weights_follow_from_the_seed():
    first, again, other = (Decoder(SHAPE, torch.float32) for _ in range(3))
    for model, seed in ((first, 1), (again, 1), (other, 2)):
        initialise(model, seed, torch.device("cpu"))
    pairs = list(zip(first.parameters(), again.parameters()))
    assert all(torch.equal(one, two) for one, two in pairs)
    assert not torch.equal(first.head.weight, other.head.weight)
    assert first.blocks[0].ffn.down.weight.std().item() == pytest.approx(48**-0.5, rel=0.1)


def test_attention_does_not_see_the_future_and_sees_the_past():
    attention, turn = Attention(SHAPE), angles(8, SHAPE.head, torch.device("cpu"))
    x = torch.randn(1, 8, 32)
    changed = x.clone()
    changed[:, 4] += 1.0
    before, after = attention(x, turn), attention(changed, turn)
    assert torch.allclose(before[:, :4], after[:, :4], atol=1e-6)
    assert not torch.allclose(before[:, 5:], after[:, 5:], atol=1e-6)


def test_grouped_heads_equal_full_heads_with_copied_keys():
    grouped, full = Attention(SHAPE), Attention(dataclasses.replace(SHAPE, kv_heads=4))
    state = {
        name: weight if weight.shape[0] == 32 else weight.view(2, 1, 8, 32).expand(2, 2, 8, 32).reshape(32, 32)
        for name, weight in grouped.state_dict().items()
    }
    full.load_state_dict(state)
    x, turn = torch.randn(2, 8, 32), angles(8, SHAPE.head, torch.device("cpu"))
    assert torch.allclose(grouped(x, turn), full(x, turn), atol=1e-5)


def test_rotation_keeps_length_and_depends_on_distance_only():
    turn = angles(8, 8, torch.device("cpu"))
    x, y = torch.randn(8), torch.randn(8)
    turned, other = rotate(x.expand(8, 8), *turn), rotate(y.expand(8, 8), *turn)
    assert torch.allclose(turned.norm(dim=1), x.norm().expand(8), atol=1e-5)
    assert (turned[5] @ other[3]).item() == pytest.approx((turned[3] @ other[1]).item(), abs=1e-4)


def test_a_norm_brings_every_vector_to_unit_mean_square():
    normed = Norm(32)(100 * torch.randn(4, 32))
    assert torch.allclose(normed.square().mean(-1), torch.ones(4), atol=1e-4)
