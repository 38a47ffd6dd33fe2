"""From shares of a reference to numbers: what a limit asks of this SKU, or of this baseline. Pure.

Where there is no reference of the same method, the quantity is uncalibrated and says what is missing: never guessed.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

from gpuburn.baseline import Baseline
from gpuburn.limit import Limit, Reference, When
from gpuburn.measurement import Metric, Point
from gpuburn.plan import Step
from gpuburn.policy import Shares
from gpuburn.sku import Number, Sku
from gpuburn.strict import digest, encode

SKU = "sku."
RANK = {"high": 0, "medium": 1}  # a number of low confidence informs a reader, and judges nobody


def of_sku(limit: Limit, sku: Sku | None, count: int) -> Limit:
    """A limit on a share of a SKU's number, in numbers; one that needs none is returned as it is.

    The lowest number of the limit's method and of the highest confidence is taken; medium confidence may only warn.
    """
    if not limit.of.startswith(SKU):
        return limit
    name = limit.of.removeprefix(SKU)
    number = _lowest(sku, name, limit.method, count) if sku else None
    if sku is None or number is None:
        who = sku.id if sku else "an unnamed SKU"
        method = f" measured by '{limit.method}'" if limit.method else ""
        why = f"no reference number: {who} has no {name}{method} of sufficient confidence"
        return Limit(limit.about, limit.unit, informational=why, uncalibrated=True, when=limit.when, source="sku")
    reference = Reference(f"{sku.id} {name}", number.value, number.source, number.method)
    return dataclasses.replace(limit.resolved(reference), source="sku", confidence=number.confidence)


def _lowest(sku: Sku, name: str, method: str, count: int) -> Number | None:
    fits = [
        one
        for one in sku.numbers.get(name, [])
        if one.confidence in RANK and one.method == method and one.devices in (0, count) and one.basis != "threshold"
    ]
    return min(fits, key=lambda one: (RANK[one.confidence], one.value), default=None)


def method(step: Step) -> str:
    """What two numbers of a step must share to be compared: probe, revision, parameters, environment, threads."""
    return digest(encode([step.probe, step.revision, step.params, step.env, step.threads]))[:16]


def of_baseline(
    uncalibrated: Limit, step: Step, metric: Metric, points: Iterable[Point], baseline: Baseline, shares: Shares
) -> list[Limit]:
    """An uncalibrated quantity, judged by a baseline at each point that it has, measured in the same way."""
    found = []
    for point in points:
        entry = baseline.entry(step.name, uncalibrated.about, point)
        when = dataclasses.replace(uncalibrated.when, steps=(step.name,), point=point)
        if entry is None or entry.method != method(step) or entry.unit != metric.unit or not entry.median > 0:
            found.append(dataclasses.replace(uncalibrated, when=when))
            continue
        found.append(_share_of(uncalibrated.about, metric, when, shares, Reference(
            f"baseline {baseline.name}", entry.median, f"run {baseline.run}, median of {entry.devices} devices"
        )))  # fmt: skip
    return found


def _share_of(about: str, metric: Metric, when: When, shares: Shares, reference: Reference) -> Limit:
    because = f"as good as {reference.name}, within {1 - shares.fail_below:.1%}"
    fail, warn = shares.fail_below, shares.warn_below
    if metric.better == "lower":
        relative = Limit(about, metric.unit, because, of="baseline", warn_above=1 / warn, fail_above=1 / fail,
                         when=when, source="baseline")  # fmt: skip
    else:
        relative = Limit(about, metric.unit, because, of="baseline", fail_below=fail, warn_below=warn, when=when,
                         source="baseline")  # fmt: skip
    return relative.resolved(reference)
