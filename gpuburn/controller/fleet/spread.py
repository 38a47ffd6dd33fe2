"""Medians and scales that a few bad devices do not move, for many groups of one size at once.

Rows are groups, columns are devices. Scales are shares of the group's median (0.01 = 1 %). Stops before any limit.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
SAME = 1e-9  # a share: closer than this is equal, but for the arithmetic
FLOOR = 0.002  # a scale below 0.2 % is not believed: quantised data has a MAD of 0
MAD = 1.4826  # times the MAD is the standard deviation of normal data
REACH = 9.0  # MADs from the median at which a device no longer counts: the usual tuning of the biweight


def deviations(values: Array) -> tuple[Array, Array]:
    """The median of each row, and how far each value is from it as a share.

    values: (groups, devices), finite, any unit. A row whose median is not positive has no shares: NaN.
    """
    median = np.median(values, axis=1)
    known = np.where(median > 0, median, np.nan)
    return median, values / known[:, None] - 1


def between(shares: Array, floor: float = FLOOR) -> Array:
    """How far devices lie from each other: the root of the biweight midvariance, never below the floor.

    shares: (groups, devices) as `deviations` gives them. The MAD decides who counts and alone would cost 63 % of
    the information; the biweight keeps about 87 % (Mosteller & Tukey 1977; Lax, JASA 80, 1985). Not corrected for
    small groups, which look too uniform: `critical` knows by how much.
    """
    centred = shares - np.median(shares, axis=1)[:, None]
    mad = np.maximum(np.median(np.abs(centred), axis=1), floor / MAD)
    squares = centred * centred
    near = np.maximum(1 - squares / (REACH * mad[:, None]) ** 2, 0)
    fourth = (near * near) ** 2
    above = np.einsum("ij,ij->i", squares, fourth)
    below = np.abs(np.einsum("ij,ij->i", near, 5 * near - 4))
    return np.asarray(np.maximum(np.sqrt(shares.shape[1] * above) / below, floor))


def rest(worse: Array) -> Array:
    """Each row without its worst device, so that a device does not hide behind the scale that it stretched itself.

    worse: (groups, devices), the shares by which each is worse.
    """
    keep = np.ones(worse.shape, bool)
    keep[np.arange(len(worse)), np.argmax(worse, axis=1)] = False
    return worse[keep].reshape(len(worse), worse.shape[1] - 1)


def within(cv: Array, count: Array, floor: float = FLOOR) -> Array:
    """How far the readings of one device lie from each other: root mean square over devices, never below the floor.

    cv, count: (groups, devices). Devices with more than twice the median are left out: a jittery one must not hide the
    others. NaN where fewer than half of the devices know theirs, and below half of the floor, where readings are copies
    of each other and tell nothing about devices.
    """
    known = np.isfinite(cv) & (count > 1)
    enough = 2 * known.sum(axis=1) >= cv.shape[1]
    some = np.where(known, cv, np.nan)
    some[~enough] = 0
    middle = np.median(some, axis=1) if known.all() else np.nanmedian(some, axis=1)
    near = np.where(some <= 2 * middle[:, None], some, 0)
    mean = np.sqrt(np.einsum("ij,ij->i", near, near) / np.maximum((some <= 2 * middle[:, None]).sum(axis=1), 1))
    return np.where(enough & (mean >= floor / 2), np.maximum(mean, floor), np.nan)


def step(shares: Array) -> Array:
    """The smallest step between different values of each group, a share; 0 where all are the same.

    shares: (groups, devices). Of values that were rounded it is the step of the rounding; of others next to nothing.
    """
    gaps = np.diff(np.sort(shares, axis=1), axis=1)
    smallest = np.where(gaps > SAME, gaps, np.inf).min(axis=1, initial=np.inf)
    return np.asarray(np.where(np.isfinite(smallest), smallest, 0.0), dtype=float)
