"""Watches a training run from outside: what its losses and times amount to. Pure: numbers in, numbers out."""

from __future__ import annotations

import hashlib
import math
import statistics
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from gpuburn.agent.training.loop import Took

REMEMBERED = 64  # residuals that the spread is taken from: its own error is then about 15 %
WARMUP = 32  # steps, and residuals, before any is called a spike
SPREADS = 6.0
SIGMA = 1.4826  # a MAD times this is the standard deviation of a normal distribution
SMALLEST = 1e-3  # nats: a spread below it is rounding


@dataclass(slots=True)
class Spikes:
    """Counts losses that are not finite, or that leap above their own moving average.

    Only upward: a fall is learning. The residuals' median is taken off, so that a steady fall, behind which an average
    lags, is no anomaly either; one residual in 10^9 leaves 6 spreads of a normal distribution.
    """

    average: float = math.nan
    seen: int = 0
    residuals: deque[float] = field(default_factory=lambda: deque(maxlen=REMEMBERED))

    def odd(self, took: Took) -> bool:
        """Whether this step is an anomaly. A spike is kept out of the average, so that it does not excuse the next."""
        if not took.finite:
            return True
        self.seen += 1
        residual = took.loss - (self.average if self.seen > 1 else took.loss)
        if self.seen > WARMUP and len(self.residuals) >= WARMUP and residual > self._bound():
            return True
        self.residuals.append(residual)
        self.average = took.loss if self.seen == 1 else 0.9 * self.average + 0.1 * took.loss
        return False

    def _bound(self) -> float:
        middle = statistics.median(self.residuals)
        spread = SIGMA * statistics.median(abs(one - middle) for one in self.residuals)
        return middle + SPREADS * max(spread, SMALLEST)


@dataclass(frozen=True, slots=True)
class Learning:
    """A loss curve in numbers. first: the first step's loss; last: the mean over the last tenth, 5 to 50 steps."""

    first: float
    last: float
    floor: float

    @property
    def improvement(self) -> float:
        return self.first - self.last

    @property
    def gap(self) -> float:
        """How far the end is above the best that any model can do."""
        return self.last - self.floor

    @property
    def learnt(self) -> float:
        """The share of what there was to learn that was learnt: 0 is nothing, 1 is all."""
        return self.improvement / (self.first - self.floor)


def learning(losses: Sequence[float], floor: float) -> Learning | None:
    """What a run's losses amount to; None where its beginning or its end is not finite."""
    tail = losses[-min(50, max(5, len(losses) // 10)) :]
    if not losses or not math.isfinite(losses[0]) or not all(math.isfinite(one) for one in tail):
        return None
    return Learning(losses[0], statistics.fmean(tail), floor)


def warm(steps: Sequence[Any]) -> Sequence[Any]:
    """What was taken of the steps, the first tenth (at least one) left out; all of a single one."""
    return steps[max(1, len(steps) // 10) :] or steps


def tail(times: Sequence[float]) -> tuple[float, float]:
    """Nearest-rank 95th percentile and median of the step times in seconds, those of the warm-up left out."""
    taken = sorted(warm(times))
    return taken[math.ceil(0.95 * len(taken)) - 1], statistics.median(taken)


def bits(losses: Iterable[float]) -> str:
    """One name for a whole curve: the digest of every loss, written without rounding."""
    return hashlib.sha256("\n".join(loss.hex() for loss in losses).encode()).hexdigest()
