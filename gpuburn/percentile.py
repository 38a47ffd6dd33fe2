"""Percentiles that can be defended: nearest rank, with a bound that holds at 99 % confidence, or nothing.

Method: MLPerf LoadGen's early stopping (loadgen/early_stopping.cc), distribution-free and one-sided; the floors
64 (P90), 662 (P99) and 6,636 (P99.9) of its documentation are tested in tests/test_percentile.py.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

CONFIDENCE = 0.99


def _terms(count: int, rate: float) -> Iterator[float]:
    """P(X = k) for X ~ Binomial(count, rate), k = 0, 1, ..., in log space so that large counts do not underflow."""
    log_rate, log_rest, total = math.log(rate), math.log1p(-rate), math.lgamma(count + 1)
    for k in range(count + 1):
        yield math.exp(total - math.lgamma(k + 1) - math.lgamma(count - k + 1) + k * log_rate + (count - k) * log_rest)


def allowed(count: int, quantile: float) -> int:
    """How many of count values may lie over a bound that the quantile is below with 99 % confidence; 0: none."""
    below = 0.0
    for over, term in enumerate(_terms(count, 1 - quantile)):
        below += term
        if below >= 1 - CONFIDENCE:
            return max(0, over - 1)
    return 0


def floor(quantile: float) -> int:
    """The smallest count that can carry a bound of this quantile."""
    count = 2
    while not allowed(count, quantile):
        count += max(1, count // 64)
    while allowed(count - 1, quantile):
        count -= 1
    return count


def bound(values: Sequence[float], quantile: float) -> float | None:
    """The value that the true quantile does not exceed, with 99 % confidence; None where the count cannot carry it."""
    over = allowed(len(values), quantile) if len(values) > 1 else 0
    return sorted(values)[len(values) - over] if over else None
