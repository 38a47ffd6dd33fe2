"""Attention against a plain one that repeats the keys and knows nothing of folds."""

from __future__ import annotations

import pytest
import torch

from gpuburn.agent.inference.attend import attend, causal


def plainly(queries, keys, values, positions):
    batch, count, heads, head = queries.shape
    group = heads // keys.shape[2]
    keys, values = (x.repeat_interleave(group, dim=2) for x in (keys, values))
    out = torch.empty(batch, count, heads, head, dtype=torch.float64)
    for b in range(batch):
        for i in range(count):
            seen = int(positions[b, i]) + 1
            for h in range(heads):
                weights = torch.softmax(keys[b, :seen, h].double() @ queries[b, i, h].double() / head**0.5, 0)
                out[b, i, h] = weights @ values[b, :seen, h].double()
    return out.reshape(batch, count, -1)


@pytest.mark.parametrize(("batch", "count", "kv_heads"), [(1, 1, 2), (3, 1, 2), (1, 5, 2), (2, 4, 1), (2, 3, 8)])
def test_the_fold_is_plain_attention(batch, count, kv_heads):
    torch.manual_seed(1)
    queries = torch.randn(batch, count, 8, 16)
    keys, values = torch.randn(2, batch, 24, kv_heads, 16)
    positions = torch.tensor([[3 + 4 * b + i for i in range(count)] for b in range(batch)])
    out = attend(queries, keys, values, causal(positions, 24, 8 // kv_heads, torch.float32))
    torch.testing.assert_close(out.double(), plainly(queries, keys, values, positions), atol=1e-5, rtol=1e-5)


def test_a_query_sees_its_own_position_and_nothing_after():
    mask = causal(torch.tensor([[2, 3]]), 5, group=1, dtype=torch.float32)
    assert (mask[0, 0] == 0).tolist() == [[True, True, True, False, False], [True, True, True, True, False]]
