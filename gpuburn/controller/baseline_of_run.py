"""A run becomes a baseline: the devices of its hosts that passed, one entry per compared quantity."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase

from gpuburn import plan as plans
from gpuburn.baseline import SCHEMA, Baseline, Entry
from gpuburn.controller.account import Account, verdict
from gpuburn.controller.baselines import VERSIONS
from gpuburn.controller.judged import Judged
from gpuburn.controller.run import Run
from gpuburn.controller.series import Series, What
from gpuburn.controller.waived import SERIALS
from gpuburn.finding import Verdict
from gpuburn.measurement import Point
from gpuburn.plan import Step
from gpuburn.probe import discover
from gpuburn.strict import Refused

NORMAL = 1.4826  # of a median absolute deviation, so that it is the standard deviation of normal values
SAME = ("kind", "sku", "level", "count")  # of the hosts of one baseline


def made(run: Run, accounts: list[Account], name: str, hosts: str, now: float) -> tuple[Baseline, dict[str, str]]:
    """The baseline of a run's hosts that match and passed, and why the others are left out."""
    matching = [one for one in accounts if fnmatchcase(one.expected.host, hosts)]
    if not matching:
        raise Refused(f"run {run.id}: no host matches --hosts {hosts!r}")
    why = {one.expected.host: _unfit(one) for one in matching}
    fit = sorted((one for one in matching if not why[one.expected.host]), key=lambda one: one.expected.host)
    if not fit:
        raise Refused(f"run {run.id}: no host passed, and a baseline is made of hosts that passed; {_first(why)}")
    for field in SAME:
        mixed = sorted({str(getattr(one.expected, field)) for one in fit})
        if len(mixed) > 1:
            raise Refused(
                f"run {run.id}: {field} is {' and '.join(mixed)}; one baseline for each: choose hosts with --hosts"
            )
    expected, judged = fit[0].expected, [one.judged for one in fit if one.judged]
    steps = _steps(fit)
    return Baseline(
        SCHEMA, name, run.id, expected.sku, expected.kind, expected.level, now, entries(judged, steps), expected.count,
        [one.expected.host for one in fit], versions(judged), list(steps.values()), serials(judged),
    ), {host: reason for host, reason in why.items() if reason}  # fmt: skip


def _unfit(one: Account) -> str:
    if one.judged is None or one.judged.refused:
        return one.reason
    said = {verdict(one.way, one.fleet, profile) or Verdict.INCOMPLETE for profile in one.expected.profiles}
    return "" if said == {Verdict.PASS} else one.reason


def _first(why: dict[str, str]) -> str:
    host, reason = next(iter(sorted(why.items())))
    return f"{host}: {reason}"


def _steps(fit: list[Account]) -> dict[str, Step]:
    """Every step of the hosts' plans. Hosts of one run that were measured in different ways make no baseline."""
    found: dict[str, Step] = {}
    read: set[str] = set()
    for one in fit:
        criteria = one.judged.criteria if one.judged else ""
        if criteria not in read and one.plan:
            read.add(criteria)
            for step in one.plan.steps:
                if found.setdefault(step.name, step) != step:
                    raise Refused(f"step {step.name} differs between the hosts; choose hosts with --hosts")
        one.forget()
    return found


def serials(judged: Iterable[Judged]) -> list[str]:
    return sorted({part.value for one in judged for part in one.parts if part.kind in SERIALS})


def versions(judged: Iterable[Judged]) -> dict[str, list[str]]:
    """{driver, torch: those that the hosts told}."""
    told = {(said.about, said.value) for one in judged for said in one.versions}
    return {name: sorted(value for about, value in told if about == name) for name in VERSIONS}


def entries(judged: list[Judged], steps: dict[str, Step]) -> list[Entry]:
    """One entry per compared quantity, in the steps' order."""
    found: dict[tuple[str, str, str], dict[str, Series]] = {}
    for one in judged:
        for series in one.series:
            what = series.what
            found.setdefault((what.step, what.about, what.point), {})[one.host] = series
    return [made for name, step in steps.items() for made in _of_step(step, found) if made.step == name]


def _of_step(step: Step, found: dict[tuple[str, str, str], dict[str, Series]]) -> Iterator[Entry]:
    for (name, about, where), hosts in found.items():
        if name == step.name and where in (points := _points(step, about)):
            one = next(iter(hosts.values()))
            values = {host: list(series.values) for host, series in hosts.items()}
            yield entry(one.what, points[where], values)


def _points(step: Step, about: str) -> dict[str, Point]:
    """{its words: point} for every point at which a step takes a quantity."""
    probe, _, name = about.partition(".")
    declared = plans.owner(probe, step, discover())
    params = step.params if declared.name == step.probe else {}
    return {str(point): point for point in declared.points(declared.metrics[name], params)}


def entry(one: What, point: Point, values: dict[str, list[float]]) -> Entry:
    pooled = [value for many in values.values() for value in many]
    median = statistics.median(pooled)
    spread = NORMAL * statistics.median(abs(value - median) for value in pooled) / median if median > 0 else None
    better = one.better if one.better in ("higher", "lower") else ""
    return Entry(
        one.step, one.about, one.unit, point, median, len(pooled), one.method, better, spread, values  # type: ignore[arg-type]
    )  # fmt: skip
