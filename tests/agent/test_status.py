"""Every phase that a run can be in, from its files alone."""

from __future__ import annotations

import dataclasses
import fcntl
import os
import signal

import pytest

from gpuburn.agent import state, status
from gpuburn.agent.state import State
from gpuburn.strict import Refused

NOW = 1000.0
HERE = State(
    "run-1", 1, "running", "gemm", number=2, of=5, step_started=900.0, step_expected=300.0, started=800.0,
    expected=600.0, deadline=9000.0, updated=NOW,
)  # fmt: skip


@pytest.fixture
def supervised(tmp_path):
    """The run's lock is held, as by a supervisor."""
    with (tmp_path / "lock").open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield tmp_path


def phase(folder, now=NOW, uptime=9e9):
    return status.status(folder, now, uptime)["phase"]


def test_absent_and_starting(tmp_path, supervised):
    assert phase(tmp_path / "nowhere") == "absent" and phase(supervised) == "starting"


@pytest.mark.parametrize("known", ["starting", "running", "judging"])
def test_a_run_under_way_says_its_own_phase(supervised, known):
    state.save(supervised, dataclasses.replace(HERE, phase=known))
    told = status.status(supervised, NOW + 1)
    assert told == {
        "phase": known, "run": "run-1", "step": "gemm", "number": 2, "of": 5, "elapsed": 201.0, "expected": 600.0,
        "step_elapsed": 101.0, "step_expected": 300.0, "deadline": 9000.0, "reported": False,
    }  # fmt: skip
    assert status.line(told) == f"{known}; step 2 of 5, gemm; 201 s of about 600 s"


def test_a_run_that_began_a_bug_report_says_so_while_it_is_at_work(supervised):
    state.save(supervised, dataclasses.replace(HERE, phase="running"))
    (supervised / state.REPORT).mkdir()
    assert status.status(supervised, NOW + 1)["reported"] is True


def test_a_supervisor_that_holds_its_lock_and_says_nothing_is_stalled(supervised):
    state.save(supervised, HERE)
    assert phase(supervised, NOW + status.STALLED) == "running"
    told = status.status(supervised, NOW + status.STALLED + 1)
    assert told["phase"] == "stalled" and told["why"] == "no sign of life for 301 s"


def test_one_that_is_gone_may_come_back_and_then_is_vanished(tmp_path):
    state.save(tmp_path, HERE)
    assert phase(tmp_path, NOW + status.RETURN) == "restarting"
    assert phase(tmp_path, NOW + status.RETURN + 1) == "vanished"
    assert phase(tmp_path, NOW + 9e5, uptime=status.RETURN) == "restarting", "its host has just booted"
    assert "left no result" in status.line(status.status(tmp_path, NOW + 9e5, 9e9))


def test_finished_needs_the_result_and_its_seal(tmp_path):
    state.save(tmp_path, HERE)
    (tmp_path / "result.json").touch()
    assert phase(tmp_path, NOW + 9e5) == "vanished"
    (tmp_path / "sealed.tar.gz").touch()
    assert phase(tmp_path, NOW + 9e5) == "finished"
    (tmp_path / "state.json").unlink()
    assert status.line(status.status(tmp_path, NOW)) == "finished"


def test_a_state_that_does_not_parse_is_vanished_and_says_why(supervised):
    (supervised / "state.json").write_text("{")
    told = status.status(supervised, NOW)
    assert told["phase"] == "vanished" and "state.json" in status.line(told)


def test_stop_signals_only_who_holds_the_lock(tmp_path, monkeypatch):
    sent = []
    monkeypatch.setattr(os, "kill", lambda *given: sent.append(given))
    with pytest.raises(Refused, match="no run has started here"):
        status.stop(tmp_path)
    state.save(tmp_path, HERE)
    assert "nothing to stop" in status.stop(tmp_path) and sent == [] and not (tmp_path / "stop").exists()
    with (tmp_path / "lock").open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        assert "asked to stop" in status.stop(tmp_path)
    assert sent == [(1, signal.SIGTERM)] and (tmp_path / "stop").exists()
