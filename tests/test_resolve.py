"""From shares to numbers: a baseline serves only what it measured in the same way, in the same unit, over as many."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
import runs
from hypothesis import given, strategies as st

from gpuburn import planning, resolve, sku as skus
from gpuburn.baseline import SCHEMA, Baseline, Entry
from gpuburn.limit import Limit, When, load
from gpuburn.measurement import NOWHERE, Metric, Point
from gpuburn.plan import Step
from gpuburn.policy import Shares
from gpuburn.strict import Refused

STEP = Step("gemm", "gemm", "device", 1, ("training",), "r", {"n": 64, "rounds": 3}, 1.0, 2.0)
HIGHER, LOWER = Metric("TFLOP/s", better="higher"), Metric("ms", better="lower")
OPEN = Limit("gemm.tflops", "TFLOP/s", informational="no reference number", uncalibrated=True,
             when=When(steps=("gemm",), profiles=("training",)))  # fmt: skip


BEFORE = "20251231T000000Z-0000"


def baseline(step: Step = STEP, median: float = 200.0, unit: str = "TFLOP/s", **changed: Any) -> Baseline:
    entry = Entry("gemm", "gemm.tflops", unit, NOWHERE, median, 24, resolve.method(step))
    settled = {"kind": "rehearsal", "sku": "", "count": 3, "steps": [step], "entries": [entry]}
    return Baseline(
        **{"schema": SCHEMA, "name": "b", "run": BEFORE, "level": "smoke", "saved": 1.0, **settled, **changed}
    )


def judged(
    by: Baseline, step: Step = STEP, metric: Metric = HIGHER, count: int = 3, shares: Shares | None = None
) -> Limit:
    [one] = resolve.of_baseline(OPEN, step, metric, [NOWHERE], count, by, shares or Shares())
    return one


def test_better_higher_must_not_fall_below_a_share_of_the_median() -> None:
    one = judged(baseline())
    assert (one.min, one.warn_below, one.max, one.warn_above) == (190.0, 194.0, None, None)
    assert one.can_reject and not one.uncalibrated and one.source == "baseline"
    assert one.because == "as good as baseline b, at most 5.0% below it"
    assert one.when == dataclasses.replace(OPEN.when, point=NOWHERE)


def test_better_lower_must_not_rise_above_the_median_over_a_share() -> None:
    one = judged(baseline(unit="ms"), metric=LOWER)
    assert (one.min, one.warn_below) == (None, None)
    assert (one.max, one.warn_above) == (pytest.approx(200 / 0.95), pytest.approx(200 / 0.97))
    assert one.because == "as good as baseline b, at most 5.3% above it"


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"params": {"n": 128, "rounds": 3}}, "parameter n was 64, is 128"),
        ({"params": {"n": 64}}, "parameter rounds was 3, is not set"),
        ({"revision": 2}, "revision was 1, is 2"),
        ({"env": {"OMP_NUM_THREADS": "2"}}, "environment OMP_NUM_THREADS was not set, is 2"),
        ({"threads": 4}, "threads was 1, is 4"),
        ({"probe": "train"}, "probe was gemm, is train"),
    ],
)
def test_what_was_measured_otherwise_stays_uncalibrated_and_says_what_differs(changed: Any, says: str) -> None:
    one = judged(baseline(), dataclasses.replace(STEP, **changed))
    assert one.uncalibrated
    assert one.informational == f"no reference number; baseline b measured it otherwise: {says}"


@pytest.mark.parametrize(
    "changed", [{"timeout": 9.0}, {"expected": 1.5}, {"profiles": ("inference",)}, {"because": "x"}]
)
def test_what_is_no_part_of_the_method_changes_nothing(changed: Any) -> None:
    assert judged(baseline(), dataclasses.replace(STEP, **changed)).min == 190.0


@pytest.mark.parametrize(
    ("by", "says"),
    [
        (baseline(entries=[]), "has no number of it in this step at this point"),
        (baseline(unit="GB/s"), "has it in 'GB/s', measured is 'TFLOP/s'"),
        (baseline(median=0.0), "is 0, and a share needs a number above 0"),
        (baseline(median=-3.0), "is -3"),
        (baseline(dataclasses.replace(STEP, threads=2), steps=[]), "measured it otherwise: another method"),
    ],
)
def test_what_a_baseline_cannot_serve_stays_uncalibrated_and_says_why(by: Baseline, says: str) -> None:
    one = judged(by)
    assert one.uncalibrated and says in one.informational


def test_steps_of_all_devices_together_need_as_many_devices() -> None:
    ranks = dataclasses.replace(STEP, scope="ranks")
    assert judged(baseline(ranks), ranks, count=3).min == 190.0
    assert "over 3 devices, planned are 8" in judged(baseline(ranks), ranks, count=8).informational
    assert judged(baseline(), count=8).min == 190.0


def test_every_point_is_judged_by_its_own_number() -> None:
    here, there = Point.of(mib=1), Point.of(mib=8)
    entry = dataclasses.replace(baseline().entries[0], point=here)
    found = resolve.of_baseline(OPEN, STEP, HIGHER, [here, there], 3, baseline(entries=[entry]), Shares())
    assert [(one.when.point, one.uncalibrated) for one in found] == [(here, False), (there, True)]


def test_a_baseline_of_the_host_itself_or_of_the_same_run_is_no_reference() -> None:
    mine = baseline(hosts=["node1", "node2"])
    [one] = resolve.of_baseline(OPEN, STEP, HIGHER, [NOWHERE], 3, mine, Shares(), "node1")
    assert one.uncalibrated and one.informational.endswith(f"baseline b is of this very host, in run {BEFORE}")
    [one] = resolve.of_baseline(OPEN, STEP, HIGHER, [NOWHERE], 3, mine, Shares(), "node3")
    assert one.reference and f"run {BEFORE}" in one.reference.source
    with pytest.raises(Refused, match=f"baseline b was made of run {runs.RUN} itself; wanted is a baseline of another"):
        planning.make(runs.request(baseline=baseline(run=runs.RUN)), runs.NONCE, 0.0)


def test_a_baseline_of_another_sku_or_kind_is_refused_by_name() -> None:
    with pytest.raises(Refused, match="baseline b is of hardware h200-sxm, this host is rehearsal; wanted is"):
        planning.make(runs.request(baseline=baseline(sku="h200-sxm", kind="hardware")), runs.NONCE, 0.0)
    with pytest.raises(Refused, match="this host is hardware h100-sxm5-80gb"):
        planning.make(runs.hardware(count=8, baseline=baseline(sku="h200-sxm", kind="hardware")), runs.NONCE, 0.0)


@given(st.floats(1e-6, 1e9), st.floats(0.01, 1), st.floats(0.01, 1), st.booleans())
def test_the_median_itself_always_passes_without_a_warning(median: float, a: float, b: float, higher: bool) -> None:
    metric = HIGHER if higher else LOWER
    one = judged(baseline(median=median, unit=metric.unit), metric=metric, shares=Shares(min(a, b), max(a, b)))
    assert one.admits(median) and not one.marginal(median)


def test_a_policy_that_lets_more_pass_than_ours_says_so() -> None:
    assert judged(baseline(), shares=Shares()).loosened == ""
    assert judged(baseline(), shares=Shares(0.96, 0.98)).loosened == ""
    for laxer in (Shares(0.0001, 0.0001), Shares(0.95, 0.96), Shares(0.94, 0.97)):
        assert judged(baseline(), shares=laxer).loosened == "within 5% of baseline b, a warning from 3%"


@pytest.mark.parametrize(("name", "sku", "wanted"), [
    ("nvlink_links", "h200-sxm", 18), ("nvlink_links", "h800-sxm5-80gb", 8), ("nvlink_links", "v100-sxm2-32gb", 6),
    ("nvlink_links", "l40s", None), ("nvlink_links", "h100-nvl", None), ("pcie_width", "l4", 16),
    ("ecc", "a100-sxm4-80gb", 1), ("ecc", "l40s", None), ("ecc", "rtx-a6000", None),
])  # fmt: skip
def test_what_a_sku_is_built_with_is_demanded_and_what_it_lacks_is_not(
    name: str, sku: str, wanted: float | None
) -> None:
    limit = Limit("gpu_health.x", "count", "built so", of=f"sku.{name}", fail_below=1.0)
    made = resolve.of_sku(limit, skus.load(sku), 8)
    assert (made.min, made.source) == (wanted, "sku")
    assert made.can_reject == (wanted is not None) and not made.uncalibrated


@pytest.mark.parametrize(("sku", "count", "parts"), [
    ("h200-sxm", 8, set(resolve.PARTS)), ("h200-sxm", 4, set(resolve.PARTS) - {"fabric"}),
    ("b200", 8, set(resolve.PARTS) - {"nvlink_crc"}),
    ("a100-sxm4-80gb", 8, {"ecc", "rows", "hbm", "nvlink", "nvlink_crc", "pcie"}),
    ("h100-pcie", 8, {"ecc", "sram", "rows", "hbm", "pcie"}), ("v100-pcie-32gb", 8, {"ecc", "pcie"}),
    ("l40s", 8, {"pcie"}), ("rtx-4090", 2, {"pcie"}), ("gb200", 4, {"ecc", "sram", "rows", "hbm"}),
])  # fmt: skip
def test_what_a_sku_is_built_with_its_devices_must_tell(sku: str, count: int, parts: set[str]) -> None:
    assert {part for part in resolve.PARTS if resolve.built(part, skus.load(sku), count)} == parts
    assert not any(resolve.built(part, None, count) for part in resolve.PARTS)


# MiB that a whole board tells by NVML (nvidia-smi of many public logs; ECC on where the board has it).
TOLD = {
    "h200-sxm": 143771, "h100-sxm5-80gb": 81559, "a100-sxm4-80gb": 81920, "a100-sxm4-40gb": 40960, "l4": 23034,
    "t4": 15360, "l40s": 46068, "a10": 23028, "h20": 97871, "b200": 183359, "v100-sxm2-16gb": 16160, "h100-nvl": 95830,
}  # fmt: skip


@pytest.mark.parametrize("sku", TOLD)
def test_a_whole_board_has_the_memory_that_is_sold_and_one_without_a_stack_has_not(sku: str) -> None:
    [ours] = [one for one in load() if one.about == "gpu_health.memory_total"]
    limit = resolve.of_sku(ours, skus.load(sku), 8)
    told = TOLD[sku] / 1024
    assert limit.admits(told) and not limit.admits(told * 7 / 8)


@pytest.mark.parametrize(
    "sku", [one for one in skus.ids() if skus.load(one).memory_clock and skus.load(one).memory_bus]
)
def test_a_whole_board_has_the_bandwidth_that_is_sold_and_one_without_a_stack_has_not(sku: str) -> None:
    ours = next(one for one in load() if one.about == "telemetry.memory_peak" and one.of)
    one = skus.load(sku)
    limit, told = resolve.of_sku(ours, one, 8), 2 * one.memory_clock * 1e6 * one.memory_bus / 8 / 1e9
    assert limit.admits(told) and not limit.admits(told * 7 / 8)
