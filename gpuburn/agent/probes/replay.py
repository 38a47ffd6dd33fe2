"""The same few training steps again and again on each device alone: they end in the same bits, cold and hot."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING

from gpuburn import strict
from gpuburn.measurement import Fact, Metric, Observed, Reading, Work
from gpuburn.probe import Taken, probe

if TYPE_CHECKING:
    from gpuburn.agent.device import Device
    from gpuburn.agent.training.loop import Recipe


@probe(
    scope="device",
    differing=Metric("count", "sum", "replays that did not end in the bits of the device's first one"),
    not_finite=Metric("count", "sum", "steps whose loss or gradient is infinite or no number"),
    step_time=Metric("s", doc="one step of the device alone: forward, backward, update", better="lower"),
    bits=Observed("digest of every loss, gradient, weight and moment of a replay; the same on every device of a SKU",
                  fixed="result"),
    smoke={
        "layers": 1, "width": 32, "heads": 4, "kv_heads": 2, "ffn": 64, "vocab": 32, "sequence": 16, "batch": 2,
        "steps": 3, "seconds": 0.0,
    },
)  # fmt: skip
def replay(
    device: Device, layers: int = 8, width: int = 2048, heads: int = 16, kv_heads: int = 8, ffn: int = 5632,
    vocab: int = 32768, sequence: int = 2048, batch: int = 4, learning_rate: float = 3e-4, steps: int = 20,
    seconds: float = 60.0,
) -> Iterator[Taken]:  # fmt: skip
    """Train a small decoder for a few steps from the same seed, over and over for so many seconds, at least twice.

    No other device is asked: what differs is this device's own. In profile `training` it runs before the load and
    right after it, so that a device that computes otherwise when it is hot differs from itself.

    Exercises: every kernel of a training step in a fixed order: products, attention, norms, the optimizer.
    Does not exercise: the exchange between devices, memory beyond a few GiB, long runs.
    """
    from gpuburn.agent.training.loop import Recipe, reproducible
    from gpuburn.agent.training.model import Shape

    shape = Shape(layers, width, heads, kv_heads, ffn, vocab, sequence)
    recipe = Recipe(shape, batch, device.seed, learning_rate)
    end, first = time.monotonic() + seconds, ""
    with reproducible(), _alone(device):
        while True:
            again = bool(first)
            bits = yield from _replayed(recipe, device, steps)
            if again:
                yield Reading("differing", float(bits != first))
                if time.monotonic() >= end:
                    return
            else:
                first = bits
                yield Fact("bits", bits)


@contextlib.contextmanager
def _alone(device: Device) -> Iterator[None]:
    """A process group of this one process, which the training loop wants: its exchange is then with itself."""
    import torch.distributed as dist

    device.folder.mkdir(parents=True, exist_ok=True)
    meeting = (device.folder / f"replay-{device.name}").absolute().as_uri()
    dist.init_process_group(device.collectives, init_method=meeting, rank=0, world_size=1)
    try:
        yield
    finally:
        dist.destroy_process_group()


def _replayed(recipe: Recipe, device: Device, steps: int) -> Generator[Taken, None, str]:
    """One replay, from nothing; its digest is what the generator returns."""
    from gpuburn.agent.training.loop import Training
    from gpuburn.agent.training.watch import bits

    training = Training(recipe, device)
    took = [training.advance() for _ in range(steps)]
    yield Reading("not_finite", float(sum(not one.finite for one in took)))
    yield Reading("step_time", sorted(one.seconds for one in took)[len(took) // 2])
    yield Work(iterations=steps)
    said = (bits(one.loss for one in took), training.witness(), training.parameters(), training.state())
    return strict.digest(" ".join(said).encode())
