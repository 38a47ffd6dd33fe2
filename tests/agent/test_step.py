"""One step, carried out in this process: what its workers leave and how long it may become is never trusted."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path

import pytest

from gpuburn import evidence, result as results, run_folder
from gpuburn.agent import cgroup, launch, lifeline, processes, room
from gpuburn.agent.launch import Processes
from gpuburn.agent.step import KEPT, carry_out
from gpuburn.agent.user import Account
from gpuburn.outcome import Outcome, Status
from gpuburn.plan import Device
from tests.agent.test_run import DEVICES, FAULTS, ROOT, make, step


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Carry out one step under a fault; the controller must come to the same outcome from what it left."""

    def carried(fault: str = "", stopped=lambda: "", plan=None, **params) -> Outcome:
        monkeypatch.setenv("PYTHONPATH", f"{ROOT}:{FAULTS}")
        monkeypatch.setenv("GPUBURN_FAULTS", fault)
        monkeypatch.setattr(launch, "PATIENCE", 2.0)
        plan = plan or make([step("idle", **params)])
        folder = tmp_path / "steps" / plan.steps[0].name
        folder.mkdir(parents=True)
        outcome = carry_out(plan, plan.steps[0], folder, Account(), 1, stopped, lambda: None)
        assert [one for one in processes.tree([os.getpid()]) if str(folder) in command(one[0])] == []
        results.evidence(tmp_path)
        assert not outcome.measurements or run_folder.amounts(tmp_path, plan, plan.steps[0], outcome) == outcome
        return outcome

    return carried


def command(pid: int) -> str:
    path = Path(f"/proc/{pid}/cmdline")
    return path.read_text(errors="replace") if path.exists() else ""


def test_a_sampler_that_hangs_ends_its_step(run, monkeypatch):
    monkeypatch.setattr(launch, "BLIND", 3.0)
    outcome = run("telemetry:mute", seconds=600.0)
    assert outcome.status is Status.ERRORED and "the sampler is blind" in outcome.why
    assert {m.name: m.value for m in outcome.measurements}["telemetry.samples"] == 2


def test_a_worker_that_prints_without_end_ends_its_step(run, tmp_path, monkeypatch):
    monkeypatch.setattr(room, "LOG", 4 * KEPT)
    outcome = run("idle:chatter")
    assert outcome.status is Status.ERRORED and "log/host.log is longer than 4194304 bytes" in outcome.why
    assert (tmp_path / "steps/idle/log/host.log").stat().st_size < KEPT + 100


def test_evidence_without_end_ends_its_step_and_can_still_be_read(run, tmp_path, monkeypatch):
    monkeypatch.setattr(evidence, "LINES", 4 * KEPT)
    outcome = run("idle:flood")
    assert outcome.status is Status.ERRORED
    assert outcome.why == "its evidence readings.host.jsonl is longer than 4194304 bytes"
    assert "idle.late" in {m.name for m in outcome.measurements}, "what is kept of it is whole"
    assert (tmp_path / "steps/idle/readings.host.jsonl").stat().st_size <= KEPT


def test_a_run_whose_evidence_could_not_be_sealed_ends_its_step(run, tmp_path, monkeypatch):
    monkeypatch.setattr(room, "RUN", 1000)
    (tmp_path / "earlier.jsonl").write_bytes(b"x" * 900)
    outcome = run(seconds=600.0)
    assert outcome.status is Status.ERRORED and outcome.why == "the run's evidence would be longer than 1000 bytes"


@pytest.mark.parametrize(
    ("fault", "said"), [("odd_error", "error.host.json: 'why' is missing"), ("strange_error", "unknown '99'")]
)
def test_a_failure_that_does_not_parse_makes_the_step_errored_and_keeps_what_it_measured(run, fault, said):
    outcome = run(f"idle:{fault}")
    assert outcome.status is Status.ERRORED and said in outcome.why
    assert [one.status for one in outcome.subjects] == [Status.ERRORED]
    assert "idle.late" in {m.name for m in outcome.measurements}, "as the controller makes it from the same files"


def test_what_is_no_evidence_is_removed_and_listed(run, tmp_path):
    outcome = run("idle:litter")
    assert outcome.status is Status.COMPLETED and outcome.subjects[0].work.iterations == 1
    left = (tmp_path / "steps/idle/removed.txt").read_text()
    assert "'odd name\\n'" in left and "'link.jsonl'" in left and "'pipe.jsonl'" in left
    assert Path("/etc/passwd").exists() and not any(p.is_symlink() for p in tmp_path.rglob("*"))


def test_a_pipe_in_the_samplers_place_does_not_hold_the_supervisor(run, tmp_path, monkeypatch):
    monkeypatch.setattr(launch, "BLIND", 2.0)
    outcome = run("idle:impostor")
    assert outcome.status is Status.ERRORED and "the sampler is blind" in outcome.why
    assert "'telemetry.jsonl'" in (tmp_path / "steps/idle/removed.txt").read_text()


def test_a_process_that_slipped_away_from_a_good_worker_is_ended_with_its_step(run, tmp_path, monkeypatch):
    monkeypatch.setattr(cgroup, "own", lambda: None)  # a control group would end it anyway
    lifeline.adopt()
    try:
        outcome = run("idle:daemon")
    finally:
        lifeline.adopt(orphans=False)
    assert outcome.status is Status.COMPLETED
    pid = int((tmp_path / "steps/idle/daemon").read_text())
    assert processes.start_time(pid) is None


def test_stopped_as_soon_as_it_started_no_process_is_left(run):
    outcome = run(stopped=lambda: "stopped by SIGTERM", seconds=600.0)
    assert outcome.status is Status.ABORTED and outcome.why == "stopped by SIGTERM"
    assert [(one.status, one.why) for one in outcome.subjects] == [(Status.ABORTED, "stopped by SIGTERM")]


def test_workers_started_before_one_that_could_not_be_are_ended(run, monkeypatch, tmp_path):
    spawn, started = Processes._spawn, []

    def failing(self, given, log):
        if len(started) == 3:  # the sampler and two workers run
            raise BlockingIOError(11, "fork: out of processes")
        started.append(spawn(self, given, log))
        return started[-1]

    monkeypatch.setattr(Processes, "_spawn", failing)
    with pytest.raises(BlockingIOError):
        run(plan=make([step("gemm")]))
    assert [one.poll() is not None for one in started] == [True] * 3
    assert not (tmp_path / "steps/gemm/scratch").exists()


def test_the_environment_that_workers_had_is_told_and_no_secret(run, monkeypatch):
    monkeypatch.setenv("NCCL_DEBUG", "WARN")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "hush")
    monkeypatch.setenv("OMP_NUM_THREADS", "9")
    plan = make([step("idle")])
    plan.steps[0].env["EXTRA"] = "1"
    assert run(plan=plan).environment == {
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID", "EXTRA": "1", "NCCL_DEBUG": "WARN", "OMP_NUM_THREADS": "1",
    }  # fmt: skip


def test_what_torchrun_would_set_in_silence_is_set_and_told(tmp_path, monkeypatch):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    free = dataclasses.replace(step("allreduce"), threads=0)
    assert Processes(make([free]), free, tmp_path, Account()).environment["OMP_NUM_THREADS"] == "1"
    alone = make([free], devices=[Device("cpu0", "cpu")])
    assert "OMP_NUM_THREADS" not in Processes(alone, free, tmp_path, Account()).environment
    assert len(DEVICES) > 1


TINY = {"dtype": "float32", "size": 32, "directory": ""}


@pytest.mark.parametrize(
    "probe, params",
    [
        ("distributed_checkpoint", {"mib": 3, "rounds": 1, "step": 0.01, "steps": 3}),
        ("dataset", {"mib": 1, "files": 12, "kib": 4, "batch": 4, "loaders": 2, "step": 0.01}),
    ],
)
def test_storage_is_tried_by_all_ranks_and_leaves_no_process_and_no_file(run, tmp_path, probe, params):
    """Through torchrun, with the loader's processes below its ranks."""
    outcome = run(plan=make([step(probe, **TINY, **params)]))
    assert outcome.status is Status.COMPLETED, outcome.why
    assert {m.value for m in outcome.measurements if m.name == f"{probe}.wrong"} == {0}
    assert next(f.value for f in outcome.facts if f.name == f"{probe}.storage").startswith("local disk only")
    assert not list(tmp_path.rglob("*.bin")) and not list(tmp_path.rglob("*.distcp"))


def test_a_step_that_is_stopped_while_its_loaders_run_leaves_none_of_them(run):
    """Steps of a minute: it is stopped in the first, when each rank has two loaders."""
    launcher, ranks, sampler, loaders = 1, len(DEVICES), 1, 2 * len(DEVICES)

    def stopped() -> str:
        below = processes.tree([os.getpid()])
        return "enough" if len(below) > launcher + ranks + sampler + loaders else ""

    outcome = run(
        stopped=stopped,
        plan=make([step("dataset", **TINY, mib=1, files=12, kib=4, batch=4, loaders=2, step=60.0)]),
    )
    assert outcome.status is Status.ABORTED
