"""From shares of a reference to numbers: what a limit asks of this SKU, or of this baseline. Pure.

Where there is no reference of the same method, the quantity is uncalibrated and says what is missing: never guessed.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from gpuburn import rotation
from gpuburn.baseline import Baseline, Entry
from gpuburn.filled import FORMATS
from gpuburn.limit import Limit, Reference, When
from gpuburn.measurement import Metric, Point
from gpuburn.plan import Step
from gpuburn.policy import Shares
from gpuburn.sku import Number, Sku
from gpuburn.strict import Refused, digest, encode

SKU = "sku."
TOGETHER = ("ranks", "group")  # scopes in which the number of devices is a part of the method
RANK = {"high": 0, "medium": 1}  # a number of low confidence informs a reader, and judges nobody


def of_sku(limit: Limit, sku: Sku | None, count: int) -> Limit:
    """A limit on a share of a SKU's number, in numbers; one that needs none is returned as it is.

    The lowest number of the limit's method and of the highest confidence is taken; medium confidence may only warn.
    """
    if not limit.of.startswith(SKU):
        return limit
    name = limit.of.removeprefix(SKU)
    if name in BUILT:
        return _as_built(limit, sku, name)
    number = _lowest(sku, name, limit.method, count) if sku else None
    if sku is None or number is None:
        who = sku.id if sku else "an unnamed SKU"
        method = f" measured by '{limit.method}'" if limit.method else ""
        why = f"no reference number: {who} has no {name}{method} of sufficient confidence"
        return Limit(limit.about, limit.unit, informational=why, uncalibrated=True, when=limit.when, source="sku")
    reference = Reference(f"{sku.id} {name}", _in(limit.unit, number), number.source, number.method)
    source = "sku" if limit.source == "limits.yml" else limit.source
    return dataclasses.replace(limit.resolved(reference), source=source, confidence=number.confidence)


# What a SKU is built with. A bridge is the buyer's choice, so that its links are not the board's.
BUILT: dict[str, Callable[[Sku], float]] = {
    "nvlink_links": lambda sku: 0.0 if sku.nvlink is None or sku.nvlink.bridge else float(sku.nvlink.links),
    # 1 where every device may access every other's memory: V100's links join half of the pairs of a board.
    "all_peers": lambda sku: float(sku.nvlink is not None and not sku.nvlink.bridge and sku.nvlink.gen >= 3),
    "pcie_gen": lambda sku: float(sku.pcie.gen) if sku.pcie else 0.0,
    "pcie_width": lambda sku: float(sku.pcie.width) if sku.pcie else 0.0,
    "ecc": lambda sku: float(sku.ecc == "hbm"),  # boards with GDDR may be run without it
}


def _as_built(limit: Limit, sku: Sku | None, name: str) -> Limit:
    """A demand on what the SKU is built with; where it is built without, nothing is demanded."""
    value = BUILT[name](sku) if sku else 0.0
    if sku is None or not value:
        why = f"{sku.id if sku else 'an unnamed SKU'} is not built with a fixed {name}"
        return Limit(limit.about, limit.unit, informational=why, when=limit.when, source="sku")
    reference = Reference(f"{sku.id} {name}", value, "skus/: what the board is built with")
    source = "sku" if limit.source == "limits.yml" else limit.source
    return dataclasses.replace(limit.resolved(reference), source=source)


# What a device must tell of itself where its SKU is built with that part, by the `part` of a metric or fact; the count
# of GPUs decides whether there are switches between them. NVML API reference: remapped rows and the SRAM threshold from
# Ampere on, fabric state from Hopper on; older boards and superchips are taken at their word.
NEW = ("hopper", "blackwell")
PARTS: dict[str, tuple[str, Callable[[Sku, int], bool]]] = {
    "ecc": ("ECC", lambda sku, count: sku.ecc == "hbm"),
    "sram": ("ECC over its SRAM", lambda sku, count: sku.ecc == "hbm" and sku.architecture in NEW),
    "rows": ("rows to remap", lambda sku, count: _stacked(sku) and sku.architecture in ("ampere", *NEW)),
    "hbm": ("HBM", lambda sku, count: _stacked(sku) and sku.architecture in ("ampere", *NEW)),
    "nvlink": ("NVLink", lambda sku, count: _linked(sku)),
    "nvlink_crc": ("NVLink", lambda sku, count: _linked(sku) and sku.nvlink is not None and sku.nvlink.gen <= 4),
    "fabric": ("NVSwitch", lambda sku, count: _linked(sku) and sku.architecture in NEW and count > 4),
    "pcie": ("PCIe", lambda sku, count: sku.pcie is not None and sku.form != "superchip"),
}


def built(part: str, sku: Sku | None, count: int) -> str:
    """That so many devices of a SKU must tell of a part, in words; "" where they need not."""
    if sku is None or part not in PARTS or not PARTS[part][1](sku, count):
        return ""
    return f"{sku.id} is built with {PARTS[part][0]}"


def _stacked(sku: Sku) -> bool:
    return sku.memory_type.startswith("HBM")


def _linked(sku: Sku) -> bool:
    """Whether NVLink is the board's own: of a superchip's and of a bridge's links less is known."""
    return sku.form == "sxm" and sku.nvlink is not None and not sku.nvlink.bridge and sku.nvlink.links > 0


PEAKS = {"gemm.tflops": "peak_bf16", "memory_bandwidth.triad": "memory_bandwidth_peak"}
ABOVE = 1.05  # of a peak: what boost clocks above the specified one have been seen to reach (plausible.py)


def possible(limit: Limit, sku: Sku | None, steps: Iterable[Step]) -> None:
    """Refuse a floor above what a perfect device of this SKU reaches: it would reject every good one.

    Of a product it depends on the number format, and so on the step.
    """
    if sku is None or limit.min is None or limit.about not in PEAKS:
        return
    for step in steps:
        name = peak_of(limit.about, step)
        peak = sku.number(name) if not limit.when.steps or rotation.base(step.name) in limit.when.steps else None
        if step.probe == limit.about.partition(".")[0] and peak and limit.min > ABOVE * peak.value:
            raise Refused(
                f"limit {limit.about}: min {limit.min:g} {limit.unit} is above what a {sku.id} can reach, "
                f"{peak.value:g} {peak.unit} in step {step.name}: correct the number or its unit"
            )


def peak_of(about: str, step: Step) -> str:
    """The SKU's number that a quantity cannot pass in a step: of a product, the peak of its number format."""
    dtype = FORMATS.get(str(step.params.get("dtype")))
    return f"peak_{dtype}" if about == "gemm.tflops" and dtype else PEAKS[about]


def _in(unit: str, number: Number) -> float:
    """The number in the limit's unit: memory is sold by the GB (1e9) and told by the GiB (2^30)."""
    return number.value * 1e9 / 2**30 if (number.unit, unit) == ("GB", "GiB") else number.value


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


def unlike(before: Step, now: Step) -> str:
    """What in the method of two steps differs, in words; "" where it is the same."""
    said = [
        f"{name} was {was}, is {has}"
        for name, was, has in (
            ("probe", before.probe, now.probe),
            ("revision", before.revision, now.revision),
            ("threads", before.threads, now.threads),
        )
        if was != has
    ]
    return "; ".join(
        [*said, *_keys("parameter", before.params, now.params), *_keys("environment", before.env, now.env)]
    )


def _keys(what: str, before: Mapping[str, Any], now: Mapping[str, Any]) -> Iterable[str]:
    for key in sorted({*before, *now}):
        was, has = before.get(key, "not set"), now.get(key, "not set")
        if was != has:
            yield f"{what} {key} was {was}, is {has}"


def of_baseline(
    uncalibrated: Limit, step: Step, metric: Metric, points: Iterable[Point], count: int, baseline: Baseline,
    shares: Shares, host: str = "",
) -> list[Limit]:  # fmt: skip
    """An uncalibrated quantity, judged by a baseline at each point that it has, measured in the same way.

    count: devices of the host, of this name. Where the baseline does not serve it stays uncalibrated, and says why.
    """
    found = []
    for point in points:
        when = dataclasses.replace(uncalibrated.when, steps=(step.name,), point=point)
        entry = baseline.entry(rotation.base(step.name), uncalibrated.about, point)
        why = itself(baseline, host) or unserved(baseline, entry, step, metric, count)
        if entry is None or why:
            reason = f"{uncalibrated.informational}; {why}"
            found.append(dataclasses.replace(uncalibrated, when=when, informational=reason))
            continue
        told = f"run {baseline.run}, median of {entry.devices} devices"
        reference = Reference(f"baseline {baseline.name}", entry.median, told)
        found.append(share_of(uncalibrated.about, metric, when, shares, reference))
    return found


def itself(baseline: Baseline, host: str) -> str:
    """That a host is among those whose numbers the baseline is of: it would be judged by itself."""
    return f"baseline {baseline.name} is of this very host, in run {baseline.run}" if host in baseline.hosts else ""


def unserved(baseline: Baseline, entry: Entry | None, step: Step, metric: Metric, count: int) -> str:
    """Why an entry of a baseline is no reference for a metric of a step; "" if it is one."""
    name = f"baseline {baseline.name}"
    if entry is None:
        return f"{name} has no number of it in this step at this point"
    if entry.method != method(step):
        before = baseline.step(rotation.base(step.name))
        return f"{name} measured it otherwise: {(before and unlike(before, step)) or 'another method'}"
    if entry.unit != metric.unit:
        return f"{name} has it in {entry.unit!r}, measured is {metric.unit!r}"
    if baseline.count and step.scope in TOGETHER and baseline.count != count:
        return f"{name} measured it over {baseline.count} devices, planned are {count}"
    return "" if entry.median > 0 else f"its median in {name} is {entry.median:g}, and a share needs a number above 0"


def share_of(about: str, metric: Metric, when: When, shares: Shares, reference: Reference) -> Limit:
    """The demand to be nearly as good as a reference, in numbers."""
    fail, warn, ours = shares.fail_below, shares.warn_below, Shares()
    laxer = fail < ours.fail_below or warn < ours.warn_below
    loosened = (
        f"within {1 - ours.fail_below:.0%} of {reference.name}, a warning from {1 - ours.warn_below:.0%}"
        if laxer
        else ""
    )
    if metric.better == "lower":
        relative = Limit(about, metric.unit, f"as good as {reference.name}, at most {1 / fail - 1:.1%} above it",
                         of="baseline", warn_above=1 / warn, fail_above=1 / fail, when=when,
                         source="baseline", loosened=loosened)  # fmt: skip
    else:
        relative = Limit(about, metric.unit, f"as good as {reference.name}, at most {1 - fail:.1%} below it",
                         of="baseline", fail_below=fail, warn_below=warn, when=when, source="baseline",
                         loosened=loosened)  # fmt: skip
    return relative.resolved(reference)
