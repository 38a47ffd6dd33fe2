"""Whether a limit speaks of something that exists: a typo in a name would silently be no limit. Pure."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import get_args

from gpuburn import profile
from gpuburn.limit import Limit
from gpuburn.measurement import Metric, Observed, Point
from gpuburn.plan import LEVELS, Environment, Kind, Level, fits
from gpuburn.probe import Probe, discover
from gpuburn.strict import Refused, known
from gpuburn.telemetry import TELEMETRY


def promise(about: str) -> Metric | Observed:
    """What a probe declares under this full name, which check() has found."""
    name, _, metric = about.partition(".")
    return {**discover(), TELEMETRY.name: TELEMETRY}[name].promises[metric]


def check(limit: Limit, conditions: dict[str, Iterable[str]]) -> None:
    """Refuse a limit on what no probe declares, at a point that no step has, or under a condition never met."""
    name, _, metric = limit.about.partition(".")
    probes: dict[str, Probe] = {**discover(), TELEMETRY.name: TELEMETRY}
    known(name, probes, f"limit {limit.about}: probe")
    probe = probes[name]
    known(metric, [*probe.metrics, *probe.facts], f"limit {limit.about}: metric or fact of {name}")
    fits(limit, probe, f"limit {limit.about}")
    for key, _ in limit.when.point.items:
        known(key, probe.promises[metric].at, f"limit {limit.about}: when.point")
    if limit.when.point.items and not any(limit.when.point.includes(one) for one in _anywhere(name, metric)):
        raise Refused(f"limit {limit.about}: when.point '{limit.when.point}': no step of any level has this point")
    for key, choices in conditions.items():
        for value in getattr(limit.when, key):
            known(value, choices, f"limit {limit.about}: when.{key}")


@functools.cache
def _anywhere(probe: str, promise: str) -> frozenset[Point]:
    """Every point at which any step, at any level and in any kind of run, takes this metric or fact."""
    declared = {**discover(), TELEMETRY.name: TELEMETRY}[probe]
    steps = [step for name in profile.names() for step in profile.load(name).steps if step.probe == probe]
    sizes = [profile.sized(step, level, kind) for step in steps for level in LEVELS for kind in get_args(Kind)]
    settled = [declared.settled(size.params, probe) for size in sizes]
    return frozenset(point for params in settled for point in declared.points(declared.promises[promise], params))


def conditions() -> dict[str, Iterable[str]]:
    """The names that a limit's `when` may use; another one would silently switch the limit off."""
    profiles = profile.names()
    steps = {step.name for one in profiles for step in profile.load(one).steps}
    return {
        "kinds": get_args(Kind), "levels": get_args(Level), "environments": get_args(Environment),
        "profiles": profiles, "steps": steps,
    }  # fmt: skip
