"""Faults by which a tool says PASS without having tested: nothing measured, nothing done, nothing said."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import runs

from caught import hosts
from caught.registry import caught
from gpuburn import strict
from gpuburn.controller import status
from gpuburn.controller.account import Account
from gpuburn.identity import Event
from gpuburn.outcome import Outcome
from gpuburn.run_folder import BOOT, KERNEL_LOG_LOST

SUPERBENCH = "microsoft/superbenchmark:superbench/analyzer/diagnosis_rule_op.py"
SOPERATOR = "nebius/soperator:helm/soperator-activechecks/scripts/gpu-checks.sh"
AZURE = "Azure/azurehpc-health-checks:customTests/azure_gpu_xid.nhc"


def test_the_host_that_every_fault_is_put_into_is_accepted_without_it(tmp_path: Path) -> None:
    one = hosts.host(tmp_path, hosts.plan())
    assert (str(one.decision), status.of([one.decision])) == ("accepted", status.ACCEPTED), one.reason


@caught("SuperBench", SUPERBENCH, "a metric that is missing is no violation: the node is accepted",
        "limit.unmeasured", "undecided")  # fmt: skip
def test_a_metric_is_missing(tmp_path: Path) -> Account:
    plan = hosts.plan()
    return hosts.host(tmp_path, plan, hosts.without(plan, "gemm", "tflops", ("gpu3",)))


@caught("SuperBench", SUPERBENCH, "a metric that is NaN is no violation: the node is accepted",
        "step.errored", "undecided")  # fmt: skip
def test_a_metric_is_nan(tmp_path: Path) -> Account:
    """NaN is no number: the host finds its evidence unusable, claims nothing, and says why."""
    plan = hosts.plan()

    def spoil(folder: Path) -> None:
        with (folder / "steps/gemm/readings.gpu3.jsonl").open("ab") as file:
            file.write(b'{"reading":{"metric":"tflops","value":NaN,"subject":"gpu3","at":1.0}}\n')
        ended = {"status": "errored", "why": "NaN is not a finite number", "measurements": [], "facts": []}
        runs.edit(folder / "steps/gemm/outcome.json", lambda one: one.update(ended))
        runs.conclude(folder, plan)

    return hosts.host(tmp_path, plan, spoil=spoil)


@caught("SuperBench", "microsoft/superbenchmark:superbench/analyzer/data_diagnosis.py",
        "a baseline that is null aborts the diagnosis of all hosts", "limit.no_reference", "undecided")  # fmt: skip
def test_a_reference_is_missing_on_one_host_and_the_others_are_judged(tmp_path: Path) -> Account:
    plan = hosts.plan(steps=("memory_bandwidth",))
    judged = [one for one in plan.limits if not one.uncalibrated]  # which makes any host conditional
    plan = dataclasses.replace(plan, limits=judged)
    run = hosts.fleet(tmp_path, plan, 2)
    hosts.sent(run, plan, hosts.without(plan, "memory_bandwidth", "memory_peak"))
    assert hosts.others(run) == {"accepted"}
    return hosts.the(run)


@caught("gpu-burn", "wilicc/gpu-burn#14", "a GPU whose worker did nothing is printed OK: it had no errors",
        "step.no_work", "undecided")  # fmt: skip
def test_a_gpu_did_no_work(tmp_path: Path) -> Account:
    plan = hosts.plan()
    return hosts.host(tmp_path, plan, hosts.without(plan, "gemm", "work", ("gpu7",)))


@caught("gpu-burn", "wilicc/gpu-burn#7", "a GPU that never answered is not in the list, and nobody misses it",
        "step.silent", "undecided")  # fmt: skip
def test_a_gpu_said_nothing(tmp_path: Path) -> Account:
    plan = hosts.plan()

    def mute(one: Outcome) -> Outcome:
        return dataclasses.replace(one, subjects=[s for s in one.subjects if s.subject != "gpu2"])

    return hosts.host(tmp_path, plan, fared=mute)


@caught("gpu-burn", "wilicc/gpu-burn#12", "exit status 0 although a GPU was found faulty", "limit.failed", "rejected")
def test_a_faulty_gpu_sets_the_exit_status(tmp_path: Path) -> Account:
    plan = hosts.plan()
    one = hosts.host(tmp_path, plan, hosts.changed(plan, "gemm", "wrong", 1.0, ("gpu4",)))
    assert status.of([one.decision]) == status.REJECTED
    return one


@caught("DCGM", "NVIDIA/DCGM#284", "an allocation fails, less memory is tested, and the test passes",
        "limit.failed", "rejected")  # fmt: skip
def test_half_of_the_memory_was_not_covered(tmp_path: Path) -> Account:
    plan = hosts.plan(steps=("context",), profiles=("inference",))
    one = hosts.host(tmp_path, plan, hosts.changed(plan, "context", "coverage", 0.5, ("gpu0",)))
    assert "context.coverage" in one.reason
    return one


@caught("DCGM", "NVIDIA/DCGM:nvvs", "a test that was skipped does not fail the suite", "step.never_ran", "undecided")
def test_a_planned_step_never_ran(tmp_path: Path) -> Account:
    plan = hosts.plan(steps=hosts.TWO)

    def spoil(folder: Path) -> None:
        for file in (folder / "steps/allreduce").iterdir():
            file.unlink()
        runs.conclude(folder, plan)

    return hosts.host(tmp_path, plan, spoil=spoil)


@caught("Azure NHC", AZURE, "without a kernel log the check of Xids is skipped and returns 0",
        "kernel_log.unreadable", "undecided")  # fmt: skip
def test_the_kernel_log_could_not_be_read(tmp_path: Path) -> Account:
    events = [Event(BOOT, runs.ISSUED, "host", runs.boot("bad")), Event(KERNEL_LOG_LOST, 1.0, "host", "no /dev/kmsg")]
    return hosts.host(tmp_path, hosts.plan(), events=events)


@caught("Meta GCM", "facebookresearch/gcm:gcm/health_checks/types.py",
        "UNKNOWN compares lower than OK: a check that could not run vanishes when outcomes are merged",
        "fact.unobserved", "undecided")  # fmt: skip
def test_one_unknown_among_many_passes(tmp_path: Path) -> Account:
    plan = hosts.plan()
    return hosts.host(tmp_path, plan, hosts.without(plan, "gemm", "checksum", ("gpu6",)))


@caught("deepops", "NVIDIA/deepops:roles/nvidia-gpu-tests", "ignore_errors on every test task, then only a debug print",
        "step.errored", "undecided")  # fmt: skip
def test_a_step_ended_with_an_error(tmp_path: Path) -> Account:
    return hosts.host(
        tmp_path, hosts.plan(steps=hosts.TWO), fared=lambda one: hosts.errored(one, "allreduce", "no route")
    )


@caught("Oracle OCI", "oracle-quickstart/oci-hpc", "a checker of corruption that crashed (no numpy) shows as finished",
        "step.errored", "undecided")  # fmt: skip
def test_the_checker_itself_crashed(tmp_path: Path) -> Account:
    why = "ModuleNotFoundError: No module named 'numpy'"
    one = hosts.host(tmp_path, hosts.plan(), fared=lambda one: hosts.errored(one, "gemm", why))
    assert why in one.reason
    return one


@caught("gpud", "leptonai/gpud#1085", "the number of GPUs that must be there defaults to 0, which is off",
        "limit.failed", "rejected")  # fmt: skip
def test_seven_of_eight_gpus_are_there(tmp_path: Path) -> Account:
    plan = hosts.plan(steps=("gemm", "identity"))
    one = hosts.host(tmp_path, plan, hosts.changed(plan, "identity", "gpus", 7.0))
    assert "identity.gpus: 7 count" in one.reason
    return one


@caught("gpud", "leptonai/gpud", "NVML is not loaded, so the component is healthy",
        "fact.unobserved", "rejected")  # fmt: skip
def test_nvml_does_not_answer(tmp_path: Path) -> Account:
    plan = hosts.plan(steps=("gemm", "identity"))
    said = hosts.changed(plan, "identity", "gpus", 0.0)
    said["identity"] = [one for one in said["identity"] if getattr(one, "name", "") != "gpu_sku"]
    return hosts.host(tmp_path, plan, said)


@caught("NVSentinel", "NVIDIA/NVSentinel#1748", "failing memory stalls the checker, which then reports nothing",
        "limit.unproven", "undecided")  # fmt: skip
def test_the_sampler_was_blind(tmp_path: Path) -> Account:
    plan = hosts.plan()
    one = hosts.host(tmp_path, plan, hosts.changed(plan, "gemm", "gap", 40.0))
    assert "telemetry.gap" in one.reason
    return one


@caught("Nebius soperator", SOPERATOR, "exit status 0 where the check itself says ERROR",
        "refused", "undecided")  # fmt: skip
def test_a_host_says_that_it_passed_and_its_evidence_does_not(tmp_path: Path) -> Account:
    plan = hosts.plan()

    def pass_anyway(result: dict) -> None:  # type: ignore[type-arg]
        result["findings"] = [{**one, "verdict": "pass"} for one in result["findings"]]
        result["verdicts"] = {"training": "pass"}

    said = hosts.changed(plan, "gemm", "wrong", 3.0)
    return hosts.host(tmp_path, plan, said, spoil=lambda folder: runs.edit(folder / "result.json", pass_anyway))


def test_what_is_kept_of_a_host_is_what_the_plan_demanded(tmp_path: Path) -> None:
    """Every row above begins with the same plan: no step of it is there by accident."""
    plan = hosts.plan()
    assert [step.name for step in plan.steps] == list(hosts.STEPS)
    assert strict.digest(strict.encode(plan)) == strict.digest(strict.encode(hosts.plan()))
