"""The size-aware peer rule: which device is worse than its cohort by more than chance and by more than 2 %.

Comes after the absolute limits, never instead: where most devices are bad, nobody is an outlier (see `position`).
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from gpuburn.controller.fleet import spread
from gpuburn.controller.fleet.critical import critical

Array = npt.NDArray[np.float64]
Whole = npt.NDArray[np.int64]
GROUP = ["cohort", "step", "about", "point"]
ROWS = 2**20  # that are compared at once: the arrays beside each other stay below 200 MiB


@dataclass(frozen=True, slots=True)
class Rule:
    """delta: the smallest effect, a share; alpha: the chance of any finding in a healthy fleet; fewest: devices.

    floor: the smallest scale that is believed, a share; readings: fewer per device do not tell the within-device
    spread; sharing: in a cohort of so many groups their ratio of the two spreads is known well enough to be used.
    """

    delta: float = 0.02
    alpha: float = 0.0165
    fewest: int = 6
    floor: float = spread.FLOOR
    readings: int = 10
    sharing: int = 12


RULE = Rule()


@dataclass(frozen=True, slots=True)
class Peer:
    """One device that is worse than its peers. deviation and scale are shares of the median; worse is positive."""

    host: str
    subject: str
    rack: str
    power_domain: str
    slot: int
    cohort: str
    about: str
    step: str
    point: str
    unit: str
    value: float
    median: float
    deviation: float
    scale: float
    z: float
    k: float
    n: int
    why: str
    explained: str = ""


@dataclass(frozen=True, slots=True)
class Comparison:
    """groups: one row per cohort, step, about and point: n, median, between, rest, within, scale, k, basis, limit, why.

    why is empty where the group was compared and says otherwise why not. tests: how many values were compared.
    """

    findings: list[Peer]
    groups: pd.DataFrame
    tests: int


def compare(table: pd.DataFrame, rule: Rule = RULE) -> Comparison:
    """Compare every value with the median of its cohort, step, about and point.

    table: the tidy measurements (see docs/methods.md, "Comparing with peers"), one row per measurement; rows without
    `better` or without a finite value are left out. The order of rows and the units change nothing.
    """
    taken = comparable(table)
    by = taken.groupby(GROUP, observed=True, sort=False)
    codes = by.ngroup().to_numpy()
    groups = taken[[*GROUP, "unit", "better"]].iloc[np.unique(codes, return_index=True)[1]].reset_index(drop=True)
    groups["n"] = np.bincount(codes, minlength=len(groups))
    worse = _measure(taken, codes, groups, rule)
    compared = groups[groups["why"] == ""]
    tests = int(compared["n"].sum())
    groups = groups.join(limits(compared, max(tests, 1), rule))
    coarse = groups["grain"] > groups["scale"]  # rounded values: half a step is no deviation
    halves = np.where(groups["grain"] > rule.delta / 2, 2, 1)  # beyond that the median's own rounding counts too
    groups["limit"] += np.where(coarse, groups["grain"] / 2 * halves, 0.0)
    hits = np.flatnonzero(worse > groups["limit"].to_numpy()[codes])
    findings = list(_findings(taken.iloc[hits], groups.iloc[codes[hits]], worse[hits]))
    return Comparison(sorted(findings, key=lambda one: (-one.z, one.host, one.subject, one.about)), groups, tests)


def comparable(table: pd.DataFrame) -> pd.DataFrame:
    """The rows with a finite value that is better when it is higher or lower; usually all, and then not copied."""
    keep = table["better"].isin(["higher", "lower"]).to_numpy() & np.isfinite(table["value"].to_numpy(float))
    some: pd.DataFrame = table if keep.all() else table[keep]
    return some


def weight(devices: Whole) -> Whole:
    """The degrees of freedom for which the within-device spread counts in the pooled scale; the rest has n - 2."""
    return np.minimum(8 * devices, 1024)


def limits(spreads: pd.DataFrame, tests: int, rule: Rule = RULE) -> pd.DataFrame:
    """scale, k, basis ("pooled" or "between") and limit (a share) of each group, with the index of spreads.

    spreads: one row a group: cohort, n, between, rest and within (NaN: unknown) as `measure` gives them. The
    within-device spread is multiplied by the ratio of between to within over the other groups of the cohort, and pooled
    with the rest's scale; so a group's limit does not move when its worst device gets worse. Where that ratio does not
    hold for the group, or differs among the others by more than chance, the rest's scale stands alone, with its own k.
    """
    n = spreads["n"].to_numpy()
    c = critical(n, tests, rule.alpha)
    between = np.maximum(spreads["between"].to_numpy() / c.bias, rule.floor)
    rest = np.maximum(spreads["rest"].to_numpy() / c.rest, rule.floor)
    within = spreads["within"].to_numpy()
    level, uneven = _others(np.log(between / within), spreads["cohort"], c.uneven, rule)
    degrees = weight(n)
    pooled = np.sqrt(((n - 2) * rest**2 + degrees * (within * np.exp(level)) ** 2) / (n - 2 + degrees))
    odd = np.log(rest / within) - level
    smaller = (odd < c.low) & (c.between * rest < c.pooled * pooled)
    alone = np.isnan(within) | uneven | (odd > c.high) | smaller
    scale, k = np.where(alone, rest, pooled), np.where(alone, c.between, c.pooled)
    basis = np.where(alone, "between", "pooled")
    limit = np.maximum(rule.delta, k * scale)
    found: pd.DataFrame = pd.DataFrame({"scale": scale, "k": k, "basis": basis, "limit": limit}, index=spreads.index)
    return found


def _others(ratio: Array, cohort: pd.Series[str], allowed: Array, rule: Rule) -> tuple[Array, npt.NDArray[np.bool_]]:
    """The mean logarithmic ratio over the other groups of each group's cohort, and whether they differ too much.

    Of few others the mean is noisy: it then only raises the scale, never lowers it.
    """
    codes = pd.factorize(cohort)[0]
    known = np.isfinite(ratio)
    own = np.where(known, ratio, 0)
    count, total, squares = (np.bincount(codes, one)[codes] - one for one in (known * 1.0, own, own**2))
    mean = total / np.maximum(count, 1)
    variance = (squares - count * mean**2) / np.maximum(count - 1, 1)
    many = count + 1 >= rule.sharing
    return np.where(many, mean, np.maximum(mean, 0)), many & (variance > allowed)


def measure(worse: Array, cv: Array, count: Array, rule: Rule = RULE) -> tuple[Array, Array, Array]:
    """between (of all devices), rest (of all but the worst) and within, as `limits` takes them.

    worse, cv, count: groups of one size, arrays (groups, devices).
    """
    enough = np.where(count >= rule.readings, cv, np.nan)
    within = spread.within(enough, count, rule.floor)
    return spread.between(worse, rule.floor), spread.between(spread.rest(worse), rule.floor), within


def _measure(taken: pd.DataFrame, codes: Whole, groups: pd.DataFrame, rule: Rule) -> Array:
    """Fill median, between, rest, within and why of the groups; how much worse the rows are (NaN: not compared)."""
    value, cv = taken["value"].to_numpy(float), taken["cv"].to_numpy(float)
    count, sign = taken["count"].to_numpy(float), np.where(taken["better"].eq("lower"), 1.0, -1.0)
    worse, n = np.full(len(taken), np.nan), groups["n"].to_numpy()
    found, steps = np.full((4, len(groups)), np.nan), np.zeros(len(groups))
    order = np.argsort(codes, kind="stable")
    starts = np.cumsum(n) - n
    for size, which in _alike(n):
        rows = order[starts[which][:, None] + np.arange(size)]
        found[0, which], shares = spread.deviations(value[rows])
        good = found[0, which] > 0
        if size >= rule.fewest and good.any():
            rows, signed = rows[good], (shares * sign[rows])[good]
            found[1:, which[good]] = measure(signed, cv[rows], count[rows], rule)
            steps[which[good]] = spread.step(spread.rest(signed))
            worse[rows] = signed
    groups["median"], groups["between"], groups["rest"], groups["within"] = found
    groups["grain"] = steps
    few = [f"{size} devices: fewer than {rule.fewest} are not compared" for size in n]
    groups["why"] = np.where(n < rule.fewest, few, np.where(found[0] > 0, "", "the median is not positive"))
    return worse


def _alike(n: Whole) -> Iterator[tuple[int, Whole]]:
    """Groups of one size, so many at a time that their rows fit into a little memory."""
    for size in np.unique(n):
        which = np.flatnonzero(n == size)
        for start in range(0, len(which), step := max(1, ROWS // int(size))):
            yield int(size), which[start : start + step]


def _findings(rows: pd.DataFrame, groups: pd.DataFrame, shares: Array) -> Iterator[Peer]:
    texts = ("host", "subject", "rack", "power_domain", "cohort", "about", "step", "point", "unit")
    for row, group, share in zip(rows.to_dict("records"), groups.to_dict("records"), shares):
        yield Peer(
            **{name: str(row[name]) for name in texts},
            slot=int(row["slot"]),
            value=float(row["value"]),
            median=float(group["median"]),
            deviation=float(share),
            scale=float(group["scale"]),
            z=float(share / group["scale"]),
            k=float(group["k"]),
            n=int(group["n"]),
            why=_why(row, group, share),
        )


def _why(row: dict[Hashable, Any], group: dict[Hashable, Any], share: float) -> str:
    side = "below" if row["better"] == "higher" else "above"
    return (
        f"{share:.1%} {side} the median of {group['n']} devices ({group['median']:.6g} {row['unit']}); more than "
        f"{group['limit']:.1%} is no chance here ({group['k']:.2f} x {group['scale']:.2%}, {group['basis']})"
    )
