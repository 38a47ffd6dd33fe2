"""The host at rest: what the sampler sees when nothing runs."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

from gpuburn.measurement import Metric, Reading, Work
from gpuburn.probe import Taken, probe

if TYPE_CHECKING:
    from gpuburn.agent.host import Host


@probe(
    scope="host",
    late=Metric("ms", "max", doc="how much later than asked the host woke this process: foreign load shows here"),
    smoke={"seconds": 0.0},
)
def idle(host: Host, seconds: float = 60.0, period: float = 0.25) -> Iterator[Taken]:
    """Do nothing, and say how well the host let us.

    Exercises: the scheduler at rest; the idle baseline of every sensor.
    Does not exercise: any device.
    """
    end = host.until(seconds)
    latest, rounds, reported = 0.0, 0, time.monotonic()
    while True:
        asked = time.monotonic() + period
        time.sleep(period if seconds else 0.0)
        latest = max(latest, time.monotonic() - asked)
        rounds += 1
        if time.monotonic() >= min(end, reported + 1.0):
            yield Reading("late", max(0.0, latest * 1e3))
            yield Work(iterations=rounds)
            latest, rounds, reported = 0.0, 0, time.monotonic()
        if time.monotonic() >= end:
            return
