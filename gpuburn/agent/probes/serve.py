"""Latency and throughput of serving a decoder at fixed concurrency, and whether its answers stay the same."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from gpuburn.measurement import Fact, Metric, Observed, Point, Reading, Work
from gpuburn.probe import Taken, probe

if TYPE_CHECKING:
    from gpuburn.agent.device import Device
    from gpuburn.agent.inference.engine import Engine, Request, Step
    from gpuburn.agent.inference.load import Segment

AT = {"concurrency": "concurrencies"}
FIRST = "from handing a request in to its first token: waiting, prefill chunks, and the decode steps between them"
EACH = "per request: time from its first to its last token over the tokens between (requests are the units)"
STEP = "the device's own time of one decode step of all slots (steps are the units)"


@probe(
    scope="device",
    ttft_p50=Metric("ms", "p50", FIRST, at=AT, better="lower"),
    ttft_p90=Metric("ms", "p90", FIRST, at=AT, better="lower"),
    ttft_p99=Metric("ms", "p99", FIRST, at=AT, better="lower"),
    tpot_p50=Metric("ms", "p50", EACH, at=AT, better="lower"),
    tpot_p90=Metric("ms", "p90", EACH, at=AT, better="lower"),
    tpot_p99=Metric("ms", "p99", EACH, at=AT, better="lower"),
    step_p50=Metric("ms", "p50", STEP, at=AT, better="lower"),
    step_p90=Metric("ms", "p90", STEP, at=AT, better="lower"),
    step_p99=Metric("ms", "p99", STEP, at=AT, better="lower"),
    prefill=Metric("token/s", doc="prompt tokens over their chunks' device time, per segment", at=AT, better="higher"),
    decode=Metric("token/s", doc="decoded tokens over a segment's whole time, with prefill", at=AT, better="higher"),
    bandwidth=Metric("GB/s", doc="bytes moved by decode steps (weights, keys) a second", at=AT, better="higher"),
    gap=Metric("ms", doc="host time of a decode step beyond the device's, mean of a segment", at=AT, better="lower"),
    failed=Metric("count", "sum", doc="requests whose logits were not finite numbers", at=AT),
    tokens=Observed("digest of the greedy answer to one fixed prompt, between segments: always the same on a SKU"),
    logits=Observed("digest of all bits of that answer's logits: sees a wrong bit that leaves the tokens as they were"),
    mode=Observed("how the engine computes; only numbers of the same mode may be compared"),
    work=("iterations", "bytes"),
    smoke={"preset": "tiny", "dtype": "float32", "concurrencies": [1, 2], "prompt": 12, "output": 4, "chunk": 8,
           "requests": 6, "steps": 12, "seconds": 0.0, "segment": 8, "canary": 4},
)  # fmt: skip
def serve(
    device: Device,
    preset: str = "8b",
    dtype: str = "bfloat16",
    concurrencies: list[int] = [1, 8, 32],  # noqa: B006
    prompt: int = 512,
    output: int = 64,
    chunk: int = 512,
    requests: int = 700,
    steps: int = 700,
    seconds: float = 60.0,
    segment: int = 500,
    canary: int = 32,
    every: int = 1,
) -> Iterator[Taken]:
    """Serve seeded requests in a closed loop, one concurrency after another, on our own engine in plain PyTorch.

    A window counts after a warm-up and closes after so many requests, decode steps and seconds, whichever comes last.
    Every so many decode steps (segment) the clock of the requests stands still and a fixed prompt is answered alone
    (canary tokens): same shapes, same weights, so another answer is corruption. every: each so many-th decode
    step is written down by itself; all enter the rates. Latency is of service at fixed concurrency, not under arrivals.

    Exercises: weight and cache reads, many small kernels in a row, the host that launches them, greedy determinism.
    Does not exercise: NVLink, requests that arrive unasked, tokenizers, HTTP, quantised weights, CUDA graphs.
    """
    import torch

    from gpuburn.agent.inference.engine import Clock, Engine
    from gpuburn.agent.inference.load import Loop, Quota, Traffic, window
    from gpuburn.agent.inference.model import build
    from gpuburn.agent.inference.shape import PRESETS

    shape, clock = PRESETS[preset], Clock()
    decoder = build(shape, device.torch, getattr(torch, dtype), device.seed)
    fixed = Traffic(f"{device.seed} canary", shape.vocab, prompt, canary)
    alone, question = Engine(decoder, device, 1, fixed.longest, chunk, clock), fixed.request().prompt
    yield Fact("mode", f"{preset} {alone.mode}")
    for concurrency in concurrencies:
        yield from again(alone, question, canary)
        traffic = Traffic(f"{device.seed} {concurrency}", shape.vocab, prompt, output)
        loop = Loop(Engine(decoder, device, concurrency, traffic.longest, chunk, clock), traffic)
        loop.warm_up()
        for part in window(loop, Quota(requests, steps, seconds), segment):
            yield from readings(part, Point.of(concurrency=concurrency), every)
            yield from again(alone, question, canary)


def again(alone: Engine, question: list[int], canary: int) -> Iterator[Fact]:
    """The answer to the fixed question, as tokens and as bits."""
    import torch

    from gpuburn import strict
    from gpuburn.agent.detect import checksum
    from gpuburn.agent.inference.engine import answer

    bits: list[str] = []
    integer = {2: torch.int16, 4: torch.int32, 8: torch.int64}[alone.cache.element_size()]
    alone.witness = lambda logits: bits.append(checksum(logits.view(integer)))
    request = answer(alone, question, canary)
    yield Fact("tokens", strict.digest(f"{request.tokens} {request.failed}".encode()))
    yield Fact("logits", strict.digest(" ".join(bits).encode()))


def readings(part: Segment, point: Point, every: int) -> Iterator[Taken]:
    """What a segment tells."""
    for request in part.done:
        yield from latencies(request, point)
    yield Reading("failed", float(sum(bool(request.failed) for request in part.done)), point)
    prefill, decode = part.of("prefill"), part.of("decode")
    for step in decode[::every]:
        for name in ("step_p50", "step_p90", "step_p99"):
            yield Reading(name, step.device_s * 1e3, point)
    if prefill:
        yield Reading("prefill", tokens(prefill) / device_s(prefill), point)
    if decode:
        yield Reading("decode", tokens(decode) / part.seconds, point)
        yield Reading("bandwidth", sum(step.bytes for step in decode) / device_s(decode) / 1e9, point)
        yield Reading("gap", sum(step.host_s - step.device_s for step in decode) / len(decode) * 1e3, point)
    yield Work(iterations=len(part.steps), bytes=sum(step.bytes for step in part.steps))


def latencies(request: Request, point: Point) -> Iterator[Reading]:
    """A request's first-token time and time per token; where it failed first, an entry that ranks as infinite."""
    moments = request.moments
    first = moments[0] - request.due if moments else 0.0
    each = (moments[-1] - moments[0]) / (len(moments) - 1) if len(moments) > 1 else 0.0
    for share in ("p50", "p90", "p99"):
        yield Reading(f"ttft_{share}", first * 1e3, point, failed="" if moments else request.failed)
        if request.output > 1:
            yield Reading(f"tpot_{share}", each * 1e3, point, failed=request.failed)


def tokens(steps: list[Step]) -> int:
    return sum(step.tokens for step in steps)


def device_s(steps: list[Step]) -> float:
    return sum(step.device_s for step in steps)
