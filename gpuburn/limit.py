"""What is required: limits are data, keyed by probe.metric, each with the reason that it exists.

limits.yml holds ours; a site's stand in its inventory (gpuburn_limits*). The plan carries what applies, resolved.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from gpuburn import strict
from gpuburn.measurement import NOWHERE, Point
from gpuburn.strict import Refused

FILE = Path(__file__).parent / "limits.yml"


@dataclass(frozen=True, slots=True)
class When:
    """In which runs a limit applies; an empty list is no condition. step and point narrow it to a part of a run."""

    kinds: tuple[str, ...] = ()
    levels: tuple[str, ...] = ()
    profiles: tuple[str, ...] = ()
    environments: tuple[str, ...] = ()
    steps: tuple[str, ...] = ()
    point: Point = NOWHERE

    def applies(self, kind: str, level: str, environment: str, step: str) -> bool:
        asked = ((self.kinds, kind), (self.levels, level), (self.environments, environment), (self.steps, step))
        return all(not wanted or value in wanted for wanted, value in asked)


@dataclass(frozen=True, slots=True)
class Limit:
    """One demand on probe.metric or probe.fact.

    min, max: bounds of a measurement, in unit, both admitted; warn_below, warn_above: a pass near the edge.
    equals, agree: what a fact must be, or among whom it must be the same.
    informational: why this quantity is recorded and not judged; uncalibrated: it would be, if there were a number.
    source: limits.yml, site (the inventory) or contract; confidence: high may fail, medium may warn, low informs.
    """

    about: str
    unit: str = ""
    because: str = ""
    min: float | None = None
    max: float | None = None
    warn_below: float | None = None
    warn_above: float | None = None
    equals: str | None = None
    agree: Literal["", "host", "cohort"] = ""
    informational: str = ""
    uncalibrated: bool = False
    when: When = field(default_factory=When)
    source: Literal["limits.yml", "sku", "site", "contract"] = "limits.yml"
    confidence: Literal["high", "medium", "low"] = "high"

    def __post_init__(self) -> None:
        numeric = self.min is not None or self.max is not None
        demands = [numeric, self.equals is not None, bool(self.agree), bool(self.informational)]
        if sum(demands) != 1:
            raise Refused(f"{self.about}: a limit is one of min/max, equals, agree or informational")
        if self.uncalibrated and not self.informational:
            raise Refused(f"{self.about}: uncalibrated goes with informational, which says what number is missing")
        if not self.informational and not self.because.strip():
            raise Refused(f"{self.about}: a limit needs a reason ('because')")
        if numeric and not self.unit:
            raise Refused(f"{self.about}: a limit with min or max needs its unit")
        if self.min is not None and self.max is not None and self.min > self.max:
            raise Refused(f"{self.about}: min {self.min:g} is above max {self.max:g}")

    @property
    def numeric(self) -> bool:
        return self.min is not None or self.max is not None

    @property
    def can_reject(self) -> bool:
        return not self.informational and self.confidence == "high"

    def admits(self, value: float) -> bool:
        """Whether the value is within the bounds; NaN is admitted by nothing."""
        return (self.min is None or value >= self.min) and (self.max is None or value <= self.max) and value == value

    def marginal(self, value: float) -> bool:
        low = self.warn_below is not None and value < self.warn_below
        high = self.warn_above is not None and value > self.warn_above
        return low or high

    def __str__(self) -> str:
        if self.informational:
            return "recorded, not judged"
        if self.equals is not None:
            return f"= {self.equals}"
        if self.agree:
            return f"the same over the {self.agree}"
        low = "" if self.min is None else f"{self.min:g} <= "
        high = "" if self.max is None else f" <= {self.max:g}"
        return f"{low}x{high} {self.unit}"


@functools.cache
def load(path: Path = FILE) -> list[Limit]:
    """Read limits.yml: {probe.metric: [limit, ...]}. Unknown keys are refused: a typo is not 'no limit'."""
    document = strict.load_yaml(path)
    if not isinstance(document, dict):
        raise Refused(f"{path}: wanted is a mapping of probe.metric to a list of limits")
    found = []
    for about, many in document.items():
        if not isinstance(many, list) or not all(isinstance(one, dict) for one in many):
            raise Refused(f"{path}: {about}: wanted is a list of limits such as {{min: 1, unit: s, because: ...}}")
        found += [strict.build(Limit, {**one, "about": about}, f"{path.name}: {about}") for one in many]
    return found


def merge(limits: Iterable[Limit], site: Iterable[tuple[str, dict[str, Any]]]) -> list[Limit]:
    """Site numbers over ours. site: (variable, {probe.metric: fields}) pairs; one field set twice is refused.

    A site's limit replaces ours of that name, field by field, and may reject unless it says otherwise; a limit on a new
    point or step names it in 'when'.
    """
    chosen: dict[str, dict[str, Any]] = {}
    origin: dict[tuple[str, str], str] = {}
    for variable, entries in site:
        for about, fields in entries.items():
            if not isinstance(fields, dict):
                raise Refused(f"{variable}: {about}: wanted is a mapping such as {{min: 1, because: ...}}")
            for key, value in fields.items():
                if key != "because" and (about, key) in origin:
                    raise Refused(f"{variable}: {about}.{key} is already set by {origin[about, key]}")
                origin[about, key] = variable
                chosen.setdefault(about, {})[key] = value
    return [*(one for one in limits if one.about not in chosen), *_site(list(limits), chosen, origin)]


def _site(
    limits: list[Limit], chosen: dict[str, dict[str, Any]], origin: dict[tuple[str, str], str]
) -> Iterable[Limit]:
    for about, fields in chosen.items():
        where = f"{next(origin[key] for key in origin if key[0] == about)}: {about}"
        if not str(fields.get("because", "")).strip():
            raise Refused(f"{where}: a limit needs a reason ('because')")
        ours = [one for one in limits if one.about == about]
        if "unit" in fields or not ours:
            yield strict.build(Limit, {**fields, "about": about, "source": "site"}, where)
            continue
        for one in ours:
            kept = {} if one.informational or one.agree or one.equals is not None else strict.plain(one)
            unit = {"unit": one.unit} if one.unit else {}
            yield strict.build(
                Limit,
                {
                    **kept,
                    **unit,
                    "when": strict.plain(one.when),
                    "confidence": "high",
                    **fields,
                    "about": about,
                    "source": "site",
                },
                where,
            )


def narrowed(limit: Limit, step: str, profiles: Iterable[str]) -> Limit:
    """The limit as a plan carries it: bound to one step and to the profiles that both limit and step serve."""
    served = tuple(p for p in profiles if not limit.when.profiles or p in limit.when.profiles)
    return dataclasses.replace(limit, when=When(steps=(step,), profiles=served, point=limit.when.point))
