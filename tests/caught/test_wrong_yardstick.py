"""Faults of the yardstick: unknown models, limits of other models, slips of unit, limits that cannot fail or bend."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import runs
import yaml

from caught import hosts
from caught.registry import caught, stopped
from gpuburn import planning, plausible, sku, strict
from gpuburn.controller import site
from gpuburn.controller.account import Account
from gpuburn.sku import Sku
from gpuburn.strict import Refused

H200 = "h200-sxm"
AWS = "aws-samples/awsome-distributed-training:4.validation_and_observability/2.gpu-cluster-healthcheck"


@stopped("DCGM", "NVIDIA/DCGM#55", "tests are silently skipped for a GPU that is not on the list",
         "unknown 'rtx-9999'")  # fmt: skip
def test_a_gpu_model_that_we_do_not_know() -> None:
    hosts.plan(sku="rtx-9999")


@stopped("Azure NHC", "Azure/azurehpc-health-checks#54", "an unsupported machine type: exit status 0",
         "gpuburn_sku: unknown ''")  # fmt: skip
def test_no_model_was_ordered() -> None:
    hosts.plan(sku="")


@caught("torchtitan", "pytorch/torchtitan:torchtitan/tools/utils.py",
        "a name is matched by a part of it, and an unknown GPU is an A100", "fact.untold", "undecided")  # fmt: skip
def test_a_gpu_tells_a_name_that_nobody_knows(tmp_path: Path) -> Account:
    name = "NVIDIA H100 80GB HBM3 rev B"
    assert sku.match("", name) is None
    plan = hosts.plan(steps=("gemm", "identity"))
    return hosts.host(tmp_path, plan, hosts.changed(plan, "identity", "gpu_sku", f"unknown: {name}", ("gpu0",)))


@caught("DCGM", "NVIDIA/DCGM:nvvs", "the first GPU's limits are applied to the whole group", "fact.failed", "rejected")
def test_one_gpu_of_eight_is_another_model(tmp_path: Path) -> Account:
    plan = hosts.plan(steps=("gemm", "identity"))
    one = hosts.host(tmp_path, plan, hosts.changed(plan, "identity", "gpu_sku", "h100-pcie", ("gpu5",)))
    assert "gpu5" in one.reason
    return one


@caught("AWS", AWS, "an unknown instance has a floor of 0, which all pass",
        "uncalibrated", "conditional")  # fmt: skip
def test_a_model_without_a_reference_number(tmp_path: Path) -> Account:
    plan = hosts.plan(sku="l20")
    one = hosts.host(tmp_path, plan)
    [condition] = one.by_profile["training"].conditions
    assert "numbers without a reference" in condition.condition
    return one


def slipped(name: str, key: str, **number: Any) -> None:
    """A SKU's own file with one number more."""
    document = yaml.safe_load((sku.FOLDER / f"{name}.yml").read_text())
    entry = {"basis": "threshold", "confidence": "high", "source": "their table", **number}
    document["numbers"].setdefault(key, []).append(entry)
    if wrong := plausible.problems(strict.build(Sku, document, name)):
        raise Refused(wrong[0])


@stopped("DCGM", "NVIDIA/DCGM:nvvs/diag-skus.yaml.in", "H200: 2333 where MB/s is meant, a floor that cannot fail",
         "2.333 GB/s .threshold.; wanted is 2400 to")  # fmt: skip
def test_a_floor_a_thousand_times_too_low() -> None:
    slipped(H200, "dcgmproftester", value=2.333, unit="GB/s", method="dcgmproftester")


@stopped("DCGM", "NVIDIA/DCGM:nvvs/diag-skus.yaml.in", "A100: 137500 MB/s, a floor that is ten times too low",
         "137.5 GB/s .threshold.; wanted is 777.5 to")  # fmt: skip
def test_a_floor_ten_times_too_low() -> None:
    slipped("a100-sxm4-40gb", "dcgmproftester", value=137.5, unit="GB/s", method="dcgmproftester")


@stopped("AWS", AWS, "a floor of 800 GB/s, above what a perfect machine reaches",
         "800 GB/s .threshold.; wanted is .*nvlink_peak 450")  # fmt: skip
def test_a_floor_above_the_possible() -> None:
    slipped("h100-sxm5-80gb", "allreduce", value=800, unit="GB/s", method="nccl-tests", devices=8)


def limited(**fields: Any) -> None:
    """A site's limit as its inventory says it."""
    found = site.read({"gpuburn_limits": {"gemm.tflops": {"because": "the contract", **fields}}}, "host bad")[1]
    planning.make(runs.hardware(site_limits=tuple(found)), runs.NONCE, runs.ISSUED)


@stopped("DCGM", "NVIDIA/DCGM:nvvs/diag-skus.yaml.in", "a limit in another unit than the measurement",
         "is measured in 'TFLOP/s', limited in 'GB/s'")  # fmt: skip
def test_a_limit_in_another_unit() -> None:
    limited(unit="GB/s", min=600)


@stopped("SuperBench", "microsoft/superbenchmark:superbench/analyzer/diagnosis_rule_op.py",
         "criteria are Python text that is evaluated", "wanted is a float|is a str")  # fmt: skip
def test_a_limit_that_is_a_program() -> None:
    limited(unit="TFLOP/s", min="lambda x: x < -0.05")


@caught("Azure NHC", "Azure/azurehpc-health-checks:conf", "limits are lowered until the node passes",
        "limit.loosened", "conditional")  # fmt: skip
def test_the_site_demands_less_than_we_do(tmp_path: Path) -> Account:
    lowered = {"fail_below": 0.5, "warn_below": 0.5, "because": "so it passes"}
    found = site.read({"gpuburn_limits": {"gemm.tflops": lowered}}, "host bad")[1]
    plan = hosts.plan(site_limits=tuple(found))
    one = hosts.host(tmp_path, plan, hosts.changed(plan, "gemm", "tflops", 700.0))
    assert [c.owner for c in one.by_profile["training"].conditions] == ["the buyer"]
    return one


@caught("Oracle OCI", "oracle-quickstart/oci-hpc", "fio: a disk that is 2 % faster than expected fails", "limit.met",
        "accepted", accuses=True)  # fmt: skip
def test_faster_is_no_fault(tmp_path: Path) -> Account:
    plan = hosts.plan()
    [limit] = [one for one in plan.limits if one.about == "gemm.tflops"]
    assert limit.reference is not None
    return hosts.host(tmp_path, plan, hosts.changed(plan, "gemm", "tflops", 1.02 * limit.reference.value))
