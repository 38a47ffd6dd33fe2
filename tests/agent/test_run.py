"""The supervisor: from a plan to a result, whatever its workers do."""

from __future__ import annotations

import dataclasses
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gpuburn import plan as plans, result as results, strict
from gpuburn.agent import processes, status
from gpuburn.agent.run import Run
from gpuburn.agent.user import Account
from gpuburn.events import NVML_XID
from gpuburn.finding import Verdict
from gpuburn.identity import Event
from gpuburn.limit import Limit, When
from gpuburn.outcome import Status
from gpuburn.plan import Device, Guard, Place, Plan, Step
from gpuburn.probe import discover
from gpuburn.result import Result
from gpuburn.strict import Refused

ROOT = Path(__file__).parents[2]
FAULTS = ROOT / "tests" / "fakes" / "faults"
DEVICES = [Device(f"cpu{index}", "cpu") for index in range(3)]


def step(probe: str, name: str = "", timeout: float = 60.0, **params: Any) -> Step:
    one = discover()[probe]
    settled = one.settled({**one.smoke, **params}, "test")
    return Step(name or probe, probe, one.scope, one.revision, ("training",), "a test", settled, 1.0, timeout)


def make(steps: list[Step], limits: list[Limit] | None = None, **changed: Any) -> Plan:
    now = time.time()
    basic = Plan(
        plans.SCHEMA, "20261130T080000Z-abcd", "", "host-1", "rehearsal", "container", "user", "", "smoke",
        ("training",), "", Place(), DEVICES, "ab" * 16, 1, now, now + 600, steps, limits or demands(steps), [], [], {},
    )  # fmt: skip
    return dataclasses.replace(basic, **changed)


def demands(steps: list[Step]) -> list[Limit]:
    """One limit per step that any reading meets, so that a verdict of pass is possible."""
    first, wrong = {"idle": ("late", "ms")}, ("wrong", "count")
    return [
        Limit(f"{one.probe}.{first.get(one.probe, wrong)[0]}", first.get(one.probe, wrong)[1], "a test", max=1e9,
              when=When(steps=(one.name,), profiles=one.profiles))
        for one in steps
    ]  # fmt: skip


@pytest.fixture
def carry_out(tmp_path: Path) -> Callable[..., Result]:
    """Run a plan in a supervisor of its own, with a fault in its workers."""

    def run(plan: Plan, faults: str = "") -> Result:
        prepare(tmp_path, plan)
        done = supervise(tmp_path, faults)
        assert done.wait(120) == 0, done.stderr.read()
        return results.decode((tmp_path / "result.json").read_bytes())

    return run


def prepare(folder: Path, plan: Plan) -> None:
    (folder / "plan.json").write_bytes(strict.encode(plan))


def supervise(folder: Path, faults: str = "") -> subprocess.Popen[str]:
    env = {**os.environ, "PYTHONPATH": f"{ROOT}:{FAULTS}", "GPUBURN_FAULTS": faults}
    return subprocess.Popen(
        [sys.executable, "-m", "gpuburn.agent", "run", str(folder)], env=env, text=True, stderr=subprocess.PIPE
    )


def codes(result: Result, verdict: Verdict) -> set[tuple[str, str, str]]:
    return {(f.code, f.step, f.subject) for f in result.findings if f.verdict is verdict}


def test_a_good_run_passes_and_leaves_its_evidence(carry_out, tmp_path):
    result = carry_out(make([step("idle"), step("gemm")]))
    assert result.verdicts == {"training": Verdict.PASS}, codes(result, Verdict.INCOMPLETE)
    assert result.ended_as == "finished"
    assert {"plan.json", "identity.json", "events.jsonl", "steps/gemm/readings.cpu2.jsonl"} <= result.evidence.keys()
    assert result.evidence == results.evidence(tmp_path)
    assert status.status(tmp_path, time.time())["phase"] == "finished"
    assert not list(tmp_path.rglob("scratch"))


def test_ranks_work_together_under_torchrun(carry_out):
    result = carry_out(make([step("allreduce")]))
    assert result.verdicts == {"training": Verdict.PASS}
    assert {m.subject for m in result.outcomes[0].measurements if m.name == "allreduce.wrong"} == {
        "cpu0",
        "cpu1",
        "cpu2",
    }


def test_a_flipped_bit_fails_its_device_and_no_other(carry_out):
    result = carry_out(make([step("gemm")], [limit("gemm.wrong", unit="count", max=0.0)]), "gemm:flip:cpu1")
    assert result.verdicts == {"training": Verdict.FAIL}
    assert codes(result, Verdict.FAIL) == {("limit.failed", "gemm", "cpu1")}


def test_a_device_that_is_always_wrong_is_found_by_the_others(carry_out):
    plan = make([step("gemm")], [limit("gemm.checksum", agree="host"), limit("gemm.wrong", unit="count", max=0.0)])
    result = carry_out(plan, "gemm:consistently_wrong:cpu2")
    assert codes(result, Verdict.FAIL) == {("fact.failed", "gemm", "cpu2")}


def limit(about: str, **fields: Any) -> Limit:
    name = about.partition(".")[0]
    return Limit(about, because="a test", when=When(steps=(name,), profiles=("training",)), **fields)


def test_a_crash_ends_its_device_not_its_neighbours_nor_the_run(carry_out):
    result = carry_out(make([step("gemm"), step("idle")]), "gemm:crash:cpu0")
    gemm, idle = result.outcomes
    assert {one.subject: one.status for one in gemm.subjects} == {
        "cpu0": Status.ERRORED, "cpu1": Status.COMPLETED, "cpu2": Status.COMPLETED,
    }  # fmt: skip
    assert "injected crash" in gemm.why
    assert idle.status is Status.COMPLETED
    assert result.verdicts == {"training": Verdict.INCOMPLETE}


def test_a_process_that_dies_without_a_word_is_named_with_its_signal(carry_out):
    result = carry_out(make([step("gemm")]), "gemm:segfault:cpu1")
    [dead] = [one for one in result.outcomes[0].subjects if one.subject == "cpu1"]
    assert dead.status is Status.ERRORED and "signal 11" in dead.why


def test_the_first_rank_to_fail_is_the_cause_of_the_others(carry_out):
    result = carry_out(make([step("allreduce")]), "allreduce:crash:cpu1")
    outcome = result.outcomes[0]
    assert outcome.status is Status.ERRORED
    assert all("injected crash" in one.why for one in outcome.subjects), outcome.subjects
    assert result.verdicts == {"training": Verdict.INCOMPLETE}


def test_a_rank_that_dies_of_a_signal_is_named_and_the_stacks_of_all_are_kept(carry_out, tmp_path):
    result = carry_out(make([step("allreduce")]), "allreduce:segfault:cpu1")
    assert all("signal 11" in one.why for one in result.outcomes[0].subjects), result.outcomes[0].subjects
    stacks = {path.name: path.read_text() for path in tmp_path.rglob("stacks.*.txt")}
    assert "Segmentation fault" in stacks["stacks.1.txt"]


@pytest.mark.parametrize(("fault", "said"), [("killed", "signal 9"), ("full", "No space left on device")])
def test_a_rank_without_memory_or_disk_ends_its_step_and_the_next_one_runs(carry_out, fault, said):
    result = carry_out(make([step("allreduce"), step("allreduce", "again")]), f"allreduce:{fault}:cpu1")
    first, again = result.outcomes
    assert first.status is Status.ERRORED and all(said in one.why for one in first.subjects), first.subjects
    assert {one.subject: one.why.startswith("ended after cpu1 failed") for one in first.subjects}["cpu0"]
    assert len(again.subjects) == 3  # a crash is no proof that the device is gone: it is tried again
    assert result.verdicts == {"training": Verdict.INCOMPLETE}


def test_the_steps_after_a_lost_device_run_on_those_that_are_left(carry_out):
    gpus = [Device(f"gpu{index}", "cpu") for index in range(3)]
    steps = [step("allreduce"), step("gemm"), step("pairs"), step("allreduce", "again")]
    limits = [one for one in demands([steps[0], steps[1], steps[3]])]
    plan = make(steps, limits, devices=gpus, kind="simulated")
    result = carry_out(plan, "allreduce:gone:gpu1")
    first, *later = result.outcomes
    assert all("Missing: gpu1" in one.why for one in first.subjects)
    for outcome in later:
        fared = {one.subject: (one.status, one.why) for one in outcome.subjects}
        why = "given no work: not found by CUDA in step allreduce"
        assert fared == {"gpu0": (Status.COMPLETED, ""), "gpu1": (Status.ERRORED, why), "gpu2": (Status.COMPLETED, "")}
    assert {m.subject for m in later[1].measurements if m.name == "pairs.wrong"} == {"gpu0>gpu2", "gpu2>gpu0"}
    assert ("step.errored", "again", "gpu1") in codes(result, Verdict.INCOMPLETE)
    assert result.verdicts == {"training": Verdict.INCOMPLETE}


def test_steps_of_load_end_when_nvml_tells_of_a_failure_and_other_steps_do_not(tmp_path):
    gpus = [Device("gpu0", "cpu", pci="0000:3b:00.0")]
    steps = [step("power_steps"), step("idle")]
    prepare(tmp_path, make(steps, demands(steps[1:]), devices=gpus, kind="simulated"))
    run, folder = Run(tmp_path), tmp_path / "steps" / "power_steps"
    folder.mkdir(parents=True)
    assert run._alarmed(folder) == ""
    (folder / "nvml_events.jsonl").write_bytes(
        strict.line(Event(NVML_XID, 1.0, "0000:3b:00.0", "Xid 79, told by NVML"))
    )
    run._heard = -1e9
    assert run._alarmed(folder).startswith(f"{NVML_XID} of 0000:3b:00")
    assert run.stopped() == "", "the run itself goes on"


def test_of_a_rank_that_hangs_and_of_those_that_wait_for_it_the_stacks_are_kept(carry_out, tmp_path):
    result = carry_out(make([step("allreduce", timeout=20.0)]), "allreduce:hang:cpu1")
    assert result.outcomes[0].status is Status.TIMED_OUT, result.outcomes[0].why
    stacks = {path.name: path.read_text() for path in tmp_path.rglob("stacks.*.txt")}
    assert set(stacks) == {f"stacks.{rank}.txt" for rank in range(3)}
    assert "in hang" in stacks["stacks.1.txt"] and "allreduce.py" in stacks["stacks.0.txt"]


def test_a_hang_ends_at_its_timeout_and_the_run_goes_on(carry_out, tmp_path):
    result = carry_out(make([step("idle", timeout=3.0), step("gemm")]), "idle:hang")
    [stack] = tmp_path.rglob("stacks.*.txt")
    assert stack.name == "stacks.host.txt" and "in hang" in stack.read_text()
    assert [one.status for one in result.outcomes] == [Status.TIMED_OUT, Status.COMPLETED]
    assert ("step.timed_out", "idle", "host") in codes(result, Verdict.INCOMPLETE)


def test_a_worker_that_ignores_sigterm_is_killed(carry_out, monkeypatch):
    result = carry_out(make([step("idle", timeout=2.0)]), "idle:stubborn")
    assert result.outcomes[0].status is Status.TIMED_OUT


def test_no_child_of_a_worker_outlives_its_step(carry_out, tmp_path):
    carry_out(make([step("idle", timeout=3.0)]), "idle:orphan")
    pid = int((tmp_path / "steps" / "idle" / "orphan").read_text())
    assert processes.start_time(pid) is None


def test_ending_well_without_work_is_never_a_pass(carry_out):
    result = carry_out(make([step("idle")]), "idle:silent")
    assert ("step.no_work", "idle", "host") in codes(result, Verdict.INCOMPLETE)
    assert result.verdicts == {"training": Verdict.INCOMPLETE}


@pytest.mark.parametrize("fault, said", [("stranger", "gpu99"), ("garbage", "finite")])
def test_evidence_that_does_not_parse_makes_its_step_errored(carry_out, fault, said):
    result = carry_out(make([step("idle")]), f"idle:{fault}")
    outcome = result.outcomes[0]
    assert outcome.status is Status.ERRORED and said in outcome.why
    assert outcome.measurements == []


def test_a_guard_ends_its_step_which_is_never_a_pass(carry_out):
    guards = [Guard("disk_free", "GiB", "a test", min=1e9)]
    result = carry_out(make([step("idle", seconds=30.0)], guards=guards))
    assert ("guard.tripped", "idle", "host") in codes(result, Verdict.INCOMPLETE)
    assert result.verdicts == {"training": Verdict.INCOMPLETE}


def test_a_passed_deadline_ends_the_run_with_a_result(carry_out):
    result = carry_out(make([step("idle")], deadline=time.time() - 1))
    assert result.ended_as == "deadline"
    assert codes(result, Verdict.INCOMPLETE) >= {("step.never_ran", "idle", "host")}


def test_stop_writes_a_result_that_says_aborted(tmp_path):
    prepare(tmp_path, make([step("idle", seconds=600.0, timeout=900.0), step("idle", "later")]))
    supervisor = supervise(tmp_path)
    until(lambda: list(tmp_path.glob("steps/idle/telemetry.jsonl")))
    assert "asked to stop" in status.stop(tmp_path)
    assert supervisor.wait(60) == 0
    result = results.decode((tmp_path / "result.json").read_bytes())
    assert result.ended_as == "aborted"
    assert [one.status for one in result.outcomes] == [Status.ABORTED]
    assert ("step.never_ran", "later", "host") in codes(result, Verdict.INCOMPLETE)


def test_a_second_supervisor_is_kept_out(tmp_path):
    prepare(tmp_path, make([step("idle", seconds=600.0, timeout=900.0)]))
    first = supervise(tmp_path)
    until(lambda: list(tmp_path.glob("steps/idle/telemetry.jsonl")))
    second = supervise(tmp_path)
    assert second.wait(30) == 1
    assert "another process" in second.stderr.read()
    first.send_signal(signal.SIGTERM)
    assert first.wait(60) == 0


def killed_in_the_middle(folder: Path, attempt: int = 1) -> None:
    """Start, and end the supervisor as a power loss would, in the middle of step "slow"."""
    supervisor = supervise(folder)
    until(lambda: attempts(folder).get("slow") == attempt and list(folder.glob("steps/slow/telemetry.jsonl")))
    children = processes.tree([supervisor.pid])
    supervisor.kill()
    supervisor.wait(30)
    assert processes.wait_gone(children, 20) == [], "workers die with their supervisor"


def attempts(folder: Path) -> dict[str, int]:
    path = folder / "state.json"
    return json.loads(path.read_text())["attempts"] if path.exists() else {}


def test_a_killed_run_says_vanished_and_goes_on_where_it_was(tmp_path):
    prepare(tmp_path, make([step("idle"), step("idle", "slow", seconds=2.0)]))
    killed_in_the_middle(tmp_path)
    assert status.status(tmp_path, time.time(), uptime=9e9)["phase"] == "restarting"
    assert status.status(tmp_path, time.time() + 1e4, uptime=10.0)["phase"] == "restarting", "the host has just booted"
    assert status.status(tmp_path, time.time() + 1e4, uptime=9e9)["phase"] == "vanished"
    first = (tmp_path / "steps" / "idle" / "outcome.json").read_bytes()
    assert supervise(tmp_path).wait(60) == 0
    result = results.decode((tmp_path / "result.json").read_bytes())
    assert (tmp_path / "steps" / "idle" / "outcome.json").read_bytes() == first, "a finished step is kept"
    assert [one.attempt for one in result.outcomes] == [1, 2]
    assert result.verdicts == {"training": Verdict.PASS}, codes(result, Verdict.INCOMPLETE)
    assert "interrupted/slow-1/assignment.json" in result.evidence


def test_a_step_that_is_interrupted_twice_is_errored(tmp_path):
    prepare(tmp_path, make([step("idle", "slow", seconds=60.0, timeout=90.0)]))
    killed_in_the_middle(tmp_path)
    killed_in_the_middle(tmp_path, attempt=2)
    assert supervise(tmp_path).wait(60) == 0
    result = results.decode((tmp_path / "result.json").read_bytes())
    assert result.outcomes[0].status is Status.ERRORED
    assert "interrupted 2 times" in result.outcomes[0].why


def test_another_plan_in_the_same_folder_is_refused(tmp_path):
    prepare(tmp_path, make([step("idle", "slow", seconds=60.0, timeout=90.0)]))
    killed_in_the_middle(tmp_path)
    prepare(tmp_path, make([step("idle")], run="20261130T080000Z-ffff"))
    again = supervise(tmp_path)
    assert again.wait(30) == 2
    assert "holds run" in again.stderr.read()


def test_a_plan_with_a_misspelt_parameter_is_refused_before_anything_runs(tmp_path):
    plan = make([step("idle")])
    plan.steps[0].params["secondz"] = 1.0
    prepare(tmp_path, plan)
    refused = supervise(tmp_path)
    assert refused.wait(30) == 2
    assert "secondz" in (said := refused.stderr.read()) and "did you mean 'seconds'" in said
    assert not (tmp_path / "steps").exists()


def test_cuda_planned_and_missing_is_errored_and_never_runs_on_the_cpu(carry_out):
    plan = make([step("gemm")], devices=[Device("gpu0", "cuda", pci="0000:18:00.0")], kind="hardware")
    result = carry_out(plan)
    assert result.outcomes[0].status is Status.ERRORED
    assert "gpu0 is planned on CUDA" in result.outcomes[0].why
    assert result.verdicts == {"training": Verdict.INCOMPLETE}


def test_the_supervisor_and_the_sampler_do_not_import_torch(tmp_path):
    code = (
        "import sys, gpuburn.agent.run, gpuburn.agent.telemetry, gpuburn.agent.status; sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT).returncode == 0


def test_detached_the_run_goes_on_without_its_starter(tmp_path):
    prepare(tmp_path, make([step("idle")]))
    started = subprocess.run(
        [sys.executable, "-m", "gpuburn.agent", "run", str(tmp_path), "--detach"],
        cwd=ROOT,
        capture_output=True,
        timeout=30,
    )
    assert started.returncode == 0
    until(lambda: (tmp_path / "sealed.tar.gz").exists())


def test_only_processes_that_were_started_here_are_signalled():
    """A pid that was given to another process since is left alone: the start time is part of who it is."""
    me = os.getpid()
    assert processes.alive([(me, (processes.start_time(me) or 0) + 1)]) == []


def test_a_sampler_that_dies_ends_the_step_as_errored(tmp_path):
    prepare(tmp_path, make([step("idle", seconds=600.0, timeout=900.0)]))
    supervisor = supervise(tmp_path)
    until(lambda: list(tmp_path.glob("steps/idle/telemetry.jsonl")))
    [sampler] = [pid for pid, _ in processes.tree([supervisor.pid]) if b"gpuburn.agent.telemetry" in command(pid)]
    os.kill(sampler, signal.SIGKILL)
    assert supervisor.wait(60) == 0
    outcome = results.decode((tmp_path / "result.json").read_bytes()).outcomes[0]
    assert outcome.status is Status.ERRORED and "sampler" in outcome.why


def command(pid: int) -> bytes:
    path = Path(f"/proc/{pid}/cmdline")
    return path.read_bytes() if path.exists() else b""


def test_an_account_that_does_not_exist_is_refused_by_name():
    if os.geteuid() != 0:
        pytest.skip("only root changes accounts")
    with pytest.raises(Refused, match="no account"):
        Account.named("nobody-has-this-name")


def until(true: Callable[[], Any], seconds: float = 60.0) -> None:
    """Wait, bounded, for something that another process does."""
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, "did not happen"
        time.sleep(0.05)


def test_a_status_is_one_json_object(tmp_path, carry_out):
    carry_out(make([step("idle")]))
    told = subprocess.run(
        [sys.executable, "-m", "gpuburn.agent", "status", str(tmp_path), "--json"],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert json.loads(told.stdout)["phase"] == "finished"
