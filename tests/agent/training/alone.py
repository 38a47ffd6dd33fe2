"""A training run of one rank in this process, for tests: device, recipe, process group."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import torch
import torch.distributed as dist

from gpuburn import plan
from gpuburn.agent import device as devices
from gpuburn.agent.device import Device
from gpuburn.agent.training.loop import Recipe
from gpuburn.agent.training.model import Shape

SHAPE = Shape(layers=1, width=32, heads=4, kv_heads=2, ffn=64, vocab=32, sequence=16)
RECIPE = Recipe(SHAPE, batch=2, seed=7, learning_rate=3e-3, warmup=2)


def device(folder: Path, rank: int = 0, world: int = 1, seed: int = 7) -> Device:
    return devices.make(plan.Device(f"cpu{rank}", "cpu"), rank, world, folder / "scratch", seed)


@contextlib.contextmanager
def group(folder: Path, rank: int = 0, world: int = 1) -> Iterator[None]:
    """A process group over a file, so that no port is taken."""
    torch.set_num_threads(1)
    dist.init_process_group("gloo", store=dist.FileStore(str(folder / "store"), world), rank=rank, world_size=world)
    try:
        yield
    finally:
        dist.destroy_process_group()
