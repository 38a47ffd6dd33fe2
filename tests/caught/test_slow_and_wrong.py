"""Faults of devices that work: wrong, slow, throttled, alone or all alike; and good ones that a peer accuses."""

from __future__ import annotations

from pathlib import Path

import pytest
import runs

from caught import hosts
from caught.registry import caught
from gpuburn.controller.account import Account
from gpuburn.identity import Event
from gpuburn.measurement import Reading
from gpuburn.plan import Plan
from gpuburn.run_folder import BOOT, KERNEL_LOG_READ

AWS = "aws-samples/awsome-distributed-training:4.validation_and_observability/2.gpu-cluster-healthcheck"


def reference(plan: Plan, about: str = "gemm.tflops") -> float:
    return next(one.reference.value for one in plan.limits if one.about == about and one.reference)


@caught("gpu-burn", "wilicc/gpu-burn", "a GPU is compared with itself alone: always wrong in the same way is right",
        "fact.failed", "rejected")  # fmt: skip
def test_a_gpu_is_always_wrong_in_the_same_way(tmp_path: Path) -> Account:
    plan = hosts.plan()
    one = hosts.host(tmp_path, plan, hosts.changed(plan, "gemm", "checksum", "another", ("gpu1",)))
    assert "gpu1" in one.reason
    return one


@caught("gpu-burn", "wilicc/gpu-burn", "a whole host that is always wrong in the same way is right",
        "fleet.odd_fact", "rejected")  # fmt: skip
def test_a_host_is_always_wrong_in_the_same_way(tmp_path: Path) -> Account:
    plan = hosts.plan(steps=("gemm",), count=4)
    run = hosts.fleet(tmp_path, plan, 3)
    hosts.sent(run, plan, hosts.changed(plan, "gemm", "checksum", "another"))
    return hosts.the(run)


@caught("gpu-burn", "wilicc/gpu-burn:compare.cu", "NaN is never greater than the tolerance, so it is no error",
        "limit.failed", "rejected")  # fmt: skip
def test_a_loss_that_is_not_finite(tmp_path: Path) -> Account:
    plan = hosts.plan(steps=("train",))
    one = hosts.host(tmp_path, plan, hosts.changed(plan, "train", "anomalies", 1.0, ("gpu2",)))
    assert "train.anomalies" in one.reason
    return one


@caught("Azure NHC", "Azure/azurehpc-health-checks!3", "throttling is observed and has no failing path",
        "limit.failed", "rejected")  # fmt: skip
def test_a_throttled_gpu_is_slow(tmp_path: Path) -> Account:
    """By its effect; test_device_health.py has the reasons that the driver gives."""
    plan = hosts.plan()
    return hosts.host(tmp_path, plan, hosts.changed(plan, "gemm", "tflops", 0.6 * reference(plan), ("gpu3",)))


@caught("NVSentinel", "NVIDIA/NVSentinel#883", "a GPU that is held back by its power is not noticed",
        "limit.met", "conditional")  # fmt: skip
def test_a_gpu_that_draws_far_less_than_its_limit(tmp_path: Path) -> Account:
    plan = hosts.plan()
    one = hosts.host(tmp_path, plan, hosts.changed(plan, "gemm", "power", 0.7, ("gpu3",)))
    assert {f.about for f in one.findings() if f.marginal} == {"telemetry.power"}
    return one


@caught("gpud", "leptonai/gpud", "one GPU of eight without NVLink is healthy as long as another has links",
        "limit.failed", "rejected")  # fmt: skip
def test_an_nvlink_is_broken(tmp_path: Path) -> Account:
    """By its effect; test_device_health.py has the state of each link."""
    plan = hosts.plan(steps=hosts.TWO)
    slow = 0.5 * reference(plan, "allreduce.busbw")
    one = hosts.host(tmp_path, plan, hosts.changed(plan, "allreduce", "busbw", slow))
    assert "allreduce.busbw" in one.reason
    return one


@caught("NVSentinel", "NVIDIA/NVSentinel!891", "the fabric manager was dead for 20 days, and nobody noticed",
        "step.errored", "undecided")  # fmt: skip
def test_the_fabric_does_not_come_up(tmp_path: Path) -> Account:
    why = "CUDA error 802: system not yet initialized"
    return hosts.host(
        tmp_path, hosts.plan(steps=hosts.TWO), fared=lambda one: hosts.errored(one, "allreduce", why)
    )  # fmt: skip


@caught("gpu-fryer", "huggingface/gpu-fryer", "only the best GPU of its own node is compared with: all slow is good",
        "limit.failed", "rejected")  # fmt: skip
def test_all_gpus_of_a_host_are_slow_alike(tmp_path: Path) -> Account:
    plan = hosts.plan()
    return hosts.host(tmp_path, plan, hosts.changed(plan, "gemm", "tflops", 0.8 * reference(plan)))


@caught("SuperBench", "microsoft/superbenchmark:superbench/analyzer/baseline_generation.py",
        "the baseline is the fleet's own mean: a fleet that is slow alike is normal",
        "fleet.cohort_slow", "conditional")  # fmt: skip
def test_all_hosts_are_slow_alike(tmp_path: Path) -> Account:
    def slow(plan: Plan) -> hosts.Answers:
        return hosts.changed(plan, "gemm", "tflops", 0.9 * reference(plan))

    plan = hosts.plan()
    run = hosts.fleet(tmp_path, plan, 2, slow)
    hosts.sent(run, plan, slow(plan))
    return hosts.the(run)


@caught("AWS", f"{AWS}/checks/5-nccl-allreduce.sh", "a warning is overwritten by the pass that follows it",
        "limit.met", "conditional")  # fmt: skip
def test_a_warning_stays_whatever_passes_after_it(tmp_path: Path) -> Account:
    plan = hosts.plan(steps=hosts.TWO)
    one = hosts.host(tmp_path, plan, hosts.changed(plan, "gemm", "tflops", 0.9 * reference(plan), ("gpu0",)))
    assert [c.condition for c in one.by_profile["training"].conditions] == ["a re-test of what was marginal passes"]
    return one


@caught("Azure", "Azure/azurehpc!628", "one unlucky sample of a bandwidth drains a good node", "limit.met", "accepted",
        accuses=True)  # fmt: skip
def test_one_unlucky_sample(tmp_path: Path) -> Account:
    plan = hosts.plan()
    said = hosts.healthy(plan)
    good = reference(plan)
    said["gemm"] = [one for one in said["gemm"] if getattr(one, "metric", "") != "tflops"]
    for gpu in plan.device_names():
        said["gemm"] += [
            Reading("tflops", good * (0.8 if at == 7 else 1), subject=gpu, at=float(at)) for at in range(60)
        ]
    return hosts.host(tmp_path, plan, said)


def events(*texts: str) -> list[Event]:
    return [
        Event(BOOT, runs.ISSUED, "host", runs.boot("bad")), Event(KERNEL_LOG_READ, runs.ISSUED, "host", ""),
        *(Event("kernel.xid", runs.ISSUED + 9, "0000:18:00", text) for text in texts),
    ]  # fmt: skip


@caught("NVSentinel", "NVIDIA/NVSentinel#1826", "critical Xids are mapped to 'ignore'", "xid.reject", "rejected")
def test_a_gpu_fell_off_the_bus(tmp_path: Path) -> Account:
    return hosts.host(tmp_path, hosts.plan(), events=events("Xid 79, GPU has fallen off the bus"))


@caught("Oracle OCI", "oracle-quickstart/oci-hpc", "a row remapping that failed sets 'Terminate' and logs 'Passed'",
        "xid.reject", "rejected")  # fmt: skip
def test_a_row_remapping_failed(tmp_path: Path) -> Account:
    return hosts.host(tmp_path, hosts.plan(), events=events("Xid 64, row remapping failure"))


@caught("Azure NHC", "Azure/azurehpc-health-checks:customTests/azure_gpu_xid.nhc",
        "18 Xids are looked for, and any other is nothing", "xid.unknown", "undecided")  # fmt: skip
def test_an_xid_that_nobody_knows(tmp_path: Path) -> Account:
    return hosts.host(tmp_path, hosts.plan(), events=events("Xid 9999, something new"))


def beside(code: str, about: str, text: str, times: int = 1) -> list[Event]:
    """A kernel log that was followed, with this beside it."""
    return [*events(), *(Event(code, runs.ISSUED + 9 + n / 100, about, text) for n in range(times))]


@caught("Azure NHC", "Azure/azurehpc-health-checks:customTests/azure_gpu_xid.nhc",
        "only lines with an Xid are looked for: a GPU that fell off the bus without one is nothing",
        "event.reject", "rejected")  # fmt: skip
def test_a_gpu_fell_off_the_bus_and_no_xid_says_so(tmp_path: Path) -> Account:
    text = "NVRM: GPU 0000:18:00.0: GPU has fallen off the bus."
    return hosts.host(tmp_path, hosts.plan(), events=beside("kernel.off_bus", "0000:18:00.0", text))


@caught("Azure NHC", "Azure/azurehpc-health-checks:customTests/azure_gpu_xid.nhc",
        "only lines with an Xid are looked for: a fatal PCIe error of a port or a network card is nothing",
        "event.reject", "rejected")  # fmt: skip
def test_a_pcie_error_that_was_not_corrected(tmp_path: Path) -> Account:
    text = "pcieport 0000:00:1b.2: AER: Uncorrectable (Fatal) error message received from 0000:03:04.0"
    return hosts.host(tmp_path, hosts.plan(), events=beside("kernel.pcie_fatal", "0000:03:04.0", text))


@caught("Azure NHC", "Azure/azurehpc-health-checks:customTests/azure_gpu_xid.nhc",
        "only lines with an Xid are looked for: a fatal SXid of an NVSwitch is nothing",
        "event.reject", "rejected")  # fmt: skip
def test_an_nvswitch_told_a_fatal_error(tmp_path: Path) -> Account:
    text = "nvidia-nvswitch0: SXid (PCI:0000:59:00.0): 23001, Fatal, Link 12 Always Fatal"
    return hosts.host(tmp_path, hosts.plan(), events=beside("kernel.sxid_fatal", "0000:59:00.0", text))


@pytest.mark.parametrize("texts", [("Xid 13, Graphics Exception",), ("Xid 13, a", "Xid 13, b")])
def test_an_xid_that_suspects_the_program_is_the_devices_when_it_repeats(
    tmp_path: Path, texts: tuple[str, ...]
) -> None:
    one = hosts.host(tmp_path, hosts.plan(), events=events(*texts))
    assert str(one.decision) == ("rejected" if len(texts) > 1 else "undecided")
