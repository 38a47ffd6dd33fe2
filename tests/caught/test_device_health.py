"""What devices and hosts tell of themselves: counters, links, modes and versions that peers read and do not judge."""

from __future__ import annotations

from pathlib import Path

import pytest

from caught import hosts
from caught.registry import caught
from gpuburn.controller.account import Account
from gpuburn.plan import Plan

STEPS = ("host_health", "gpu_health", "gemm")


def alone(tmp_path: Path, step: str, name: str, to: float, subject: str) -> Account:
    """The account of a good host, but for one quantity, which is all that fails."""
    plan = hosts.plan(steps=STEPS)
    said = hosts.changed(plan, step, name.partition(".")[2], to, () if subject == "host" else (subject,))
    one = hosts.host(tmp_path, plan, said)
    assert about(one) == {(name, step, subject)}
    return one


def about(one: Account) -> set[tuple[str, str, str]]:
    """(quantity, step, subject) of what failed."""
    return {(found.about, found.step, found.subject) for found in one.findings() if found.verdict == "fail"}


@caught("gpud", "leptonai/gpud", "ECC counters are exported and never judged: always 'no ECC issue found'",
        "limit.failed", "rejected")  # fmt: skip
def test_memory_errors_that_ecc_could_not_correct(tmp_path: Path) -> Account:
    return alone(tmp_path, "gpu_health", "gpu_health.ecc_uncorrected", 1.0, "gpu3")


@caught("Azure NHC", "Azure/azurehpc-health-checks:customTests/azure_gpu_ecc.nhc",
        "uncorrectable DRAM errors are held against the limit of correctable ones; a wrong column is read",
        "limit.failed", "rejected")  # fmt: skip
def test_one_uncorrected_error_beside_many_corrected_ones(tmp_path: Path) -> Account:
    plan = hosts.plan(steps=STEPS)
    said = hosts.changed(plan, "gpu_health", "ecc_corrected", 4000.0, ("gpu3",))
    assert about(hosts.host(tmp_path / "corrected", plan, said)) == set()
    said["gpu_health"] = hosts.put(said["gpu_health"], "ecc_uncorrected", 1.0, ("gpu3",))
    one = hosts.host(tmp_path, plan, said)
    assert about(one) == {("gpu_health.ecc_uncorrected", "gpu_health", "gpu3")}
    return one


@caught("Azure NHC", "Azure/azurehpc-health-checks!3", "the reasons for throttling are logged, never judged",
        "limit.failed", "rejected")  # fmt: skip
@pytest.mark.parametrize("reason", ["hw_thermal", "power_brake", "hw_slowdown"])
def test_the_hardware_slows_a_gpu_down(tmp_path: Path, reason: str) -> Account:
    return alone(tmp_path, "gemm", f"telemetry.{reason}", 2.0, "gpu3")


def links(of: Plan) -> hosts.Answers:
    """The answers of a good host whose links are of generation 5 with 16 lanes, and say so."""
    said = hosts.healthy(of)
    for name, value in {"pcie_gen": 5.0, "pcie_gen_max": 5.0, "pcie_width": 16.0, "pcie_width_max": 16.0}.items():
        said["gemm"] = hosts.put(said["gemm"], name, value)
    return said


@caught("NVSentinel", "NVIDIA/NVSentinel#890", "a PCIe link that came up narrower or slower is not noticed",
        "limit.failed", "rejected")  # fmt: skip
@pytest.mark.parametrize(("link", "came_up"), [("pcie_width", 8.0), ("pcie_gen", 4.0)])
def test_a_pcie_link_is_narrower_or_slower_under_load(tmp_path: Path, link: str, came_up: float) -> Account:
    plan = hosts.plan(steps=STEPS)
    said = links(plan)
    said["gemm"] = hosts.put(said["gemm"], link, came_up, ("gpu3",))
    one = hosts.host(tmp_path, plan, said)
    assert about(one) == {(f"telemetry.{link}", "gemm", "gpu3")}
    return one


@caught("sichek", "scitix/sichek!54", "a link's generation is read at idle, where it is low by design",
        "informational", "accepted", accuses=True)  # fmt: skip
def test_a_link_rests_at_a_low_generation(tmp_path: Path) -> Account:
    plan = hosts.plan(steps=("idle", *STEPS))
    said = links(plan)
    said["idle"] = hosts.put(said["idle"], "pcie_gen", 1.0)
    return hosts.host(tmp_path, plan, said)


@caught("gpud", "leptonai/gpud!1174", "an NVLink that is not active is healthy", "limit.failed", "rejected")
def test_an_nvlink_is_not_active(tmp_path: Path) -> Account:
    return alone(tmp_path, "gpu_health", "gpu_health.nvlink_links", 17.0, "gpu3")


@caught("Oracle OCI", "oracle-quickstart/oci-hpc", "rows that wait for a reset, or could not be remapped, are lost",
        "limit.failed", "rejected")  # fmt: skip
@pytest.mark.parametrize("row", ["remap_pending", "remap_failure"])
def test_a_memory_row_waits_or_could_not_be_remapped(tmp_path: Path, row: str) -> Account:
    return alone(tmp_path, "gpu_health", f"gpu_health.{row}", 1.0, "gpu3")


@caught("NVSentinel", "NVIDIA/NVSentinel#1748", "memory errors that grow with load are not reported",
        "limit.failed", "rejected")  # fmt: skip
@pytest.mark.parametrize("growth", ["uncorrected", "remapped"])
def test_memory_errors_grow_under_load(tmp_path: Path, growth: str) -> Account:
    return alone(tmp_path, "gemm", f"telemetry.{growth}", 1.0, "gpu3")


@caught("GPU driver container", "NVIDIA/gpu-driver-container#735", "driver and fabric manager of two versions",
        "limit.failed", "rejected")  # fmt: skip
def test_driver_and_fabric_manager_are_of_two_versions(tmp_path: Path) -> Account:
    return alone(tmp_path, "host_health", "host_health.fabric_differs", 1.0, "host")
