"""The closed loop: as many requests outstanding as there are slots, always; and the window in which they count.

What it yields is service latency at a fixed concurrency. It says nothing about arrivals that do not wait.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field

from gpuburn.agent.inference.engine import Engine, Request, Step


@dataclass(slots=True)
class Traffic:
    """Requests from a seed. Answers differ in length, by half around the mean, so that slots do not march in step."""

    seed: str
    vocab: int
    prompt: int
    output: int
    made: int = 0

    @property
    def longest(self) -> int:
        """Tokens that the longest request leaves in a cache."""
        return self.prompt + self.output + self.output // 2

    def request(self) -> Request:
        """The next request. Its number stands in front as nonce tokens: no two prompts share a prefix to be cached."""
        chosen = random.Random(f"{self.seed} {self.made}")
        nonce = [self.made // self.vocab**place % self.vocab for place in range(3)]
        body = chosen.choices(range(self.vocab), k=self.prompt)
        half = self.output // 2
        self.made += 1
        return Request((nonce + body)[: self.prompt], self.output + chosen.randint(-half, half))


@dataclass(frozen=True, slots=True)
class Quota:
    """When a window may close: after so many requests, decode steps and seconds, whichever comes last."""

    requests: int
    steps: int
    seconds: float


@dataclass(slots=True)
class Segment:
    """A stretch of the window: its steps, the counted requests that were done in it, and how long it took."""

    steps: list[Step] = field(default_factory=list)
    done: list[Request] = field(default_factory=list)
    seconds: float = 0.0

    def of(self, kind: str) -> list[Step]:
        return [step for step in self.steps if step.kind == kind]


class Loop:
    """Keeps every slot of an engine busy, and counts."""

    def __init__(self, engine: Engine, traffic: Traffic) -> None:
        self.engine, self.traffic = engine, traffic
        self.outstanding = self.finished = 0

    def turn(self) -> tuple[list[Step], list[Request], list[Request]]:
        """One turn of the engine with all slots taken: its steps, the requests done, the requests handed in."""
        with self.engine.clock.stopped():
            fresh = [self.traffic.request() for _ in range(len(self.engine.slots) - self.outstanding)]
        for request in fresh:
            request.due = self.engine.clock.now()
            self.engine.submit(request)
        steps, done = self.engine.iterate()
        self.outstanding += len(fresh) - len(done)
        self.finished += len(done)
        return steps, done, fresh

    def warm_up(self) -> None:
        """Serve until as many requests as there are slots are done, so that the slots are out of step; none counts."""
        while self.finished < len(self.engine.slots):
            self.turn()


def window(loop: Loop, quota: Quota, size: int) -> Iterator[Segment]:
    """Segments of size decode steps until the quota is met; then a last one that has the requests still awaited.

    A request counts if it was handed in while the window was open, and all of them are awaited under the same load:
    to leave out those that are still running would leave out the slow ones. The clock stands still at each yield.
    """
    clock, segment = loop.engine.clock, Segment()
    opened = started = clock.now()
    awaited: dict[int, Request] = {}
    counted = steps = 0
    while steps < quota.steps or counted < quota.requests or clock.now() - opened < quota.seconds:
        made, done, fresh = loop.turn()
        awaited |= {id(request): request for request in fresh}
        counted += len(fresh)
        segment.steps += made
        segment.done += [request for request in done if awaited.pop(id(request), None)]
        steps += sum(step.kind == "decode" for step in made)
        if len(segment.of("decode")) >= size:
            segment.seconds = clock.now() - started
            with clock.stopped():
                yield segment
            segment, started = Segment(), clock.now()
    segment.seconds = clock.now() - started
    while awaited:
        _, done, _ = loop.turn()
        segment.done += [request for request in done if awaited.pop(id(request), None)]
    yield segment
