"""One sequence at the edge of a device's memory: filled, computed with, and checked."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from gpuburn.agent.inference.model import build, cache_of
from gpuburn.agent.inference.shape import Footprint

if TYPE_CHECKING:
    from gpuburn.agent.device import Device

LOUD = 64.0  # scale of the needle's key: half of the heads then see almost nothing else, at any length


class Edge:
    """tokens long: noise up to the last chunk, the chunk, then as many decode steps as were asked for."""

    def __init__(self, device: Device, footprint: Footprint, dtype: torch.dtype, tokens: int, steps: int) -> None:
        self.device, self.footprint, self.tokens, self.steps = device, footprint, tokens, steps
        self.decoder = build(footprint.shape, device.torch, dtype, device.seed)
        self.cache = cache_of(self.decoder, 1, tokens)
        self.generator = torch.Generator(device.torch).manual_seed(device.seed)
        self.noise = tokens - footprint.chunk - steps
        self.prompt = self._tokens(footprint.chunk)
        self.answers = self._tokens(steps)

    def _tokens(self, count: int) -> Tensor:
        shape = (1, count)
        return torch.randint(self.footprint.shape.vocab, shape, generator=self.generator, device=self.device.torch)

    def _pages(self, end: int) -> list[slice]:
        size = self.footprint.chunk
        return [slice(start, min(start + size, end)) for start in range(0, end, size)]

    def fill(self) -> None:
        """Keys and values N(0, 1), page by page, where a prefill of the whole context would have left its own."""
        for page in self._pages(self.noise):
            self.cache[:, :, :, page].normal_(generator=self.generator)

    def prefill(self) -> Tensor:
        """The logits after the last chunk of the prompt."""
        return self._logits(self.prompt, self.noise)

    def decode(self, index: int) -> Tensor:
        """The logits after answer token number index; the last one fills the cache to its end."""
        return self._logits(self.answers[:, index : index + 1], self.noise + self.footprint.chunk + index)

    def _logits(self, tokens: Tensor, start: int) -> Tensor:
        starts = torch.tensor([start], device=self.device.torch)
        out: Tensor = self.decoder(tokens, self.cache, 0, starts, self.tokens)
        return out

    def bytes(self, count: int) -> int:
        """Bytes that computing so many tokens at the end must move."""
        return self.footprint.shape.step_bytes(1, self.tokens, count, self.footprint.item)

    def sums(self) -> Tensor:
        """One number per noise token: the sum of its keys' and values' bits over layers, kinds and heads."""
        bits = self.cache.view(torch.int16 if self.footprint.item == 2 else torch.int32)
        found = torch.empty(self.noise, dtype=torch.int64, device=self.cache.device)
        for page in self._pages(self.noise):
            found[page] = bits[:, :, 0, page].sum(dim=(0, 1, 3, 4), dtype=torch.int64)
        return found

    def wrong(self, before: Tensor) -> int:
        """How many of the checks fail: the noise is as it was before, and the far end of the cache is really read."""
        changed = not torch.equal(before, self.sums())
        last = self.steps - 1
        first, again = self._with_needle(1.0, last), self._with_needle(1.0, last)
        other = self._with_needle(-1.0, last)
        checks = (changed, not torch.equal(first, again), torch.equal(first, other), not bool(first.isfinite().all()))
        return sum(checks)

    def _with_needle(self, value: float, index: int) -> Tensor:
        """The logits when the very first token has a key that cannot be overlooked, and this value everywhere."""
        self.cache[:, 0, 0, 0] = LOUD
        self.cache[:, 1, 0, 0] = value
        return self.decode(index)
