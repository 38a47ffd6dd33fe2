"""Decay over a soak: how much a device lost between the end of warm-up and the end, as an effect, never a p-value.

Readings of a soak follow each other (autocorrelation), so tests of trend accuse flat runs; a size does not.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy import stats

Array = npt.NDArray[np.float64]
WINDOW = 600.0  # seconds: medians of 10 minutes
WARM_UP = 1800.0  # seconds
FEWEST = 6  # windows after warm-up; an hour
MOST = 2000  # windows: theilslopes holds every pair, 2,000 are two weeks of 10 minutes and 32 MB
KEYS = ["host", "subject", "step", "about", "point"]


@dataclass(frozen=True, slots=True)
class Soak:
    """change: over the whole time after warm-up, a share of the level at its start; worse is positive.

    NaN where it cannot be told, and why says so. decayed: change reaches the limit (a share); hours: after warm-up.
    """

    host: str
    subject: str
    step: str
    about: str
    point: str
    change: float
    limit: float
    decayed: bool
    windows: int
    hours: float
    why: str


def soak(readings: pd.DataFrame, limit: float, warm_up: float = WARM_UP, window: float = WINDOW) -> list[Soak]:
    """The total Theil-Sen change of each series (Theil 1950, Sen 1968) over medians of windows.

    readings: host, subject, step, about, point, better ("higher" or "lower"), at (s, any origin), value (any unit).
    limit: the loss, a share above 0, at which a series has decayed. Raises ValueError for another limit.
    """
    if not limit > 0:
        raise ValueError(f"a limit of {limit} is not a share above 0")
    taken = readings[readings["better"].isin(["higher", "lower"]) & np.isfinite(readings["value"].to_numpy(float))]
    return list(_each(taken, limit, warm_up, window))


def _each(taken: pd.DataFrame, limit: float, warm_up: float, window: float) -> Iterator[Soak]:
    for key, series in taken.groupby(KEYS, observed=True, sort=True):
        at, value = medians(series["at"].to_numpy(float), series["value"].to_numpy(float), warm_up, window)
        hours = float(at[-1] - at[0] + window) / 3600 if len(at) else 0.0
        gained = change(at, value)
        lost = -gained if series["better"].iloc[0] == "higher" else gained
        host, subject, step, about, point = map(str, key)
        decayed = bool(lost >= limit)
        why = (
            f"{lost:+.2%} worse over {hours:.1f} h after warm-up; the limit is {limit:.2%}"
            if np.isfinite(lost)
            else f"{len(at)} windows of {window:g} s after warm-up: between {FEWEST} and {MOST} and a positive level "
            "are needed"
        )
        yield Soak(host, subject, step, about, point, float(lost), limit, decayed, len(at), hours, why)


def medians(at: Array, value: Array, warm_up: float = WARM_UP, window: float = WINDOW) -> tuple[Array, Array]:
    """The middle (s after the first reading) and the median of each window after warm-up that has readings."""
    if not len(at):
        return np.empty(0), np.empty(0)
    since = at - at.min()
    index = np.floor((since - warm_up) / window)
    kept = index >= 0
    found = pd.Series(value[kept]).groupby(index[kept]).median()
    return warm_up + (found.index.to_numpy(float) + 0.5) * window, found.to_numpy(float)


def change(at: Array, value: Array) -> float:
    """The total change from first to last as a share of the fitted level at the first; NaN where not to be told."""
    if not FEWEST <= len(at) <= MOST:
        return float("nan")
    fit = stats.theilslopes(value, at)
    start = fit.intercept + fit.slope * at[0]
    return float(fit.slope * (at[-1] - at[0]) / start) if start > 0 else float("nan")
