"""A site's numbers over ours: where a site speaks, its limit stands instead of ours, and only there. Pure.

A site that demands less than we do may: its limit then says what ours was, and the policy makes the pass conditional.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import Any

from gpuburn import strict
from gpuburn.limit import Limit, as_tight
from gpuburn.measurement import Metric, Observed, Point
from gpuburn.strict import Refused

SITES = ("site", "contract")  # whose a limit can be that stands over ours
OTHER = {"min", "max", "equals", "agree", "informational"}  # fields that are another demand than a share

OURS = {"missed", "loosened", "reference", "uncalibrated"}  # what a limit of ours says of itself
SHARES = {"fail_below", "fail_above"}


def merge(limits: Iterable[Limit], site: Iterable[tuple[str, dict[str, Any]]]) -> list[Limit]:
    """Ours, and a site's after them. site: (variable, {probe.metric: fields}) pairs; one field set twice is refused.

    A site's limit takes what it does not say from ours of that name, and may reject unless it says otherwise; a limit
    on a new point or step names it in 'when'.
    """
    ours = list(limits)
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
    theirs = [
        one
        for about, fields in chosen.items()
        for one in _site(ours, about, fields, f"{next(origin[key] for key in origin if key[0] == about)}: {about}")
    ]
    return [*ours, *theirs]


def _site(limits: list[Limit], about: str, fields: dict[str, Any], where: str) -> list[Limit]:
    if not str(fields.get("because", "")).strip():
        raise Refused(f"{where}: a limit needs a reason ('because')")
    if kept := OURS & set(fields):
        raise Refused(
            f"{where}: {min(kept)} is gpuburn's own to say; wanted are min, max, shares, equals, informational"
        )
    fields = {**fields, "about": about, "source": "contract" if fields.get("source") == "contract" else "site"}
    ours = _of_step([one for one in limits if one.about == about], about.partition(".")[0], fields)
    if SHARES & set(fields) and "of" not in fields:  # other shares of what ours is a share of
        ours = [one for one in ours if one.of]
    if "unit" in fields or not ours:
        return [strict.build(Limit, fields, where)]
    found = []
    for one in ours:
        bounded = (one.numeric and "informational" not in fields) or (one.of and not OTHER & set(fields))
        kept = strict.plain(one) if bounded else {}
        unit = {"unit": one.unit} if one.unit else {}
        settled = {**kept, **unit, "when": strict.plain(one.when), "confidence": "high", **fields}
        found.append(strict.build(Limit, settled, where))
    return list(dict.fromkeys(found))


def _of_step(ours: list[Limit], probe: str, fields: dict[str, Any]) -> list[Limit]:
    """Those of ours that a site speaks of: where it names none of a probe's steps, that of the probe's name."""
    own = any(probe in one.when.steps for one in ours)
    if not own or (isinstance(fields.get("when"), dict) and fields["when"].get("steps")):
        return ours
    return [one for one in ours if not one.when.steps or probe in one.when.steps]


def main_step(limit: Limit, promised: Metric | Observed, steps: Iterable[str]) -> Limit:
    """A site's number for a speed, bound to the step that bears the probe's name, unless it names others: where a probe
    runs in several steps, of other number formats or sizes, one floor is not meant for all. Ours stay in those."""
    probe = limit.about.partition(".")[0]
    speed = isinstance(promised, Metric) and promised.better
    if limit.source not in SITES or limit.when.steps or not speed or probe not in steps:
        return limit
    return dataclasses.replace(limit, when=dataclasses.replace(limit.when, steps=(probe,)))


def over(bound: list[Limit], points: list[Point]) -> list[Limit]:
    """The limits on one promise of one step, ours and a site's: ours stay where no limit of the site speaks.

    Ours stays beside a site's, too, where ours is a share of a reference and the site's a number of its own: the
    warning near the edge, the demand to repeat itself and the comparison of the cohort with the reference are kept.
    """
    site = [one for one in bound if one.source in SITES]
    kept: list[Limit] = []
    for ours in (one for one in bound if one.source not in SITES):
        mine = [point for point in points if ours.when.point.includes(point)]
        free = [point for point in mine if not any(_replaces(one, ours, point) for one in site)]
        kept += [ours] if len(free) == len(mine) else [_at(ours, point) for point in free]
    return [*kept, *(_told(one, bound, points) for one in site)]


def _replaces(one: Limit, ours: Limit, point: Point) -> bool:
    same = one.when.point.includes(point) and set(ours.when.profiles) <= set(one.when.profiles)
    return same and (_share(one) == _share(ours) or bool(one.informational or ours.informational))


def _share(one: Limit) -> str:
    """What the limit is a share of; empty for a number of its own."""
    return one.of or (one.reference.name if one.reference else "")


def _at(limit: Limit, point: Point) -> Limit:
    return dataclasses.replace(limit, when=dataclasses.replace(limit.when, point=point))


def _told(one: Limit, bound: list[Limit], points: list[Point]) -> Limit:
    """A site's limit, with what it stands instead of where that was more."""
    ours = [
        other
        for other in bound
        if other.source not in SITES
        and any(_replaces(one, other, point) for point in points if other.when.point.includes(point))
    ]
    if one.informational and any(other.uncalibrated for other in ours):
        one = dataclasses.replace(one, uncalibrated=True)
    if not one.informational and not one.can_reject and any(other.uncalibrated for other in ours):
        return dataclasses.replace(one, loosened="a number that may reject")
    more = next((str(other) for other in ours if not other.informational and not as_tight(one, other)), "")
    return dataclasses.replace(one, loosened=more)
