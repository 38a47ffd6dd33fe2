"""How many rows of text fill a device's memory: by trial steps, the same number on all ranks; the rest is guarded.

Memory model: what does not depend on the batch (weights, gradients, moments: 16 bytes per parameter), and so many bytes
per row (activations, logits). Two trial steps of one and two rows measure both; a batch is then a division, and nobody
runs out of memory to find it. (stress.md 5; a bisection by trial and error needs a failed allocation each time.)
"""

from __future__ import annotations

import gc
from dataclasses import dataclass, replace
from typing import Any

import torch
import torch.distributed as dist

from gpuburn.agent import detect
from gpuburn.agent.device import Device
from gpuburn.agent.training.loop import Recipe, Training

WORD = 8  # bytes


@dataclass(frozen=True, slots=True)
class Fit:
    """rows: of each rank. rest: bytes of this device that the steps leave of the share that is to be filled."""

    rows: int
    rest: int


def fitted(recipe: Recipe, device: Device, share: float) -> Fit:
    """The largest batch that keeps a step within `share` of the whole memory, on the fullest rank.

    Raises MemoryError where not even one row fits. What others hold of the memory (driver, libraries) counts as used.
    """
    one, _ = _peak(recipe, device, 1)
    two, taken = _peak(recipe, device, 2)  # by now the libraries have taken what they take
    row = max(1, two - one)
    budget = int(share * device.memory) - taken - (one - row)
    rows = torch.tensor(budget // row, device=device.torch)
    dist.all_reduce(rows, op=dist.ReduceOp.MIN)
    if int(rows) < 1:
        raise MemoryError(f"{device.name}: no row of {recipe.shape.sequence} tokens fits into {share:g} of its memory")
    return Fit(int(rows), budget - int(rows) * row)


def _peak(recipe: Recipe, device: Device, rows: int) -> tuple[int, int]:
    """Bytes that a run of so many rows takes at its most, from nothing, in two steps; and what others held before."""
    with device.metered() as most:
        taken = device.memory - device.free()
        training = Training(replace(recipe, batch=rows), device)
        for _ in range(2):
            training.advance()
        found = most()
    del training
    gc.collect()  # the optimizer and its parameter know each other
    return found, taken


@dataclass(frozen=True, slots=True)
class Guard:
    """Random words in the memory that a run leaves over: they must be the same after it."""

    words: Any
    before: str

    @classmethod
    def of(cls, device: Device, size: int) -> Guard:
        """size: bytes; of none at all there is one word."""
        draw = torch.Generator(device.torch).manual_seed(device.seed)
        words = torch.empty(max(1, size // WORD), dtype=torch.int64, device=device.torch).random_(generator=draw)
        return cls(words, detect.checksum(words))

    def changed(self) -> bool:
        """Whether any bit is another one now."""
        return detect.checksum(self.words) != self.before
