"""What can be compared: a run, a delivery (all its runs) or a baseline, as device values per host and quantity."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path

from gpuburn.baseline import Baseline
from gpuburn.controller import account, baselines
from gpuburn.controller.judged import Judged
from gpuburn.controller.replay import moment
from gpuburn.controller.run import RUN, Run
from gpuburn.plan import Step
from gpuburn.strict import Refused

DELIVERY, BASELINE = "delivery:", "baseline:"
WISH = "wanted is a run id, delivery:ID or baseline:NAME, and /GLOB after a run or delivery for some of its hosts"
Where = tuple[str, str, str]  # step, about, point


@dataclass(slots=True)
class Quantity:
    """One quantity measured in one way. values: {host: one a device}; median: where only that was kept, and devices."""

    unit: str
    better: str
    step: Step | None
    count: int
    values: dict[str, list[float]] = field(default_factory=dict)
    median: float = 0.0
    devices: int = 0


@dataclass(slots=True)
class Side:
    """told: {kind, sku, level, driver, torch: those seen}. hosts: {host: whether it passed}. left_out: {host: why}."""

    name: str
    told: dict[str, set[str]] = field(default_factory=dict)
    hosts: dict[str, bool] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)
    quantities: dict[Where, dict[str, Quantity]] = field(default_factory=dict)

    def say(self, **words: str) -> None:
        for name, word in words.items():
            if word:
                self.told.setdefault(name, set()).add(word)


def side(name: str, reports: Path) -> Side:
    """The side that a word of the command line names. One that mixes kinds or SKUs is refused: it has no one median."""
    word, _, hosts = name.partition("/")
    found = Side(name)
    if word.startswith(BASELINE):
        _of_baseline(found, baselines.load(reports, word.removeprefix(BASELINE)))
        return found
    for run, delivery in _runs(word, reports):
        _add(found, run, delivery, hosts or "*")
    if not found.hosts:
        more = next((f"; {host}: {why}" for host, why in found.left_out.items()), "")
        raise Refused(f"{name}: no host with verified numbers{more}")
    for what in ("kind", "sku"):
        if len(found.told.get(what, ())) > 1:
            mixed = " and ".join(sorted(found.told[what]))
            raise Refused(f"{name}: its hosts are of {what} {mixed}; choose some with {word}/GLOB")
    return found


def _runs(word: str, reports: Path) -> Iterator[tuple[Run, str]]:
    """Earlier runs first, so that of a host's attempts the last stands."""
    if word.startswith(DELIVERY):
        delivery = word.removeprefix(DELIVERY)
        names = sorted(path.parent.name for path in reports.glob("*/expected.json"))
        runs = [Run.of(reports, one) for one in names if RUN.fullmatch(one)]
        mine = [run for run in runs if any(one.delivery == delivery for one in run.expected())]
        if not delivery or not mine:
            raise Refused(f"{word}: no run in {reports} is of this delivery")
        yield from ((run, delivery) for run in mine)
    elif RUN.fullmatch(word):
        yield Run.of(reports, word), ""
    else:
        raise Refused(f"{word!r}: {WISH}")


def _add(found: Side, run: Run, delivery: str, hosts: str) -> None:
    steps: dict[str, dict[str, Step]] = {}
    for one in account.give(run, moment(run)):
        expected = one.expected
        if (delivery and expected.delivery != delivery) or not fnmatchcase(expected.host, hosts):
            continue
        if one.judged is None or one.judged.refused or not one.judged.series.what:
            found.left_out.setdefault(expected.host, one.reason)
            continue
        found.left_out.pop(expected.host, None)
        found.hosts[expected.host] = set(map(str, one.judged.verdicts.values())) == {"pass"}
        found.say(kind=expected.kind, sku=expected.sku, level=expected.level, run=run.id)
        found.say(**{said.about: said.value for said in one.judged.versions if said.about in baselines.VERSIONS})
        if one.judged.criteria not in steps:
            steps[one.judged.criteria] = {step.name: step for step in one.plan.steps} if one.plan else {}
        one.forget()
        _series(found, one.judged, steps[one.judged.criteria], expected.count)


def _series(found: Side, judged: Judged, steps: dict[str, Step], count: int) -> None:
    for series in judged.series:
        what = series.what
        ways = found.quantities.setdefault((what.step, what.about, what.point), {})
        key = f"{what.method}/{count}"
        one = ways.setdefault(key, Quantity(what.unit, what.better, steps.get(what.step), count))
        one.values[judged.host] = list(series.values)


def _of_baseline(found: Side, one: Baseline) -> None:
    found.hosts = dict.fromkeys(one.hosts, True)
    found.say(kind=one.kind, sku=one.sku, level=one.level, run=one.run)
    for name, many in one.versions.items():
        found.told[name] = set(many)
    for entry in one.entries:
        quantity = Quantity(
            entry.unit, entry.better, one.step(entry.step), one.count, entry.values, entry.median, entry.devices
        )
        where = (entry.step, entry.about, str(entry.point))
        found.quantities.setdefault(where, {})[f"{entry.method}/{one.count}"] = quantity
