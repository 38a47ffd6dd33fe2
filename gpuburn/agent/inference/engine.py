"""Serve requests from fixed slots: admit, compute at most one prompt chunk, decode one token of each; all recorded."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

import torch
from torch import Tensor

from gpuburn.agent.inference.attend import KERNEL
from gpuburn.agent.inference.model import Decoder, cache_of
from gpuburn.agent.inference.shape import bucketed

if TYPE_CHECKING:
    from gpuburn.agent.device import Device

NOT_FINITE = -1  # stands for a token whose logits were not all finite numbers


class Clock:
    """Seconds of serving: it can be stopped while something else is done on the device or the host."""

    def __init__(self) -> None:
        self._away = 0.0

    def now(self) -> float:
        return time.perf_counter() - self._away

    @contextmanager
    def stopped(self) -> Iterator[None]:
        start = time.perf_counter()
        try:
            yield
        finally:
            self._away += time.perf_counter() - start


@dataclass(slots=True)
class Request:
    """prompt and output: token ids and how many are wanted. due: when it was handed in; each answer has its moment."""

    prompt: list[int]
    output: int
    due: float = 0.0
    tokens: list[int] = field(default_factory=list)
    moments: list[float] = field(default_factory=list)
    computed: int = 0
    failed: str = ""

    @property
    def done(self) -> bool:
        return bool(self.failed) or len(self.tokens) >= self.output

    @property
    def prefilled(self) -> bool:
        return self.computed == len(self.prompt)

    @property
    def length(self) -> int:
        """Tokens in the cache: the prompt and all answers but the newest, which enters with the next step."""
        return self.computed + max(0, len(self.tokens) - 1)

    def receive(self, token: int, moment: float) -> None:
        if token == NOT_FINITE:
            self.failed = f"logits of token {len(self.tokens)} are not finite"
            return
        self.tokens.append(token)
        self.moments.append(moment)


@dataclass(frozen=True, slots=True)
class Step:
    """One call of the model. batch: sequences served; tokens: that it computed; times in seconds.

    device_s by the device's own clock; host_s from before the inputs are made until the tokens are on the host.
    """

    kind: Literal["prefill", "decode"]
    batch: int
    tokens: int
    bytes: int
    device_s: float
    host_s: float


class Engine:
    """Fixed slots over one cache. A decode step computes all slots, so that its shape is always the same.

    A slot that is idle or still prefilling writes its unused key where the next real one goes, which overwrites it.
    witness: is shown the logits of every step, outside the device's time of it.
    """

    def __init__(self, decoder: Decoder, device: Device, slots: int, length: int, chunk: int, clock: Clock) -> None:
        self.decoder, self.device, self.chunk, self.clock = decoder, device, chunk, clock
        self.cache = cache_of(decoder, slots, length)
        self.slots: list[Request | None] = [None] * slots
        self.waiting: deque[Request] = deque()
        self.witness: Callable[[Tensor], None] | None = None

    @property
    def mode(self) -> str:
        """What numbers of this engine may be compared with: only the same."""
        dtype = str(self.cache.dtype).removeprefix("torch.")
        return f"eager {KERNEL} {dtype} chunk={self.chunk}"

    def submit(self, request: Request) -> None:
        if len(request.prompt) + request.output > self.cache.shape[3]:
            raise ValueError(f"{len(request.prompt)} + {request.output} tokens, the cache holds {self.cache.shape[3]}")
        self.waiting.append(request)

    def iterate(self) -> tuple[list[Step], list[Request]]:
        """One turn of the scheduler: its steps (one or two), and the requests that are done with it."""
        for slot, held in enumerate(self.slots):
            if held is None and self.waiting:
                self.slots[slot] = self.waiting.popleft()
        steps = [*self._prefill(), *self._decode()]
        done = [held for held in self.slots if held and held.done]
        self.slots = [None if held and held.done else held for held in self.slots]
        return steps, done

    def _prefill(self) -> Iterator[Step]:
        """The next chunk of the request that waits longest; with its last chunk comes the first token."""
        unfinished = [(held.due, slot) for slot, held in enumerate(self.slots) if held and not held.prefilled]
        if not unfinished:
            return
        slot = min(unfinished)[1]
        request = self.slots[slot]
        assert request is not None
        chunk = request.prompt[request.computed : request.computed + self.chunk]
        reach = bucketed(request.computed + len(chunk))
        [token], times = self._run([chunk], slot, [request.computed], reach)
        request.computed += len(chunk)
        if request.prefilled or token == NOT_FINITE:
            request.receive(token, self.clock.now())
        moved = self.decoder.shape.step_bytes(1, reach, len(chunk), self.cache.element_size())
        yield Step("prefill", 1, len(chunk), moved, *times)

    def _decode(self) -> Iterator[Step]:
        """The next token of every prefilled request."""
        active = [(slot, held) for slot, held in enumerate(self.slots) if held and held.prefilled and not held.done]
        if not active:
            return
        lengths = [held.length if held else 0 for held in self.slots]
        newest = [held.tokens[-1] if held and held.tokens else 0 for held in self.slots]
        reach = bucketed(max(lengths) + 1)
        tokens, times = self._run([[token] for token in newest], 0, lengths, reach)
        moment = self.clock.now()
        for slot, held in active:
            held.receive(tokens[slot], moment)
        moved = self.decoder.shape.step_bytes(len(self.slots), reach, len(self.slots), self.cache.element_size())
        yield Step("decode", len(active), len(active), moved, *times)

    @torch.inference_mode()
    def _run(self, tokens: list[list[int]], first: int, starts: list[int], reach: int
             ) -> tuple[list[int], tuple[float, float]]:  # fmt: skip
        """The greedy token of each row, and the seconds that device and host took."""
        began = time.perf_counter()
        rows, places = (torch.tensor(one, device=self.cache.device) for one in (tokens, starts))
        out: list[tuple[Tensor, Tensor]] = []

        def work() -> None:
            logits = self.decoder(rows, self.cache, first, places, reach)
            out.append((greedy(logits), logits))

        device_s = self.device.timed(work)
        chosen, logits = out[-1][0].tolist(), out[-1][1]
        host_s = time.perf_counter() - began
        if self.witness:
            self.witness(logits)
        return chosen, (device_s, host_s)


def greedy(logits: Tensor) -> Tensor:
    """The largest logit's index of each row, or NOT_FINITE."""
    return torch.where(logits.isfinite().all(-1), logits.argmax(-1), NOT_FINITE)


def answer(engine: Engine, prompt: list[int], output: int) -> Request:
    """Serve one request alone, to its end."""
    request = Request(prompt, output, engine.clock.now())
    engine.submit(request)
    while not request.done:
        engine.iterate()
    return request
