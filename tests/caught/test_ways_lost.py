"""Faults of the way: hosts that are lost, stale results, other versions, full disks, fleets decided by accident."""

from __future__ import annotations

import dataclasses
import json
import random
from pathlib import Path
from typing import Any

import pytest
import runs

from caught import hosts
from caught.registry import caught
from gpuburn import strict
from gpuburn.agent.seal import seal
from gpuburn.controller import preflight
from gpuburn.controller.account import Account, told
from gpuburn.controller.run import Run
from gpuburn.measurement import Fact
from gpuburn.outcome import GuardTrip, Outcome, Status
from gpuburn.plan import Plan

CHS = "GoogleCloudPlatform/cluster-health-scanner"
SECOND = "20260102T000000Z-0000"


@caught("Ansible", "ansible/ansible#82834", "an unreachable host leaves the play, and with it the result",
        "never_reached", "untested")  # fmt: skip
def test_a_host_is_unreachable(tmp_path: Path) -> Account:
    plan = hosts.plan()
    run = Run.of(tmp_path, runs.RUN)
    good = dataclasses.replace(plan, host="good")
    run.expect([runs.expected(plan), runs.expected(good)])
    run.host("good").mkdir(parents=True)
    (run.host("good") / "plan.json").write_bytes(strict.encode(good))
    run.note(1.0, "unreachable", "bad", task="Look at the host", why="no route to host")
    hosts.sent(run, good)
    assert hosts.others(run) == {"accepted"}
    return hosts.the(run)


@caught("Azure", "Azure/azhpc-diagnostics#11", "the suite hangs on a node, and with it the run",
        "lost", "rejected")  # fmt: skip
def test_a_host_goes_away_under_load(tmp_path: Path) -> Account:
    plan = hosts.plan()
    run = hosts.fleet(tmp_path, plan, 1)
    run.note(runs.ISSUED, "phase", "bad", phase="running")
    run.note(plan.deadline + 0.5, "watched", until=plan.deadline + 0.5)
    assert hosts.others(run, plan.deadline + 1) == {"accepted"}
    return hosts.the(run, now=plan.deadline + 1)


@caught("Azure NHC", "Azure/azurehpc-health-checks", "above 300 nodes: 'No results reported', and no verdict",
        "uncollected", "undecided")  # fmt: skip
def test_a_host_worked_and_its_result_is_not_there(tmp_path: Path) -> Account:
    run = runs.home(tmp_path, hosts.plan())
    for phase in ("running", "finished"):
        run.note(runs.ISSUED, "phase", "bad", phase=phase)
    return hosts.the(run)


@caught("Google CHS", CHS, "on a timeout the result is not updated: yesterday's pass stays", "refused", "undecided")
def test_the_result_is_of_an_earlier_plan(tmp_path: Path) -> Account:
    """The same host, the same run id, another nonce: what lay on the disk before."""
    plan = hosts.plan()
    stale = dataclasses.replace(plan, nonce="f" * 32)
    run = hosts.fleet(tmp_path, plan, 1)
    hosts.sent(run, stale)
    assert hosts.others(run) == {"accepted"}
    return hosts.the(run)


@caught("Google CHS", CHS, "a result is a label on the node, whichever run it is from", "refused", "undecided")
def test_the_result_is_of_an_earlier_run(tmp_path: Path) -> Account:
    plan = hosts.plan()
    run = runs.home(tmp_path, plan)
    folder = hosts.sent(run, plan)
    runs.edit(folder / "result.json", lambda result: result.update(run="20251231T000000Z-0000"))
    seal(folder)
    runs.bring(run, plan.host, folder)
    return hosts.the(run)


@pytest.mark.parametrize("name", ["run", "delivery", "host", "nonce", "plan_sha256", "criteria"])
def test_a_result_that_says_to_be_of_another(tmp_path: Path, name: str) -> None:
    """Each of these alone is enough: the plan on its disk is the one that was sent, and so is everything else."""

    def spoil(folder: Path) -> None:
        runs.edit(folder / "result.json", lambda result: result.update({name: "f" * 64}))

    one = hosts.host(tmp_path, hosts.plan(), spoil=spoil)
    assert (one.reached, str(one.decision)) == ("refused", "undecided")


@caught("Google CHS", CHS, "the wrapper ends for all if one node is not idle", "not_started", "untested")
def test_a_host_is_in_use(tmp_path: Path) -> Account:
    plan = hosts.plan()
    says: dict[str, Any] = {
        "sku": plan.sku,
        "gpu_count": 8,
        "become": True,
        "kind": "hardware",
        "profiles": ["training"],
    }
    [host] = preflight.expect({"bad": {f"gpuburn_{name}": value for name, value in says.items()}})
    look = preflight.Look("3.12.3", "Ubuntu 24.04", "x86_64", 100.0, 64.0, 1000.0, 0, True, busy=["4711 vllm"])
    why = preflight.refusal(host, look, runs.RUN, 1000.0)
    run = hosts.fleet(tmp_path, plan, 1)
    run.note(1.0, "refused", "bad", why=why)
    assert hosts.others(run) == {"accepted"}
    one = hosts.the(run)
    assert "in use by 4711 vllm" in one.reason
    return one


@caught("DCGM", "NVIDIA/DCGM#215", "JSON changes its shape between versions, and what is gone is not missed",
        "refused", "undecided")  # fmt: skip
def test_a_result_of_another_schema(tmp_path: Path) -> Account:
    plan = hosts.plan()

    def spoil(folder: Path) -> None:
        runs.edit(folder / "result.json", lambda result: result.update(schema="gpuburn/result/0"))

    one = hosts.host(tmp_path, plan, spoil=spoil)
    assert "gpuburn/result/0" in one.reason
    return one


@caught("DCGM", "NVIDIA/DCGM#272", "numbers of two versions of a test are compared as if they were one",
        "step.other_revision", "undecided")  # fmt: skip
def test_another_version_of_the_probe_ran(tmp_path: Path) -> Account:
    return hosts.host(tmp_path, hosts.plan(), fared=lambda one: dataclasses.replace(one, revision=99))


@caught("DCGM", "NVIDIA/DCGM#279", "logs grow to gigabytes until the disk is full", "guard.tripped", "undecided")
def test_the_disk_is_full(tmp_path: Path) -> Account:
    def full(one: Outcome) -> Outcome:
        trip = GuardTrip("disk_free", "host", 0.5, "0.5 GiB free, wanted is at least 1")
        return dataclasses.replace(one, status=Status.ABORTED, why=trip.why, trips=[trip])

    return hosts.host(tmp_path, hosts.plan(), fared=full)


@caught("SuperBench", "microsoft/superbenchmark#626", "the same data, two runs of the diagnosis, two verdicts",
        "limit.failed", "rejected")  # fmt: skip
def test_the_same_data_says_the_same_in_any_order(tmp_path: Path) -> Account:
    plan = hosts.plan(count=3)
    near = random.Random(5)
    said = []
    for place in ("one", "two"):
        run = hosts.fleet(tmp_path / place, plan, 2)
        answers = hosts.changed(plan, "gemm", "wrong", 2.0, ("gpu1",))
        near.shuffle(answers["gemm"])
        hosts.sent(run, plan, answers)
        said += [told(hosts.give(run, hosts.NOW)) for _ in range(2)]
    assert len(set(said)) == 1 and len(json.loads(said[0])) == 3
    return hosts.the(run)


def of_lot(run: str) -> Plan:
    return hosts.plan(run=run, delivery="lot-1")


@caught("Azure NHC", "Azure/azurehpc-health-checks:customTests/azure_gpu_xid.nhc",
        "a fatal error fails the first run only; the second passes", "unexplained", "conditional")  # fmt: skip
def test_a_second_run_passes(tmp_path: Path) -> Account:
    first, second = (Run.of(tmp_path, id) for id in (runs.RUN, SECOND))
    for run, wrong in ((first, 1.0), (second, 0.0)):
        plan = of_lot(run.id)
        run.expect([runs.expected(plan)])
        run.host("bad").mkdir(parents=True)
        (run.host("bad") / "plan.json").write_bytes(strict.encode(plan))
        hosts.sent(run, plan, hosts.changed(plan, "gemm", "wrong", wrong, ("gpu0",)))
    assert str(hosts.the(first).decision) == "rejected"
    return hosts.the(second)


@caught("DCGM", "NVIDIA/DCGM#242", "a check that is wrong itself (a violation of 0.0 s) fails every good node",
        "fleet.held", "undecided", accuses=True)  # fmt: skip
def test_most_hosts_fail_the_same_check(tmp_path: Path) -> Account:
    def wrong(plan: Plan) -> hosts.Answers:
        return hosts.changed(plan, "gemm", "wrong", 1.0, ("gpu0",))

    plan = hosts.plan(count=1)
    run = hosts.fleet(tmp_path, plan, 7, wrong)
    hosts.sent(run, plan, wrong(plan))
    return hosts.the(run)


def drifted(tmp_path: Path, name: str) -> Account:
    """Four hosts; one of them has another version of something."""
    plan = hosts.plan(steps=("gemm", "identity"), count=2)
    run = hosts.fleet(tmp_path, plan, 3)
    hosts.sent(run, plan, hosts.changed(plan, "identity", name, "550.54"))
    assert hosts.others(run) == {"accepted"}
    return hosts.the(run)


@caught("GPU operator", "NVIDIA/gpu-operator#544", "the driver of some nodes moves on by itself", "fleet.odd_version",
        "conditional")  # fmt: skip
def test_the_driver_drifts(tmp_path: Path) -> Account:
    return drifted(tmp_path, "driver")


@caught("sichek", "scitix/sichek", "the wanted VBIOS is the same text for three models, a placeholder",
        "fleet.odd_version", "conditional")  # fmt: skip
def test_the_vbios_drifts(tmp_path: Path) -> Account:
    return drifted(tmp_path, "gpu_vbios")


@caught("all of these", "", "one serial number on two hosts is two good hosts", "fleet.duplicate", "rejected")
def test_a_serial_is_on_two_hosts(tmp_path: Path) -> Account:
    plan = hosts.plan(steps=("gemm", "identity"), count=2)
    run = hosts.fleet(tmp_path, plan, 2)
    said = hosts.healthy(plan)
    said["identity"] = [
        dataclasses.replace(one, value="gpu_serial of good0 gpu0")
        if isinstance(one, Fact) and (one.name, one.subject) == ("gpu_serial", "gpu1")
        else one
        for one in said["identity"]
    ]
    hosts.sent(run, plan, said)
    return hosts.the(run)
