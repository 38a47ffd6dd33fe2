"""The bytes model, against published sizes and against tensors that really exist."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, strategies as st

from gpuburn.agent.inference.model import build, cache_of
from gpuburn.agent.inference.shape import BUCKET, PRESETS, Footprint, bucketed, longest

MIB = 2**20


def test_the_8b_has_its_published_size():
    shape = PRESETS["8b"]
    assert shape.parameters == 8_030_261_248
    assert 2 * (shape.parameters - shape.embedding) / 1e9 == pytest.approx(15.01, abs=0.005)
    assert shape.cache_values(1) * 2 == 128 * 1024


@pytest.mark.parametrize("name", PRESETS)
def test_heads_divide(name):
    shape = PRESETS[name]
    assert shape.head * shape.heads == shape.width and shape.group * shape.kv_heads == shape.heads


def test_the_arithmetic_counts_the_tensors():
    shape = PRESETS["tiny"]
    decoder = build(shape, torch.device("cpu"), torch.bfloat16, seed=1)
    footprint = Footprint(shape, 2, chunk=16)
    assert sum(weight.nbytes for weight in decoder.parameters()) == footprint.weights
    assert cache_of(decoder, 1, 100).nbytes == footprint.cache(100) == footprint.cache(128)


def test_a_step_reads_every_key_of_the_reach_and_no_embedding():
    shape = PRESETS["8b"]
    bare = shape.step_bytes(1, 0, 0, 2)
    assert bare == 2 * (shape.parameters - shape.embedding)
    assert shape.step_bytes(4, 1024, 0, 2) - bare == 4 * 1024 * 128 * 1024


@given(budget=st.integers(0, 400 * MIB), chunk=st.sampled_from([16, 64, 256]), item=st.sampled_from([2, 4]))
def test_the_longest_fits_and_the_next_does_not(budget, chunk, item):
    footprint = Footprint(PRESETS["tiny"], item, chunk)
    tokens = longest(footprint, budget)
    assert tokens == bucketed(tokens)
    assert tokens == 0 or footprint.total(tokens) <= budget
    assert footprint.total(tokens + BUCKET) > budget


def test_an_h200_holds_more_than_half_a_million_tokens_of_the_8b():
    budget = int(139 * 0.92 * 2**30)
    assert 600_000 < longest(Footprint(PRESETS["8b"], 2, 256), budget) < 1_000_000
