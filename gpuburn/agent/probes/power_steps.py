"""Load switched on and off on a clock that all devices of a host share, which supplies and regulators must follow."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

from gpuburn.measurement import Fact, Metric, Observed, Point, Reading, Work
from gpuburn.probe import Taken, probe

if TYPE_CHECKING:
    from gpuburn.agent.device import Device
    from gpuburn.agent.ring import Ring

REPORTED = 1.0  # seconds between readings, and between checks of the bits
AT = {"period_ms": "periods_ms", "phase": "phases"}
TOGETHER = "together"  # the other phase, "staggered": each device begins a share of the period after the one before it


@probe(
    scope="device",
    steps=Metric("count", "sum", "steps of load that were given", at=AT),
    given=Metric("1", "last", "steps given of those that the time had room for", at=AT),
    late=Metric("ms", "max", "how much later than on the common clock a step of load began", at=AT),
    wrong=Metric("count", "sum", "elements whose bits differ from the first product's, over all buffers compared"),
    not_finite=Metric("count", "sum", "elements that are infinite or no number, by their bits"),
    mismatch=Observed("buffer, place and bits of an element that differed in the last check that found one"),
    work=("iterations", "bytes"),
    needs=("power_budget",),
    pulses=True,
    smoke={
        "size": 64, "dtype": "float32", "periods_ms": [4, 2], "phases": ["together", "staggered"], "seconds": 0.0,
        "share": 0.0,
    },
)  # fmt: skip
def power_steps(
    device: Device, size: int = 8192, dtype: str = "bfloat16",
    periods_ms: list[int] = [4000, 400, 200, 100],  # noqa: B006
    phases: list[str] = ["together", "staggered"],  # noqa: B006
    seconds: float = 60.0, share: float = 0.05,
) -> Iterator[Taken]:  # fmt: skip
    """Matrix products for half of a period, nothing for the other half, in each pattern for so many seconds.

    4 s step the supply as training does between computing and waiting; periods of 100 to 400 ms (bursts of 50 to
    200 ms) come too fast for fans and averaging. Together is the worst for the feed; staggered, each device steps while
    its neighbours do not. A wrong bit ends the step: what follows would only repeat it.

    Exercises: voltage regulators, power supplies and the feed under changing load; the driver's changing of clocks.
    Does not exercise: sustained heat, memory capacity, links.
    """
    from gpuburn.agent import detect, products
    from gpuburn.agent.ring import Ring

    product = products.made(device, dtype, size)
    first = product.empty()
    product.multiply(first)
    yield Reading("not_finite", float(detect.not_finite(first)))
    ring = Ring(device, product, first, share)
    yield from ring.check()
    for phase in phases:
        for period in periods_ms:
            lag = 0.0 if phase == TOGETHER else device.rank / device.world
            point = Point.of(period_ms=period, phase=phase)
            if ring.mismatch == detect.NOWHERE:
                yield from _pattern(device, ring, period / 1e3, lag, seconds, point)
    yield Fact("mismatch", ring.mismatch)


def _pattern(device: Device, ring: Ring, period: float, lag: float, seconds: float, point: Point) -> Iterator[Taken]:
    """One period for `seconds`; lag: the share of the period by which this device is behind. At least one step.

    The clock is the host's monotonic one, the same in all its processes, so that nobody has to talk to be in phase.
    """
    from gpuburn.agent import detect

    rounds = device.calibrate(ring.step, period / 2)
    begin = edge = told = _next(time.monotonic(), period, lag)
    end = begin + seconds
    given = steps = 0
    most = 0.0
    while ring.mismatch == detect.NOWHERE and (edge < end or not given):
        time.sleep(max(0.0, edge - time.monotonic()))
        most = max(most, time.monotonic() - edge)
        device.timed(ring.step, rounds)
        steps, now = steps + 1, time.monotonic()
        if now - told >= REPORTED or _next(now, period, lag) >= end:
            given, room = given + steps, round((edge - begin) / period) + 1
            yield Reading("steps", float(steps), point)
            yield Reading("late", most * 1e3, point)
            yield Reading("given", given / room, point)
            yield Work(iterations=steps * rounds)
            yield from ring.check()
            steps, most, told = 0, 0.0, now
        edge = _next(time.monotonic(), period, lag)


def _next(now: float, period: float, lag: float) -> float:
    """The next moment, in seconds of the host's clock, at which a device that far behind begins a step of load."""
    return (math.floor(now / period - lag) + 1 + lag) * period
