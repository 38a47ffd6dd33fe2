"""A step that needs what SKU, kind of run or site do not have is left out with the reason, and only then."""

from __future__ import annotations

from typing import Any

import pytest
import runs

from gpuburn import planning, sku
from gpuburn.needs import NEEDS, lacking
from gpuburn.plan import Plan

FORMATS = {"gemm", "gemm_fp16", "gemm_tf32", "gemm_fp8", "gemm_fp32"}


def made(**changed: Any) -> Plan:
    asked = runs.request if changed.get("kind") == "rehearsal" else runs.hardware
    return planning.make(asked(**{"profiles": ("training",), "count": 2, **changed}), "", 0.0)


def left_out(plan: Plan) -> dict[str, str]:
    return {one.what.removeprefix("step "): one.why for one in plan.left_out if one.what.startswith("step ")}


@pytest.mark.parametrize(
    ("model", "without"),
    [
        ("h200-sxm", set()),
        ("l4", set()),
        ("a100-sxm4-80gb", {"gemm_fp8"}),
        ("t4", {"gemm", "gemm_tf32", "gemm_fp8"}),
        ("v100-sxm2-32gb", {"gemm", "gemm_tf32", "gemm_fp8"}),
    ],
)
def test_the_number_formats_of_a_sku_are_its_steps(model, without):
    plan = made(sku=model, power="")
    steps = {step.name for step in plan.steps}
    assert steps & FORMATS == FORMATS - without
    assert ("power_steps" in steps) == ("gemm" not in without)
    told = left_out(plan)
    assert set(told) & FORMATS == without
    assert all(told[name].startswith("needs ") and model in told[name] for name in without)


@pytest.mark.parametrize("kind", ["rehearsal", "simulated"])
def test_a_cpu_has_no_tf32_and_no_fp8_whatever_was_ordered(kind):
    plan = made(kind=kind)
    told = left_out(plan)
    assert told["gemm_fp8"] == f"needs fp8, which the CPU that does the work of a {kind} run has not"
    assert told["gemm_tf32"] == f"needs tf32, which the CPU that does the work of a {kind} run has not"
    assert {"gemm", "gemm_fp16", "power_steps"} <= {step.name for step in plan.steps}


def test_hardware_is_stepped_only_within_a_budget():
    assert left_out(made())["power_steps"] == "the site declares no power budget (gpuburn_power_budget_kw)"
    assert left_out(made(power="too little"))["power_steps"] == "too little"
    assert "power_steps" not in left_out(made(power=""))


@pytest.mark.parametrize("model", sku.ids())
def test_what_a_sku_lacks_follows_from_its_compute_capability(model):
    """BF16 and TF32 from 8.0 on, FP8 from 8.9 on (CUDA C++ Programming Guide, compute capabilities)."""
    one = sku.load(model)
    able = tuple(int(part) for part in one.compute_capability.split("."))
    least = {"bf16": (8, 0), "tf32": (8, 0), "fp8": (8, 9)}
    assert {name for name in least if lacking(name, "hardware", one, "")} == {n for n, at in least.items() if able < at}


def test_a_need_that_nobody_knows_is_refused(monkeypatch):
    from gpuburn import profile

    step = profile.load("training").steps[0]
    monkeypatch.setattr(step.__class__, "needs", ("fp7",), raising=False)
    assert "fp7" not in NEEDS
    with pytest.raises(ValueError, match=r"needs: unknown 'fp7'; did you mean 'fp8'"):
        profile._check(step, "training.yml")
