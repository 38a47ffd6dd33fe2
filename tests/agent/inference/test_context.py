"""The context probe: the prediction holds, and memory that lies is seen."""

from __future__ import annotations

import pytest
import torch

from gpuburn.agent.inference import edge as edges
from gpuburn.agent.inference.edge import Edge
from gpuburn.agent.inference.shape import PRESETS, Footprint
from gpuburn.evidence import amounts
from gpuburn.probe import discover

CONTEXT = discover()["context"]
FOOTPRINT = Footprint(PRESETS["tiny"], 4, 16)


def values(device, **params) -> dict[str, float]:
    measurements, _, _ = amounts(CONTEXT.run(device, **{**CONTEXT.smoke, **params}), [CONTEXT])
    return {m.name.partition(".")[2]: m.value for m in measurements}


def edge(device) -> tuple[Edge, torch.Tensor]:
    made = Edge(device, FOOTPRINT, torch.float32, tokens=256, steps=4)
    made.fill()
    before = made.sums()
    made.prefill()
    for index in range(4):
        made.decode(index)
    return made, before


@pytest.mark.parametrize(
    "params",
    [{"budget_mib": 17}, {"budget_mib": 30}, {"budget_mib": 40, "chunk": 32}, {"budget_mib": 16, "dtype": "bfloat16"}],
)
def test_the_prediction_is_confirmed(device, params):
    seen = values(device, **params)
    assert set(seen) == set(CONTEXT.metrics)
    assert seen["confirmed"] == seen["predicted"] > 0 and seen["short"] == 0
    assert 0.9 < seen["fill"] <= 1 and seen["error"] < 0.02 and seen["wrong"] == 0


def test_a_budget_of_zero_takes_what_is_free(device, monkeypatch):
    monkeypatch.setattr(type(device), "free", lambda self: 48 * 2**20)
    assert 0.45 < values(device, budget_mib=0, fraction=0.5)["fill"] * 24 / 48 <= 0.5


def test_a_budget_too_small_for_the_chunk_is_an_error_that_says_so(device):
    with pytest.raises(ValueError, match="tokens of tiny"):
        values(device, budget_mib=14)


def test_memory_that_runs_out_is_told_not_searched(device, monkeypatch):
    def full(*_):
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(edges, "cache_of", full)
    seen = values(device)
    assert seen["confirmed"] == 0 and seen["short"] == seen["predicted"] > 0


def test_more_bytes_than_predicted_are_not_confirmed(device, monkeypatch):
    honest = edges.cache_of
    monkeypatch.setattr(edges, "cache_of", lambda decoder, slots, length: honest(decoder, slots + 1, length))
    seen = values(device)
    assert seen["confirmed"] == 0 and seen["short"] > 0 and seen["fill"] > 1 and seen["error"] > 0.2


def test_a_sound_cache_passes_every_check(device):
    made, before = edge(device)
    assert made.wrong(before) == 0


@pytest.mark.parametrize("token", [0, 1, 100, 235])
def test_one_bit_that_flips_in_the_cache_is_seen(device, token):
    made, before = edge(device)
    made.cache.view(torch.int32)[2, 1, 0, token, 1, 5] ^= 1 << 9
    assert made.wrong(before) == 1


def test_a_far_end_that_is_not_read_is_seen(device, monkeypatch):
    made, before = edge(device)
    honest = made._logits

    def forgetful(tokens, start):
        made.cache[:, :, 0, 0] = 0
        return honest(tokens, start)

    monkeypatch.setattr(made, "_logits", forgetful)
    assert made.wrong(before) == 1


def test_logits_that_vary_are_seen(device, monkeypatch):
    made, before = edge(device)
    honest = made._logits
    monkeypatch.setattr(made, "_logits", lambda tokens, start: honest(tokens, start) + torch.rand(1) * 1e-3)
    assert made.wrong(before) == 1


def test_logits_that_are_not_finite_are_seen(device):
    made, before = edge(device)
    made.decoder.head.data[0, 0] = float("inf")
    assert made.wrong(before) == 1


def test_decoding_ends_exactly_at_the_end_of_the_cache(device):
    made, _ = edge(device)
    assert bool(made.cache[:, :, 0, -1].abs().sum(dim=(-1, -2)).gt(0).all())
    with pytest.raises(IndexError):
        made._logits(made.answers[:, :1], made.tokens)
