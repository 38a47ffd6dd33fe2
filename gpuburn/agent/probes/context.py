"""The longest context that fits a device: predicted from bytes, confirmed by filling it, checked for corruption."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from gpuburn.measurement import Metric, Reading, Work
from gpuburn.probe import Taken, probe

if TYPE_CHECKING:
    from gpuburn.agent.device import Device
    from gpuburn.agent.inference.edge import Edge


@probe(
    scope="device",
    predicted=Metric("count", "last", doc="tokens of the longest sequence whose predicted bytes are within the budget"),
    confirmed=Metric("count", "last", doc="tokens really held and computed with at a measured peak within the budget"),
    short=Metric("count", "last", doc="predicted tokens that were not confirmed"),
    fill=Metric("1", "last", doc="measured peak over the budget"),
    coverage=Metric("1", "last", doc="measured peak over the device's whole memory, whatever the budget was"),
    error=Metric("1", "last", doc="how far the measured peak is from the predicted one, as a share of it"),
    first_token=Metric(
        "ms", doc="last prompt chunk and first token, everything before it already in the cache", better="lower"
    ),
    step=Metric("ms", doc="the device's own time of a decode step at the longest context", better="lower"),
    wrong=Metric("count", "sum", doc="checks that failed: far end not read, not repeatable, not finite, cache changed"),
    work=("iterations", "bytes"),
    smoke={"preset": "tiny", "dtype": "float32", "budget_mib": 24, "reserve_mib": 1, "chunk": 16, "steps": 2},
)
def context(
    device: Device,
    preset: str = "8b",
    dtype: str = "bfloat16",
    budget_mib: int = 0,
    fraction: float = 0.92,
    reserve_mib: int = 256,
    chunk: int = 256,
    steps: int = 200,
) -> Iterator[Taken]:
    """One sequence as long as memory allows: the cache filled with seeded noise, then the last chunk and the answer.

    budget_mib 0 is the device's free memory times the fraction. The next bucket of tokens would be over the budget by
    prediction; nothing is searched by running out of memory. reserve_mib of it is left to what kernels take for
    themselves (cuBLAS workspaces), which the prediction does not know. A GPU's peak is its allocator's; on a CPU
    tensors are counted, so there the budget is kept by accounting and the machine's memory is never filled.

    Exercises: memory capacity up to the budget, the cache read back whole twice, attention over its whole length.
    Does not exercise: the memory beyond the budget, the prefill of the whole context, many sequences at once.
    """
    import torch

    from gpuburn.agent.inference.edge import Edge
    from gpuburn.agent.inference.shape import PRESETS, Footprint, longest

    kind = getattr(torch, dtype)
    footprint = Footprint(PRESETS[preset], torch.empty(0, dtype=kind).element_size(), chunk)
    budget = budget_mib * 2**20 or int(device.free() * fraction)
    tokens = longest(footprint, budget - reserve_mib * 2**20)
    yield Reading("predicted", float(tokens))
    if tokens < chunk + steps:
        raise ValueError(f"{budget} bytes hold {tokens} tokens of {preset}, wanted are {chunk + steps} at least")
    try:
        with device.metered() as peak:
            edge = Edge(device, footprint, kind, tokens, steps)
            edge.fill()
            before = edge.sums()
            edge.prefill()
            edge.decode(0)
            measured = peak()
    except (torch.OutOfMemoryError, MemoryError):
        # Caught once and told as a number: the prediction was wrong, or the memory is not there.
        yield from confirmation(tokens, 0)
        return
    yield from confirmation(tokens, tokens if measured <= budget else 0)
    yield Reading("fill", measured / budget)
    yield Reading("coverage", measured / device.memory)
    yield Reading("error", abs(measured - footprint.total(tokens)) / footprint.total(tokens))
    yield from timings(device, edge, steps)
    yield Reading("wrong", float(edge.wrong(before)))
    yield Work(iterations=2, bytes=2 * edge.cache.nbytes)


def confirmation(predicted: int, confirmed: int) -> Iterator[Reading]:
    yield Reading("confirmed", float(confirmed))
    yield Reading("short", float(predicted - confirmed))


def timings(device: Device, edge: Edge, steps: int) -> Iterator[Taken]:
    """The last chunk again, now timed, and all decode steps up to the end of the cache."""
    for _ in range(3):
        yield Reading("first_token", device.timed(edge.prefill) * 1e3)
        yield Work(iterations=1, bytes=edge.bytes(edge.footprint.chunk))
    for index in range(steps):
        yield Reading("step", device.timed(lambda index=index: edge.decode(index)) * 1e3)  # type: ignore[misc]
        yield Work(iterations=1, bytes=edge.bytes(1))
