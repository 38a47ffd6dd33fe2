"""Simulates gpuburn/controller/fleet/peers.yml, the table of the peer rule; run as a script it writes that file.

A healthy cohort of n devices is drawn many times, with one device moved infinitely far away. What remains decides
median and scale, and the chance that the device, were it healthy too, lay k scales below the median is a normal tail:
its mean over the draws is the false-alarm rate at k, without any rare event to wait for (Rao-Blackwell). That is exact
for the worst device of a cohort, which its scale leaves out, and no other device is found before the worst one.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
from scipy import optimize, stats

from gpuburn.controller.fleet import critical, peers, spread

SEED = 20260
SIZES = (6, 7, 8, 10, 12, 14, 16, 20, 24, 32, 48, 64, 96, 128, 192, 256, 512)
DEVIATES = (2.5, 3.0, 3.5, 4.0, 4.5, 5.0, 5.5, 6.0, 6.5)
NEVER = 1000.0  # scales of at least 0.2 %: no device is that far below
VALUES = 4_000_000  # drawn per size
READINGS = peers.RULE.readings  # of each device: the fewest with which the within-device spread is believed
METRICS = peers.RULE.sharing - 1  # others over which a cohort's ratio of the two spreads is taken
LOW, UNEVEN = 0.0005, 0.995  # quantiles beyond which healthy data is not called so; see high


def high(n: int) -> float:
    """The quantile of between over within at which a group is judged by the former alone.

    Small cohorts see a metric with a ratio of its own badly and ask sooner; large ones can wait.
    """
    return 0.95 if n < 32 else 0.98 if n < 48 else 0.998


def row(n: int, values: int = VALUES, seed: int = SEED) -> dict[str, Any]:
    """The row of the table for cohorts of n devices, from so many drawn values."""
    rng = np.random.default_rng([seed, n])
    draws = values // n // METRICS * METRICS
    unit = rng.standard_normal((draws, n))
    whole, others = (np.log(spread.between(one, 1e-9)) for one in (unit, unit[:, 1:]))
    unit[:, 0] = -1e6
    median = np.median(unit, axis=1)
    cv = np.sqrt(rng.chisquare(READINGS - 1, (draws, n)) / (READINGS - 1))
    inside = spread.within(cv, np.full((draws, n), float(READINGS)), 1e-9)
    ratio = (whole - whole.mean() - np.log(inside)).reshape(-1, METRICS)
    level = rng.permutation(ratio.mean(axis=1).repeat(METRICS))
    rest, weight = np.exp(others - others.mean()), int(peers.weight(np.array(n)))
    pooled = np.sqrt(((n - 2) * rest**2 + weight * (inside * np.exp(level)) ** 2) / (n - 2 + weight))
    odd = np.log(rest / inside) - level
    return {
        "bias": round(float(np.exp(whole.mean())), 4),
        "rest": round(float(np.exp(others.mean())), 4),
        "low": round(float(np.quantile(odd, LOW)), 3),
        "high": round(float(np.quantile(odd, high(n))), 3),
        "uneven": round(float(np.quantile(ratio.var(axis=1, ddof=1), UNEVEN)), 4),
        "between": [round(_k(z, median, rest), 3) for z in DEVIATES],
        "pooled": [round(_k(z, median, pooled), 3) for z in DEVIATES],
    }


def _k(z: float, median: np.ndarray, scale: np.ndarray) -> float:
    """The number of scales below the median that a healthy device passes as rarely as the normal deviate z."""
    wanted = stats.norm.logsf(z)

    def excess(k: float) -> float:
        return float(np.log(stats.norm.sf(k * scale - median).mean() + 1e-300) - wanted)

    return NEVER if excess(NEVER) > 0 else float(optimize.brentq(excess, 1, NEVER, xtol=1e-4))


def document() -> str:
    head = f"""\
# The table of the peer rule. Made by: python tests/benchmarks/calibrate_peers.py
# seed {SEED}; {VALUES} values drawn per size; {READINGS} readings a device, spread within devices as large as
# between them; the ratio of the two taken over {METRICS} other metrics. No alpha is in it: a row holds k for normal
# deviates z; alpha and the number of comparisons choose z (Sidak). rows: devices in the cohort.
# bias, rest: mean (of logarithms) of the between-device scale of normal data with sd 1, of n and n - 1 devices;
# low, high: log(between/within) of a group less its cohort's beyond which the former judges alone;
# uneven: variance of that logarithm over the groups; between, pooled: k of either scale at each z.
---
"""
    lines = [f"z: [{', '.join(map(str, DEVIATES))}]", "rows:"]
    for n in SIZES:
        lines.append(f"  {n}:")
        for key, value in row(n).items():
            lines.append(f"    {key}: {'[' + ', '.join(map(str, value)) + ']' if isinstance(value, list) else value}")
        print(*lines[-8:], sep="\n", file=sys.stderr)
    return head + "\n".join(lines) + "\n"


if __name__ == "__main__":
    Path(critical.FILE).write_text(document(), encoding="utf-8")
