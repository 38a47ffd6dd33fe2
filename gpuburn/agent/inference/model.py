"""A Llama-shaped decoder with random weights and a KV cache: the shape, cost and numerics of one, and no meaning."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from gpuburn.agent.inference.attend import attend, causal
from gpuburn.agent.inference.shape import Shape, bucketed

THETA = 500_000.0  # of Llama 3's rotary embedding
EPSILON = 1e-5


class Place:
    """Where a batch's tokens stand: neighbouring slots from first on, starts [batch] tokens into each.

    reach: how many keys attention reads, at least the longest start plus the tokens that come.
    """

    def __init__(self, shape: Shape, first: int, starts: Tensor, count: int, reach: int, dtype: torch.dtype) -> None:
        device = starts.device
        self.first, self.reach = first, reach
        self.positions = starts[:, None] + torch.arange(count, device=device)
        self.slots = (first + torch.arange(len(starts), device=device))[:, None]
        half = torch.arange(0, shape.head, 2, device=device, dtype=torch.float32) / shape.head
        angle = self.positions[:, :, None].float() * THETA**-half
        self.turn = (angle.cos()[:, :, None].to(dtype), angle.sin()[:, :, None].to(dtype))
        self.mask = causal(self.positions, reach, shape.group, dtype)


class Block(nn.Module):
    """RMSNorm, grouped-query attention with rotary positions, RMSNorm, SwiGLU; both halves added to the residual."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.shape = shape
        self.attention_norm = nn.Parameter(torch.empty(shape.width), requires_grad=False)
        self.qkv = nn.Parameter(torch.empty(shape.qkv, shape.width), requires_grad=False)
        self.out = nn.Parameter(torch.empty(shape.width, shape.width), requires_grad=False)
        self.feed_norm = nn.Parameter(torch.empty(shape.width), requires_grad=False)
        self.gate_up = nn.Parameter(torch.empty(2 * shape.hidden, shape.width), requires_grad=False)
        self.down = nn.Parameter(torch.empty(shape.width, shape.hidden), requires_grad=False)

    def forward(self, x: Tensor, cache: Tensor, at: Place) -> Tensor:
        x = x + self.attention(functional.rms_norm(x, x.shape[-1:], self.attention_norm, EPSILON), cache, at)
        return x + self.feed(functional.rms_norm(x, x.shape[-1:], self.feed_norm, EPSILON))

    def attention(self, x: Tensor, cache: Tensor, at: Place) -> Tensor:
        """Keys and values enter the layer's cache [2, slots, length, kv heads, head], then all are read from it."""
        s = self.shape
        heads = torch.unflatten(functional.linear(x, self.qkv), -1, (-1, s.head))
        q, k, v = torch.split(heads, [s.heads, s.kv_heads, s.kv_heads], dim=-2)
        cache[0].index_put_((at.slots, at.positions), rotated(k, at.turn))
        cache[1].index_put_((at.slots, at.positions), v)
        keys, values = cache[:, at.first : at.first + len(x), : at.reach]
        return functional.linear(attend(rotated(q, at.turn), keys, values, at.mask), self.out)

    def feed(self, x: Tensor) -> Tensor:
        gate, up = functional.linear(x, self.gate_up).chunk(2, dim=-1)
        return functional.linear(functional.silu(gate) * up, self.down)


def rotated(x: Tensor, turn: tuple[Tensor, Tensor]) -> Tensor:
    """Turn each pair (first half, second half) of x [batch, count, heads, head] by its position's angle."""
    cos, sin = turn
    low, high = x.chunk(2, dim=-1)
    return torch.cat((low * cos - high * sin, high * cos + low * sin), dim=-1)


class Decoder(nn.Module):
    """Token ids in, logits of the last token out."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.shape = shape
        self.embedding = nn.Parameter(torch.empty(shape.vocab, shape.width), requires_grad=False)
        self.blocks = nn.ModuleList(Block(shape) for _ in range(shape.layers))
        self.norm = nn.Parameter(torch.empty(shape.width), requires_grad=False)
        self.head = nn.Parameter(torch.empty(shape.vocab, shape.width), requires_grad=False)

    def forward(self, tokens: Tensor, cache: Tensor, first: int, starts: Tensor, reach: int) -> Tensor:
        """Logits [batch, vocab] after tokens [batch, count]: only the last position's, as the others would cost GiB."""
        at = Place(self.shape, first, starts, tokens.shape[1], reach, self.embedding.dtype)
        x = functional.embedding(tokens, self.embedding)
        for block, layer in zip(self.blocks, cache):
            x = block(x, layer, at)
        x = functional.rms_norm(x[:, -1], x.shape[-1:], self.norm, EPSILON)
        return functional.linear(x, self.head)


def build(shape: Shape, device: torch.device, dtype: torch.dtype, seed: int) -> Decoder:
    """The decoder with weights N(0, 1/fan-in) from the seed, made where they stay; norms are ones.

    Fan-in scaling keeps activations near 1 at any depth. Zeros would switch few bits and draw little power.
    """
    with torch.device("meta"):
        decoder = Decoder(shape)
    decoder = decoder.to(dtype).to_empty(device=device)
    generator = torch.Generator(device).manual_seed(seed)
    for weight in decoder.parameters():
        if weight.dim() == 1:
            weight.data.fill_(1.0)
        else:
            weight.data.normal_(0.0, weight.shape[1] ** -0.5, generator=generator)
    decoder.embedding.data.mul_(shape.width**0.5)  # looked up, not multiplied: its rows are the first activations
    return decoder


def cache_of(decoder: Decoder, slots: int, length: int) -> Tensor:
    """An empty KV cache, token-major: [layers, 2, slots, length in whole buckets, kv heads, head]."""
    s, like = decoder.shape, decoder.embedding
    return like.new_zeros(s.layers, 2, slots, bucketed(length), s.kv_heads, s.head)
