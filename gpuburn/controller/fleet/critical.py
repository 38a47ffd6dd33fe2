"""How many scales from the median is too far: by number of devices and of comparisons, from `peers.yml`.

The table is simulated by `tests/benchmarks/calibrate_peers.py`; this module only looks up between its rows.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import stats

from gpuburn import strict

Array = npt.NDArray[np.float64]
FILE = Path(__file__).with_name("peers.yml")


@dataclass(frozen=True, slots=True)
class Critical:
    """What holds for each group, one entry a group.

    bias, rest: by what factor `spread.between` comes out too small, of all and of all but one device;
    low, high: the logarithms of between over within spread at which the two are no longer called alike; uneven: the
    variance of that logarithm over the groups of a cohort beyond which no within-device spread is used there;
    between, pooled: k for either scale.
    """

    bias: Array
    rest: Array
    low: Array
    high: Array
    uneven: Array
    between: Array
    pooled: Array


def tail(tests: int, alpha: float) -> float:
    """The normal deviate that a healthy value passes with Sidak's share of alpha (Sidak, JASA 62, 1967)."""
    return float(stats.norm.isf(-np.expm1(np.log1p(-alpha) / tests)))


def critical(devices: npt.NDArray[np.int64], tests: int, alpha: float) -> Critical:
    """The row of the table for each group of so many devices, when the whole fleet makes so many comparisons.

    Between two rows the value is taken at 1/n; beyond the last it goes to the normal deviate, as theory wants.
    """
    z, rows = tail(tests, alpha), _table()
    sizes = np.array([row["n"] for row in rows] + [np.inf])
    inverse = 1 / np.maximum(devices, sizes[0])

    def at(column: list[float]) -> Array:
        return np.asarray(np.interp(inverse, (1 / sizes)[::-1], np.array(column)[::-1]), np.float64)

    def k(scale: str) -> Array:
        return at([float(np.interp(z, row["z"], row[scale])) for row in rows] + [z])

    ends = {"bias": 1.0, "rest": 1.0, "low": 0.0, "high": 0.0, "uneven": 0.0}
    plain = {name: at([row[name] for row in rows] + [end]) for name, end in ends.items()}
    return Critical(**plain, between=k("between"), pooled=k("pooled"))


@functools.cache
def _table() -> tuple[dict[str, Any], ...]:
    document = strict.load_yaml(FILE)
    return tuple({"n": n, "z": document["z"], **row} for n, row in sorted(document["rows"].items()))
