"""A small Llama-shaped decoder: RMSNorm, RoPE, grouped-query attention, SwiGLU. Knows nothing of training."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional

from gpuburn.strict import Refused

ROPE_BASE = 10_000.0
EPSILON = 1e-5


@dataclass(frozen=True, slots=True)
class Shape:
    """The decoder's sizes. ffn: width of the feed-forward layer; sequence: tokens per row."""

    layers: int
    width: int
    heads: int
    kv_heads: int
    ffn: int
    vocab: int
    sequence: int

    def __post_init__(self) -> None:
        if min(self.layers, self.width, self.heads, self.kv_heads, self.ffn, self.vocab, self.sequence) < 1:
            raise Refused(f"{self}: every size is at least 1")
        if self.width % (2 * self.heads) or self.heads % self.kv_heads:
            raise Refused(f"{self}: width must divide by 2 x heads, heads by kv_heads")

    @property
    def head(self) -> int:
        return self.width // self.heads

    @property
    def parameters(self) -> int:
        """N = 2 V h + L (2 h a d + 2 h a_kv d + 3 h f + 2 h) + h: a Llama (arXiv 2302.13971) with untied embeddings."""
        attention = 2 * self.width * self.heads * self.head + 2 * self.width * self.kv_heads * self.head
        block = attention + 3 * self.width * self.ffn + 2 * self.width
        return 2 * self.vocab * self.width + self.layers * block + self.width

    @property
    def flops_per_token(self) -> int:
        """6 (N - N_embed) + 12 L h s: forward and backward, recomputation and causality not deducted.

        The formula of pytorch/torchtitan, which is that of PaLM (arXiv 2204.02311, appendix B).
        """
        without_embedding = self.parameters - self.vocab * self.width
        return 6 * without_embedding + 12 * self.layers * self.width * self.sequence


class Norm(nn.Module):
    """RMSNorm in float32, whatever flows through the layers."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        wide = x.float()
        scale = torch.rsqrt(wide.square().mean(-1, keepdim=True) + EPSILON)
        return (wide * scale * self.weight).to(x.dtype)


class Attention(nn.Module):
    """Causal attention with fewer heads for keys and values than for queries."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.shape = shape
        narrow = shape.kv_heads * shape.head
        self.query, self.output = (nn.Linear(shape.width, shape.width, bias=False) for _ in range(2))
        self.key, self.value = (nn.Linear(shape.width, narrow, bias=False) for _ in range(2))

    def forward(self, x: torch.Tensor, turn: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
        batch, sequence, width = x.shape
        q, k, v = (
            project(x).view(batch, sequence, -1, self.shape.head).transpose(1, 2)
            for project in (self.query, self.key, self.value)
        )
        # Expanded by hand and not by enable_gqa, which not every kernel of every release takes.
        k, v = self._shared(rotate(k, *turn)), self._shared(v)
        attended = functional.scaled_dot_product_attention(rotate(q, *turn), k, v, is_causal=True)
        mixed: torch.Tensor = self.output(attended.transpose(1, 2).reshape(batch, sequence, width))
        return mixed

    def _shared(self, x: torch.Tensor) -> torch.Tensor:
        times = self.shape.heads // self.shape.kv_heads
        return x.unsqueeze(2).expand(-1, -1, times, -1, -1).flatten(1, 2)


class FeedForward(nn.Module):
    """SwiGLU."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.gate, self.up = (nn.Linear(shape.width, shape.ffn, bias=False) for _ in range(2))
        self.down = nn.Linear(shape.ffn, shape.width, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        mixed: torch.Tensor = self.down(functional.silu(self.gate(x)) * self.up(x))
        return mixed


class Block(nn.Module):
    """One layer: attention, then feed-forward, each on a normed copy of the stream."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.before_attention, self.before_ffn = Norm(shape.width), Norm(shape.width)
        self.attention, self.ffn = Attention(shape), FeedForward(shape)

    def forward(self, x: torch.Tensor, turn: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
        x = x + self.attention(self.before_attention(x), turn)
        mixed: torch.Tensor = x + self.ffn(self.before_ffn(x))
        return mixed


class Table(nn.Embedding):
    """An embedding that draws no values: initialise does."""

    def reset_parameters(self) -> None:
        """Nothing: on the meta device a draw imports the compiler, for seconds in each process."""


class Decoder(nn.Module):
    """Tokens to the loss of predicting each next one. stream: the type of what flows between the layers."""

    def __init__(self, shape: Shape, stream: torch.dtype) -> None:
        super().__init__()
        self.shape, self.stream = shape, stream
        self.embedding = Table(shape.vocab, shape.width)
        self.blocks = nn.ModuleList(Block(shape) for _ in range(shape.layers))
        self.norm = Norm(shape.width)
        self.head = nn.Linear(shape.width, shape.vocab, bias=False)

    def forward(self, text: torch.Tensor, dropout: float, generator: torch.Generator) -> torch.Tensor:
        x = self.embedding(text[:, :-1]).to(self.stream)
        # The generator is each rank's own: its state is part of what a checkpoint must bring back.
        kept = torch.empty_like(x).bernoulli_(1 - dropout, generator=generator)
        x = x * kept / (1 - dropout)
        turn = angles(x.shape[1], self.shape.head, x.device)
        for block in self.blocks:
            x = block(x, turn)
        logits = self.head(self.norm(x)).float()
        return functional.cross_entropy(logits.flatten(0, 1), text[:, 1:].flatten())


def angles(sequence: int, head: int, device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
    """Cosine and sine of every position's rotation (RoPE, arXiv 2104.09864)."""
    rates = ROPE_BASE ** (-torch.arange(0, head, 2, device=device, dtype=torch.float32) / head)
    turned = torch.outer(torch.arange(sequence, device=device, dtype=torch.float32), rates)
    return turned.cos(), turned.sin()


def rotate(x: torch.Tensor, cosine: torch.Tensor, sine: torch.Tensor) -> torch.Tensor:
    left, right = x.float().chunk(2, dim=-1)
    return torch.cat((left * cosine - right * sine, right * cosine + left * sine), dim=-1).to(x.dtype)


def initialise(model: Decoder, seed: int, device: torch.device) -> None:
    """Gaussians of variance 1 / fan-in; the head's deviation is 1 / fan-in, so that the first loss is near ln V."""
    generator = torch.Generator(device).manual_seed(seed)
    for name, weight in model.named_parameters():
        if weight.dim() == 1:
            nn.init.ones_(weight)
        elif name.startswith("embedding"):
            nn.init.normal_(weight, 0.0, 1.0, generator=generator)
        else:
            power = 1.0 if name.startswith("head") else 0.5
            nn.init.normal_(weight, 0.0, weight.shape[1] ** -power, generator=generator)
