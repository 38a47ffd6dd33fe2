"""A CPU device and a small decoder in float32, whose arithmetic is exact enough to compare."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from gpuburn import plan
from gpuburn.agent import device as devices
from gpuburn.agent.inference.engine import Clock, Engine
from gpuburn.agent.inference.model import Decoder, build
from gpuburn.agent.inference.shape import Shape
from tests.agent.threads import one_thread  # noqa: F401  the fixture, found here by name

SMALL = Shape(layers=3, width=64, heads=8, kv_heads=2, hidden=96, vocab=160)


@pytest.fixture
def device(tmp_path: Path) -> devices.Device:
    return devices.make(plan.Device("cpu0", "cpu"), 0, 1, tmp_path, 7)


@pytest.fixture
def decoder() -> Decoder:
    return build(SMALL, torch.device("cpu"), torch.float32, seed=7)


@pytest.fixture
def engine(device, decoder):
    """Make an engine of so many slots."""

    def make(slots: int = 1, length: int = 128, chunk: int = 16) -> Engine:
        return Engine(decoder, device, slots, length, chunk, Clock())

    return make
