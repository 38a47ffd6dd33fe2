"""What is required: limits are data, keyed by probe.metric, each with the reason that it exists.

limits.yml holds ours; a site's stand in its inventory (gpuburn_limits*). The plan carries what applies, resolved.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

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
class Reference:
    """The number that a limit is a share of: what it is called, its value in the limit's unit, where it comes from."""

    name: str
    value: float
    source: str
    method: str = ""

    def __post_init__(self) -> None:
        if not self.value > 0:
            raise Refused(f"{self.name}: a reference of {self.value:g}; wanted is a number above 0")


@dataclass(frozen=True, slots=True)
class Limit:
    """One demand on probe.metric or probe.fact.

    min, max: bounds of a measurement, in unit, both admitted; warn_below, warn_above: a pass near the edge.
    of: the same as shares (fail_below, fail_above, warn_below, warn_above) of another number: sku.<name> of the
        inventory's SKU (measured by `method`), baseline, or a probe.metric of the same subject and result.
    equals, agree: what a fact must be, or among whom it must be the same (cohort: also over the host's own devices).
    informational: why this quantity is recorded and not judged; uncalibrated: it would be, if there were a number.
    reference: the number that the bounds were made from. action: what to do where it is missed.
    loosened: what gpuburn itself demands, where a site demands less. missed: what a value outside the bounds leads to;
    incomplete where it speaks of our own watching and not of the hardware.
    built: the part of the ordered SKU that this is told of: a device that does not tell it is not excused.
    source: limits.yml, sku, baseline, site (the inventory) or contract; confidence: high may fail, medium may warn, low
    informs.
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
    source: Literal["limits.yml", "sku", "baseline", "site", "contract"] = "limits.yml"
    confidence: Literal["high", "medium", "low"] = "high"
    of: str = ""
    method: str = ""
    fail_below: float | None = None
    fail_above: float | None = None
    reference: Reference | None = None
    action: str = ""
    loosened: str = ""
    missed: Literal["fail", "incomplete"] = "fail"
    built: str = ""

    def __post_init__(self) -> None:
        demands = [self.numeric, bool(self.of), self.equals is not None, bool(self.agree), bool(self.informational)]
        if sum(demands) != 1:
            raise Refused(f"{self.about}: a limit is one of min/max, of, equals, agree or informational")
        if self.of:
            self._check_shares()
        elif self.fail_below is not None or self.fail_above is not None or self.method:
            raise Refused(f"{self.about}: fail_below, fail_above and method go with 'of', which says of what")
        if self.uncalibrated and not self.informational:
            raise Refused(f"{self.about}: uncalibrated goes with informational, which says what number is missing")
        if not self.informational and not self.because.strip():
            raise Refused(f"{self.about}: a limit needs a reason ('because')")
        if (self.numeric or self.of) and not self.unit:
            raise Refused(f"{self.about}: a limit with min, max or of needs its unit")
        if self.min is not None and self.max is not None and self.min > self.max:
            raise Refused(f"{self.about}: min {self.min:g} is above max {self.max:g}")

    def _check_shares(self) -> None:
        shares = (self.fail_below, self.warn_below, self.warn_above, self.fail_above)
        given = [one for one in shares if one is not None]
        if self.of == self.about:
            raise Refused(f"{self.about}: 'of' is the quantity itself; wanted is another number")
        if not given:
            raise Refused(f"{self.about}: 'of' needs fail_below, fail_above, warn_below or warn_above: a share of it")
        if min(given) <= 0 or given != sorted(given):
            raise Refused(f"{self.about}: shares are above 0, fail_below <= warn_below <= warn_above <= fail_above")

    @property
    def numeric(self) -> bool:
        bounds = (self.min, self.max, *(() if self.of else (self.warn_below, self.warn_above)))
        return any(one is not None for one in bounds)

    @property
    def can_reject(self) -> bool:
        """Whether a value can make a host fail: a demand of high confidence that has more than a warning."""
        bounds = (self.min, self.max, self.fail_below, self.fail_above)
        demanding = any(one is not None for one in bounds) or self.equals is not None or bool(self.agree)
        return demanding and self.confidence == "high" and self.missed == "fail"

    @property
    def tolerance(self) -> float | None:
        """How far from its reference a value may be, as a share of it; None where the limit knows no reference."""
        if self.reference is None:
            return None
        bound = next((one for one in (self.min, self.max, self.warn_below, self.warn_above) if one is not None), None)
        return None if bound is None else abs(1 - bound / self.reference.value)

    def resolved(self, reference: Reference) -> Limit:
        """The same demand in numbers: every share times the reference."""
        return dataclasses.replace(
            self, of="", method="", fail_below=None, fail_above=None, reference=reference,
            min=_share(self.fail_below, reference), max=_share(self.fail_above, reference),
            warn_below=_share(self.warn_below, reference), warn_above=_share(self.warn_above, reference),
        )  # fmt: skip

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
        below, above = (self.fail_below, self.fail_above) if self.of else (self.min, self.max)
        if below is None and above is None:
            below, above = self.warn_below, self.warn_above
        low = "" if below is None else f"{below:.6g} <= "
        high = "" if above is None else f" <= {above:.6g}"
        return f"{low}x / {self.of}{high}" if self.of else f"{low}x{high} {self.unit}"


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


def as_tight(one: Limit, before: Limit) -> bool:
    """Whether a limit demands at least what `before` demands, of the same quantity at the same point."""
    if one.informational or one.unit != before.unit or (before.can_reject and not one.can_reject):
        return before.informational != ""
    if before.informational:
        return True
    if before.equals is not None or before.agree:
        return _same_fact(one, before)
    if one.of != before.of:
        return False
    lows = ((one.min, before.min), (one.fail_below, before.fail_below), (_nearest(one, max), before.warn_below))
    highs = ((one.max, before.max), (one.fail_above, before.fail_above), (_nearest(one, min), before.warn_above))
    return all(was is None or (has is not None and has >= was) for has, was in lows) and all(
        was is None or (has is not None and has <= was) for has, was in highs
    )


def _nearest(one: Limit, pick: Callable[..., float]) -> float | None:
    """Where a limit begins to warn, at the latest where it fails: low with max, high with min."""
    low = (one.warn_below, one.min, one.fail_below)
    high = (one.warn_above, one.max, one.fail_above)
    given = [bound for bound in (low if pick is max else high) if bound is not None]
    return pick(given) if given else None


def _same_fact(one: Limit, before: Limit) -> bool:
    if before.equals is not None:
        return one.equals == before.equals
    return one.equals is not None or one.agree == before.agree or (before.agree, one.agree) == ("host", "cohort")


def _share(share: float | None, reference: Reference) -> float | None:
    return None if share is None else share * reference.value


def narrowed(limit: Limit, step: str, profiles: Iterable[str]) -> Limit:
    """The limit as a plan carries it: bound to one step and to the profiles that both limit and step serve."""
    served = tuple(p for p in profiles if not limit.when.profiles or p in limit.when.profiles)
    return dataclasses.replace(limit, when=When(steps=(step,), profiles=served, point=limit.when.point))
