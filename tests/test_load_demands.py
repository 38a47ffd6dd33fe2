"""What the steps of load are judged by: the finding that each fault of a device under load must yield."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
import runs

from gpuburn.finding import Finding, Verdict
from gpuburn.measurement import Reading
from gpuburn.plan import Plan

STEPS = ("gemm", "gemm_fp8", "power_steps", "distributed_checkpoint", "dataset")


def plan(**changed: Any) -> Plan:
    asked = {"level": "standard", "count": 3, "sku": "h200-sxm", "power": "", **changed}
    return runs.plan(runs.hardware(**asked), steps=STEPS)


def found(of: Plan, step: str, metric: str, value: float) -> list[Finding]:
    """What is said of that quantity of that step where one device read that value and all else is well."""
    said = runs.answers(of)
    said[step] = [
        dataclasses.replace(one, value=value)
        if isinstance(one, Reading) and (one.metric, one.subject) == (metric, "gpu1")
        else one
        for one in said[step]
    ]
    judged = runs.judged(of, runs.outcomes(of, said))
    return [one for one in judged if one.step == step and one.about.endswith(f".{metric}") and one.subject == "gpu1"]


@pytest.mark.parametrize(
    ("step", "metric", "sound", "faulty", "verdict"),
    [
        ("gemm", "wrong", 0.0, 1.0, Verdict.FAIL),
        ("gemm", "not_finite", 0.0, 1.0, Verdict.FAIL),
        ("gemm", "off", 0.4, 1.01, Verdict.FAIL),
        ("gemm", "duty", 0.97, 0.6, Verdict.INCOMPLETE),
        ("gemm_fp8", "wrong", 0.0, 3.0, Verdict.FAIL),
        ("gemm_fp8", "off", 0.4, 1.01, Verdict.FAIL),
        ("gemm_fp8", "tflops", 1400.0, 900.0, Verdict.FAIL),
        ("distributed_checkpoint", "wrong", 0.0, 1.0, Verdict.FAIL),
        ("distributed_checkpoint", "cached_share", 0.0, 0.9, Verdict.INCOMPLETE),
        ("dataset", "wrong", 0.0, 1.0, Verdict.FAIL),
        ("dataset", "cached_share", 0.0, 0.9, Verdict.INCOMPLETE),
        ("power_steps", "wrong", 0.0, 1.0, Verdict.FAIL),
        ("power_steps", "not_finite", 0.0, 1.0, Verdict.FAIL),
        ("power_steps", "given", 1.0, 0.5, Verdict.INCOMPLETE),
    ],
)
def test_a_fault_under_load_yields_its_finding_and_a_sound_device_none(step, metric, sound, faulty, verdict):
    of = plan()
    assert {one.verdict for one in found(of, step, metric, sound)} == {Verdict.PASS}
    assert {one.verdict for one in found(of, step, metric, faulty)} == {verdict}


@pytest.mark.parametrize("level", ["standard", "soak"])
def test_speed_that_fades_after_five_minutes_is_marginal(level):
    [steady], [fading] = (found(plan(level=level), "gemm", "sustained", value) for value in (0.99, 0.9))
    assert (steady.verdict, fading.verdict) == (Verdict.PASS, Verdict.PASS)
    assert (steady.marginal, fading.marginal) == (False, True)


def test_where_nothing_tells_what_is_held_a_long_step_is_not_proven():
    of = plan()
    said = runs.answers(of)
    said["gemm"] = [one for one in said["gemm"] if getattr(one, "metric", "") != "sustained"]
    judged = runs.judged(of, runs.outcomes(of, said))
    assert {one.verdict for one in judged if one.about == "gemm.sustained"} == {Verdict.INCOMPLETE}


@pytest.mark.parametrize("level", ["smoke", "quick"])
def test_a_step_too_short_to_tell_it_is_not_asked_and_the_plan_says_so(level):
    of = plan(level=level)
    assert not [one for one in of.limits if one.about == "gemm.sustained"]
    assert "gemm.sustained in step gemm" in {one.what for one in of.left_out}
    assert {one.when.steps for one in plan().limits if one.about == "gemm.sustained"} == {("gemm",)}
