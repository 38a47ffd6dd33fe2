"""Where a fleet is slow as a whole: the cohort itself, a rack, a power domain, a slot of the chassis. Information.

A place that is off explains the peer findings in it: the device is then not the first thing to look at.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd

from gpuburn.controller.fleet import critical, spread
from gpuburn.controller.fleet.peers import GROUP, RULE, Array, Peer, Rule, comparable

PLACES = ("rack", "power_domain", "slot")
FEWEST = 4  # devices in a place
EFFICIENCY = float(np.sqrt(np.pi / 2))  # times sd / sqrt(n) is the standard error of a median


@dataclass(frozen=True, slots=True)
class Place:
    """One place that is off. kind: "majority", "rack", "power_domain" or "slot"; deviation: a share, worse positive.

    median: of the place; rest: of the other places of the cohort, for a majority the reference. n: devices in it.
    """

    kind: str
    name: str
    cohort: str
    about: str
    step: str
    point: str
    median: float
    rest: float
    deviation: float
    n: int
    why: str


def majority(table: pd.DataFrame, references: pd.DataFrame, delta: float = RULE.delta) -> list[Place]:
    """The cohorts whose median itself is worse than a reference by more than delta (a share): uniformly slow.

    table: tidy measurements; references: about, reference (positive, in the unit of the table), and cohort, step or
    point where the number differs by them. What has no reference is not judged.
    """
    taken = _compared(table)
    groups = taken.groupby([*GROUP, "better"], observed=True)["value"].agg(["median", "size"]).reset_index()
    keys = [key for key in GROUP if key in references]
    joined = groups.astype({key: str for key in keys}).merge(references, on=keys, validate="many_to_one")
    found = []
    for row in joined.sort_values(GROUP).to_dict("records"):
        median, reference, n = float(row["median"]), float(row["reference"]), int(row["size"])
        lost = (median / reference - 1) * (-1 if row["better"] == "higher" else 1)
        if lost > delta:
            why = (
                f"the median of all {n} devices is {lost:.1%} worse than the reference {reference:.6g}: the cohort "
                "as a whole is slow, and peers cannot show it"
            )
            texts = {name: str(row[name]) for name in GROUP}
            place = Place("majority", str(row["cohort"]), **texts, median=median, rest=reference, deviation=lost, n=n,
                          why=why)  # fmt: skip
            found.append(place)
    return found


def places(table: pd.DataFrame, rule: Rule = RULE) -> list[Place]:
    """Racks, power domains and slots whose median is worse than the rest's by more than delta and more than chance.

    table: tidy measurements. A power domain is named where all of its two or more racks are off, and its racks are
    then not named again, or where it is off without its racks being known. At least 4 devices in and outside.
    """
    taken = _compared(table)
    groups = _groups(taken)
    levels = {kind: _level(taken, groups, kind) for kind in PLACES}
    tests = max(1, sum(len(level) for level in levels.values()))
    k = critical.tail(tests, rule.alpha)
    off = {
        kind: level[level["deviation"] > np.maximum(rule.delta, k * level["error"])] for kind, level in levels.items()
    }
    racks, domains = _nested(taken, off["rack"], off["power_domain"])
    found = [*_named("rack", racks), *_named("power_domain", domains), *_named("slot", off["slot"])]
    return sorted(found, key=lambda one: (one.cohort, one.about, one.step, one.point, one.kind, one.name))


def explain(findings: Iterable[Peer], found: Sequence[Place]) -> list[Peer]:
    """The peer findings, each with the place that explains it, if its rack, power domain or slot is off."""
    known = {(one.cohort, one.about, one.step, one.point, one.kind, one.name) for one in found}
    explained = []
    for peer in findings:
        for kind in PLACES:
            name = str(getattr(peer, kind))
            if (peer.cohort, peer.about, peer.step, peer.point, kind, name) in known:
                words = f"the whole {kind.replace('_', ' ')} {name} is off"
                peer = dataclasses.replace(peer, explained=words)
                break
        explained.append(peer)
    return explained


def residuals(values: pd.DataFrame, rounds: int = 10) -> pd.DataFrame:
    """What remains of a hosts x slots table of one measurement after median polish (Tukey 1977), as shares.

    For drill-down, never a verdict. values: any unit, positive median; NaN where a device is missing.
    """
    left = values.to_numpy(float) / np.nanmedian(values.to_numpy(float)) - 1
    for _ in range(rounds):
        left = left - np.nanmedian(left, axis=1, keepdims=True)
        left = left - np.nanmedian(left, axis=0, keepdims=True)
    found: pd.DataFrame = pd.DataFrame(left, index=values.index, columns=values.columns)
    return found


def _compared(table: pd.DataFrame) -> pd.DataFrame:
    """The rows that can be compared, with `worse`: the share by which each is worse than its group's median."""
    taken = comparable(table)
    median = taken.groupby(GROUP, observed=True)["value"].transform("median")
    taken = taken[(median > 0).to_numpy()]
    sign = np.where(taken["better"].eq("lower"), 1.0, -1.0)
    shares = (taken["value"] / median[median > 0] - 1) * sign
    compared: pd.DataFrame = taken.assign(worse=shares)
    return compared


def _groups(taken: pd.DataFrame) -> list[npt.NDArray[np.intp]]:
    """The rows of each cohort, step, about and point."""
    codes = taken.groupby(GROUP, observed=True, sort=False).ngroup().to_numpy()
    codes = codes.astype(np.min_scalar_type(len(codes) and int(codes.max())))  # a stable sort of small numbers is quick
    order = np.argsort(codes, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(codes[order])) + 1)


def _level(taken: pd.DataFrame, groups: list[npt.NDArray[np.intp]], kind: str) -> pd.DataFrame:
    """One row per group and place: name, n, median and rest (values), deviation and its standard error (shares)."""
    codes, names = pd.factorize(taken[kind])
    known = np.array([name >= 0 if kind == "slot" else name != "" for name in names], bool)[codes]
    worse, value = taken["worse"].to_numpy(float), taken["value"].to_numpy(float)
    lower = taken["better"].eq("lower").to_numpy()
    found, keys = [pd.DataFrame(columns=["name", "n", "median", "rest", "deviation", "error"])], []
    for rows in groups:
        rows = rows if known[rows].all() else rows[known[rows]]
        mine, there = pd.factorize(codes[rows])
        if len(there) > 1:
            level = _against_rest(worse[rows], value[rows], mine, 1.0 if lower[rows[0]] else -1.0)
            found.append(level.assign(name=[str(name) for name in names[there]]))
            keys += [rows[0]] * len(level)
    level = pd.concat(found[1:] or found, ignore_index=True)
    level[GROUP] = taken[GROUP].iloc[keys].astype(str).to_numpy()
    large: pd.DataFrame = level[level["n"] >= FEWEST]
    return large


def _against_rest(worse: Array, value: Array, codes: npt.NDArray[np.intp], sign: float) -> pd.DataFrame:
    """Each place against the median of the other places' medians, which a bad place among them hardly moves.

    sign: 1 where lower is better, -1 where higher is.
    """
    by = pd.DataFrame({"worse": worse, "value": value}).groupby(codes)
    n, medians = by["value"].size().to_numpy(), by.median()
    inner = worse - medians["worse"].to_numpy()[codes]
    scale = spread.between(inner[None, :])[0] * np.sqrt(len(inner) / max(1, len(inner) - len(n)))
    median = medians["value"].to_numpy()
    rest = _others(median)
    error = EFFICIENCY * scale * np.sqrt(1 / n + EFFICIENCY**2 / (len(inner) - n))
    found = {"n": n, "median": median, "rest": rest, "deviation": sign * (median / rest - 1), "error": error}
    level: pd.DataFrame = pd.DataFrame(found)
    return level


def _others(values: Array) -> Array:
    """For each value the median of all the others; at least two values."""
    order = np.argsort(values, kind="stable")
    rank, ordered = np.argsort(order), values[order]
    low, high = (len(values) - 2) // 2, (len(values) - 1) // 2
    return np.asarray((ordered[low + (low >= rank)] + ordered[high + (high >= rank)]) / 2)


def _nested(taken: pd.DataFrame, racks: pd.DataFrame, domains: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Racks without those of a domain that is off as a whole; domains without those that one rack alone drags down."""
    where = taken[["rack", "power_domain"]].astype(str).drop_duplicates()
    inside = where[(where["rack"] != "") & (where["power_domain"] != "")].groupby("power_domain")["rack"].agg(set)
    bad = racks.groupby(GROUP)["name"].agg(set).to_dict() if len(racks) else {}
    whole: list[Hashable] = []
    taken_over: set[tuple[str, ...]] = set()
    for i, row in domains.iterrows():
        key = tuple(row[GROUP])
        members, off = inside.get(row["name"], set()), bad.get(key, set())
        if len(members) != 1 and (members <= off or not members & off):
            whole.append(i)
            taken_over |= {(*key, rack) for rack in members}
    left = [tuple(row) not in taken_over for row in racks[[*GROUP, "name"]].itertuples(index=False)]
    return racks[np.array(left, bool)], domains.loc[whole]


def _named(kind: str, off: pd.DataFrame) -> Iterator[Place]:
    for row in off.to_dict("records"):
        lost, n, rest = float(row["deviation"]), int(row["n"]), float(row["rest"])
        what = f"{kind.replace('_', ' ')} {row['name']}"
        why = f"the median of {n} devices of {what} is {lost:.1%} worse than the rest ({rest:.6g})"
        texts = {name: str(row[name]) for name in ("name", *GROUP)}
        yield Place(kind, **texts, median=float(row["median"]), rest=rest, deviation=lost, n=n, why=why)
