"""One process of a step: it starts with the others, stamps what it yields, and leaves its failure in strict form."""

from __future__ import annotations

import json
import sys

import pytest

from gpuburn import evidence, strict
from gpuburn.agent import worker
from gpuburn.agent.worker import Assignment, Failure
from gpuburn.measurement import Fact, Reading, Work
from gpuburn.plan import Device
from gpuburn.probe import discover


def test_a_worker_waits_for_go_and_not_for_ever(tmp_path):
    with pytest.raises(TimeoutError, match="no go within 0 s"):
        worker.start_together(tmp_path, "gpu0", 0.0)
    assert (tmp_path / "ready.gpu0").exists()
    (tmp_path / "go").touch()
    worker.start_together(tmp_path, "gpu0", 0.0)


def test_what_is_yielded_gets_its_subject_and_moment_and_is_written_at_once(tmp_path):
    class Probe:
        @staticmethod
        def run(device, **params):
            yield Reading("late", 1.0)
            yield Reading("late", 2.0, subject="host", at=5.0)
            yield Fact("said", params["word"])
            yield Work(iterations=3)
            raise RuntimeError("half way")

    class Me:
        name = "gpu0"

    with pytest.raises(RuntimeError):
        worker.run(Probe, Me, {"word": "x"}, tmp_path / "out.jsonl")
    first, second, fact, work = evidence.parse((tmp_path / "out.jsonl").read_bytes(), "out.jsonl")
    assert first.subject == fact.subject == work.subject == "gpu0" and first.at > 0
    assert (second.subject, second.at, fact.value, work.iterations) == ("host", 5.0, "x", 3)


@pytest.mark.parametrize("text", ["plain", "NUL \0 and surrogate \udcff", "x" * 10_000, "日本"])
def test_a_failure_is_left_in_a_form_that_the_supervisor_reads(text, tmp_path, monkeypatch):
    assignment = Assignment("idle", "host", {}, [Device("cpu0", "cpu")], 1, 1, 60.0)
    (tmp_path / "assignment.json").write_bytes(strict.encode(assignment))

    def failing(*given: object) -> None:
        raise RuntimeError(text)

    monkeypatch.setattr(worker, "_work", failing)
    monkeypatch.setattr(worker, "die_with_parent", lambda: None)
    monkeypatch.setattr(worker, "keep_stacks", lambda folder, who: None)
    monkeypatch.setattr(sys, "argv", ["worker", str(tmp_path), "host"])
    with pytest.raises(RuntimeError):
        worker.main()
    said = strict.build(Failure, strict.loads((tmp_path / "error.host.json").read_bytes(), "error"), "error")
    assert said.why.startswith("RuntimeError: ") and len(said.why) <= 1000 and "failing" in said.trace and said.at > 0


def test_an_assignment_survives_its_file():
    one = Assignment("gemm", "device", discover()["gemm"].smoke, [Device("cpu0", "cpu")], 7, 2, 60.0, {"A": "1"})
    assert strict.build(Assignment, json.loads(strict.encode(one)), "assignment.json") == one


@pytest.mark.parametrize(
    ("uuid", "wanted"), [("GPU-5fd3", [Fact("worker.uuid", "GPU-5fd3", subject="gpu0")]), ("", [])]
)
def test_a_worker_on_a_gpu_first_says_which_one_it_computes_on(uuid, wanted, tmp_path):
    class Probe:
        @staticmethod
        def run(device):
            yield Work(iterations=1)

    class Me:
        name = "gpu0"

    Me.uuid = uuid
    worker.run(Probe, Me, {}, tmp_path / "out.jsonl")
    said = evidence.parse((tmp_path / "out.jsonl").read_bytes(), "out")
    assert said == [*wanted, Work(iterations=1, subject="gpu0")]


def test_a_probe_of_the_host_knows_its_scratch_and_where_its_log_is_kept(tmp_path, monkeypatch):
    class Probe:
        @staticmethod
        def run(host):
            yield Fact("folders", f"{host.folder} {host.log}")

    monkeypatch.setattr(worker, "discover", lambda: {"idle": Probe})
    worker._work(Assignment("idle", "host", {}, [Device("cpu0", "cpu")], 1, 1, 60.0), tmp_path, "host")
    [said] = evidence.parse((tmp_path / "readings.host.jsonl").read_bytes(), "readings")
    assert said.value == f"{tmp_path / 'scratch'} {tmp_path / 'log'}"
