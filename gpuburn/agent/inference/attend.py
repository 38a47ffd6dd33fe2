"""Attention of a batch's queries over the KV cache: the one place that knows which kernel does it."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

KERNEL = "sdpa"  # part of the engine's mode: numbers of different kernels are not comparable


def causal(positions: Tensor, reach: int, group: int, dtype: torch.dtype) -> Tensor:
    """What each query may not see, as an addend [batch, 1, group x queries, reach].

    positions [batch, queries]: a query sees the keys up to and including its own position; a cache may hold more.
    """
    hidden = torch.arange(reach, device=positions.device) > positions[:, :, None]
    rows = torch.zeros(hidden.shape, dtype=dtype, device=positions.device).masked_fill_(hidden, float("-inf"))
    return rows[:, None].expand(-1, group, -1, -1).reshape(len(positions), 1, -1, reach)


def attend(queries: Tensor, keys: Tensor, values: Tensor, mask: Tensor) -> Tensor:
    """[batch, queries, heads, head] of queries over [batch, reach, kv heads, head] of keys and values.

    The query heads that share a key head become more rows of it (the GQA fold): keys are never repeated in memory.
    """
    batch, count, heads, head = queries.shape
    shared = keys.shape[2]
    folded = queries.view(batch, count, shared, heads // shared, head).permute(0, 2, 3, 1, 4)
    out = functional.scaled_dot_product_attention(
        folded.reshape(batch, shared, -1, head), keys.transpose(1, 2), values.transpose(1, 2), attn_mask=mask
    )
    return out.view(batch, shared, heads // shared, count, head).permute(0, 3, 1, 2, 4).reshape(batch, count, -1)
