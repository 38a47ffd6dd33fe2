"""What was measured: readings are taken, facts are observed, work is counted, and measurements remain.

Stops before judgement: whether a value is good is said by a limit and the verdict.
"""

from __future__ import annotations

import math
import re
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Union

from gpuburn import percentile
from gpuburn.strict import Refused

Part = Literal["", "ecc", "sram", "rows", "hbm", "nvlink", "nvlink_crc", "fabric", "pcie"]
Scalar = Union[str, int, float]  # noqa: UP007  (evaluated at run time, also on Python 3.10)
UNITS = ("TFLOP/s", "GB/s", "GiB", "W", "J", "C", "C/W", "MHz", "s", "ms", "token/s", "1", "count", "%")
UNTOLD = ("unknown: ", "none: ")  # how a fact begins that says why there is nothing to say
PERCENTILE = re.compile(r"p(?!00)(\d{2})(\d*)")


@dataclass(frozen=True, slots=True, order=True)
class Point:
    """Where on a sweep something was taken: sorted (key, value) pairs; empty when there is no sweep."""

    items: tuple[tuple[str, Scalar], ...] = ()

    @classmethod
    def of(cls, **values: Scalar) -> Point:
        return cls(tuple(sorted(values.items())))

    @classmethod
    def from_data(cls, data: Any, where: str) -> Point:
        if not isinstance(data, dict) or not all(type(v) in (str, int, float) for v in data.values()):
            raise Refused(f"{where}: a point is an object of strings and numbers, not {data!r}")
        return cls.of(**data)

    @staticmethod
    def json_schema() -> dict[str, Any]:
        return {"type": "object", "additionalProperties": {"type": ["string", "number"]}}

    def as_data(self) -> dict[str, Scalar]:
        return dict(self.items)

    def includes(self, other: Point) -> bool:
        """Whether every pair of this point is a pair of the other: an empty point includes them all."""
        return set(self.items) <= set(other.items)

    def __str__(self) -> str:
        return " ".join(f"{key}={value}" for key, value in self.items)


NOWHERE = Point()


@dataclass(frozen=True, slots=True)
class Metric:
    """The promise of a number: unit, how many readings become one value, and at which points it is taken.

    per: whom it is about ("" = the step's scope decides, "host", "device", "pair": each ordered pair of devices).
    at: point key -> the list parameter of the probe that gives its values; so the plan knows every point.
    kinds: the kinds of run in which it is promised (a CPU rehearsal has no GPU sensors).
    better: "higher" or "lower" for a number that devices, runs and vendors are compared by; "" for all others.
    unless: the fact of the same probe that stands in for this number where there is none: "none: why" (no such part)
        or "unknown: why" (a part that could not be asked).
    counter: what a number counts that a machine keeps from its start on: "errors" or "corrected" ones (health.py).
    absent: why a sound device may have none; "" where each has one.
    part: what it is told of; a device whose SKU is built with that part must tell it (resolve.PARTS).
    """

    unit: str
    reduce: str = "median"
    doc: str = ""
    per: str = ""
    at: dict[str, str] = field(default_factory=dict)
    kinds: tuple[str, ...] = ("hardware", "rehearsal", "simulated")
    better: Literal["", "higher", "lower"] = ""
    unless: str = ""
    counter: Literal["", "errors", "corrected"] = ""
    absent: str = ""
    part: Part = ""

    def __post_init__(self) -> None:
        if self.unit not in UNITS:
            raise Refused(f"unit {self.unit!r} is not one of {', '.join(UNITS)}")
        if self.reduce not in REDUCE and not PERCENTILE.fullmatch(self.reduce):
            raise Refused(f"reduce={self.reduce!r} is not one of {', '.join(REDUCE)} or a percentile such as p99")


@dataclass(frozen=True, slots=True)
class Observed:
    """The promise of a fact: one string per subject and point, judged by equality.

    absent, part: as of a metric. explains: the fact is a list (absences) of what its probe could not read, and why.
    fixed: it is the same before and after the work, where a probe is planned twice (health.py): what a "part" says of
        itself, or the "result" of the same computation.
    """

    doc: str = ""
    per: str = ""
    at: dict[str, str] = field(default_factory=dict)
    kinds: tuple[str, ...] = ("hardware", "rehearsal", "simulated")
    absent: str = ""
    explains: bool = False
    fixed: Literal["", "part", "result"] = ""
    part: Part = ""


@dataclass(frozen=True, slots=True)
class Reading:
    """One finite number, of one subject, at one moment (unix seconds). A failed request ranks as infinite."""

    metric: str
    value: float
    point: Point = NOWHERE
    subject: str = ""
    at: float = 0.0
    failed: str = ""

    def __post_init__(self) -> None:
        if not math.isfinite(self.value):
            raise Refused(f"{self.metric} read {self.value}; a reading is a finite number")

    @property
    def rank(self) -> float:
        return math.inf if self.failed else self.value


@dataclass(frozen=True, slots=True)
class Fact:
    """One string observed."""

    name: str
    value: str
    point: Point = NOWHERE
    subject: str = ""


NOTHING = "nothing"


def absences(reasons: Mapping[str, str]) -> str:
    """What could not be read and why, as one fact: "name: why; name: why", or "nothing"."""
    told = (f"{name}: {why.replace(';', ',')}" for name, why in sorted(reasons.items()))
    return "; ".join(told) or NOTHING


def reasons(absent: str) -> dict[str, str]:
    """The same as names and reasons, of whatever a host says."""
    parts = (one.partition(": ") for one in absent.split("; "))
    return {name: why for name, colon, why in parts if colon}


@dataclass(frozen=True, slots=True)
class Work:
    """Proof that a subject worked: what it did since the last entry."""

    iterations: int = 0
    bytes: int = 0
    joules: float = 0.0
    subject: str = ""

    def __post_init__(self) -> None:
        if not math.isfinite(self.joules):
            raise Refused(f"work of {self.joules} J; energy is a finite number")

    def __add__(self, other: Work) -> Work:
        return Work(
            self.iterations + other.iterations,
            self.bytes + other.bytes,
            round(self.joules + other.joules, 6),
            self.subject or other.subject,
        )


@dataclass(frozen=True, slots=True)
class Measurement:
    """One value per metric, subject and point, with the range that it was drawn from.

    count is of independent units: readings, requests or engine steps, never tokens that share a step.
    cv: coefficient of variation of the readings of this subject (sd over mean), where their median is the value: how
    well the device repeats itself. None: fewer than two readings, or another reduction.
    """

    name: str
    unit: str
    subject: str
    point: Point
    value: float
    low: float
    high: float
    count: int
    cv: float | None = None


def variation(values: Sequence[float]) -> float | None:
    """Sample standard deviation over mean, a ratio; None for fewer than two values or a mean of zero.

    Only IEEE sums and one square root, so that host and controller get the same bits.
    """
    scale = max((abs(value) for value in values), default=0.0)
    mean = math.fsum(value / scale for value in values) / len(values) if scale else 0.0
    if len(values) < 2 or mean == 0:
        return None
    squares = math.fsum((value / scale / mean - 1) ** 2 for value in values)
    found = math.sqrt(squares / (len(values) - 1))
    return found if math.isfinite(found) else None


def _delta(readings: Sequence[Reading]) -> float:
    return readings[-1].rank - readings[0].rank


def _rate(readings: Sequence[Reading]) -> float:
    elapsed = readings[-1].at - readings[0].at
    return _delta(readings) / elapsed if elapsed > 0 else math.nan


def _trend(readings: Sequence[Reading]) -> float:
    """Total Theil-Sen change over the readings: median slope of all pairs, times the time that they span."""
    pairs = [
        (b.rank - a.rank) / (b.at - a.at) for i, a in enumerate(readings) for b in readings[i + 1 :] if b.at > a.at
    ]
    if not pairs or any(math.isnan(slope) for slope in pairs):  # between two failures there is no slope
        return math.nan
    return statistics.median(pairs) * (readings[-1].at - readings[0].at)


REDUCE: dict[str, Any] = {
    "median": lambda taken: statistics.median(r.rank for r in taken),
    "min": lambda taken: min(r.rank for r in taken),
    "max": lambda taken: max(r.rank for r in taken),
    "sum": lambda taken: sum(r.rank for r in taken),
    "last": lambda taken: taken[-1].rank,
    "delta": _delta,
    "rate": _rate,
    "trend": _trend,
}


def reduce(how: str, taken: Sequence[Reading]) -> float | None:
    """The one value of many readings in time order; None where this many cannot prove it."""
    match = PERCENTILE.fullmatch(how)
    if match:
        quantile = float(f"0.{match[1]}{match[2]}")
        value = percentile.bound([r.rank for r in taken], quantile)
    else:
        value = REDUCE[how](taken)
    return value if value is not None and math.isfinite(value) else None


def measure(probe: str, metrics: dict[str, Metric], readings: Iterable[Reading]) -> list[Measurement]:
    """Reduce readings to one measurement per metric, subject and point. No reading, no measurement."""
    taken: dict[tuple[str, str, Point], list[Reading]] = {}
    for reading in readings:
        taken.setdefault((reading.metric, reading.subject, reading.point), []).append(reading)
    found = []
    for (name, subject, point), many in sorted(taken.items(), key=lambda item: (item[0][:2], str(item[0][2]))):
        value = reduce(metrics[name].reduce, sorted(many, key=lambda r: r.at))
        if value is None:
            continue
        finite = [r.value for r in many if not r.failed]
        cv = variation(finite) if metrics[name].reduce == "median" else None
        full = f"{probe}.{name}"
        found.append(
            Measurement(full, metrics[name].unit, subject, point, value, min(finite), max(finite), len(many), cv)
        )
    return found
