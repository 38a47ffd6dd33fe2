"""The language: pure, learnable, and of the entropy that it claims."""

import math
from collections import Counter

import pytest
import torch

from gpuburn.agent.training.language import Language
from gpuburn.strict import Refused

LANGUAGE = Language(vocab=64, noise=0.1, seed=3)


def test_text_is_a_function_of_seed_step_and_rank():
    text = LANGUAGE.text(5, 1, batch=2, sequence=16)
    assert torch.equal(text, LANGUAGE.text(5, 1, batch=2, sequence=16))
    assert text.shape == (2, 17) and text.min() >= 0 and text.max() < 64
    for other in (LANGUAGE.text(6, 1, 2, 16), LANGUAGE.text(5, 2, 2, 16), Language(64, 0.1, 4).text(5, 1, 2, 16)):
        assert not torch.equal(text, other)


def test_text_draws_nothing_from_the_global_generator():
    before = torch.random.get_rng_state()
    LANGUAGE.text(1, 0, 2, 16)
    assert torch.equal(before, torch.random.get_rng_state())


def test_the_map_is_followed_except_where_noise_broke_it():
    a, c = LANGUAGE.map
    text = LANGUAGE.text(1, 0, batch=64, sequence=256)
    followed = ((a * text[:, :-1] + c) % 64 == text[:, 1:]).double().mean().item()
    assert followed == pytest.approx(1 - 0.1 + 0.1 / 64, abs=0.01)


def test_the_map_is_one_cycle_through_every_token():
    for seed in range(20):
        language = Language(32, 0.1, seed)
        a, c = language.map
        seen, token = set(), 0
        while token not in seen:
            seen.add(token)
            token = (a * token + c) % 32
        assert len(seen) == 32


def test_the_floor_is_the_entropy_that_text_has():
    """The mean of -ln p over much text, with p from the definition, comes to the floor."""
    a, c = LANGUAGE.map
    text = LANGUAGE.text(1, 0, batch=256, sequence=512)
    followed = (a * text[:, :-1] + c) % 64 == text[:, 1:]
    other = 0.1 / 64
    surprise = torch.where(followed, -math.log(1 - 0.1 + other), -math.log(other))
    assert surprise.mean().item() == pytest.approx(LANGUAGE.floor, rel=0.02)


def test_noise_is_spread_over_all_tokens():
    counts = Counter(LANGUAGE.text(1, 0, batch=64, sequence=512).flatten().tolist())
    assert len(counts) == 64 and max(counts.values()) < 2 * min(counts.values())


@pytest.mark.parametrize("vocab, noise", [(48, 0.1), (2, 0.1), (64, 0.0), (64, 1.0)])
def test_a_language_without_a_known_floor_is_refused(vocab, noise):
    with pytest.raises(Refused):
        Language(vocab, noise, 1)
