"""Trees of processes in a made-up /proc, and real ones that end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from gpuburn.agent import processes


def proc(folder: Path, **entries: tuple[int, str, int]) -> Path:
    """p<pid>=(parent, state, start time); the command's name is as hostile as the kernel lets it be."""
    for name, (parent, state, started) in entries.items():
        place = folder / name[1:]
        place.mkdir(exist_ok=True)
        rest = " ".join(["0"] * 17)
        (place / "stat").write_text(f"{name[1:]} (a) b) ({state}) {state} {parent} {rest} {started} 0 0\n")
    (folder / "self").mkdir(exist_ok=True)
    (folder / "meminfo").touch()
    return folder


def test_a_tree_is_its_roots_and_all_that_descend_from_them(tmp_path):
    made = proc(tmp_path, p1=(0, "S", 1), p10=(1, "S", 100), p11=(10, "R", 110), p12=(11, "D", 120), p20=(1, "S", 200))
    assert processes.tree([10], made) == [(10, 100), (11, 110), (12, 120)]
    assert processes.tree([20, 10], made)[-1] == (20, 200)


def test_a_zombie_a_dead_and_a_missing_process_do_not_run(tmp_path):
    made = proc(tmp_path, p10=(1, "Z", 100), p11=(1, "X", 110), p12=(10, "S", 120))
    assert [processes.start_time(pid, made) for pid in (10, 11, 12, 13)] == [None, None, 120, None]
    assert processes.tree([10], made) == [(12, 120)], "a child of a zombie is still ours"


def test_a_process_that_ends_while_it_is_looked_at_is_left_out(tmp_path):
    made = proc(tmp_path, p10=(1, "S", 100), p11=(10, "S", 110))
    (made / "11" / "stat").unlink()
    assert processes.tree([10], made) == [(10, 100)]


def test_a_pid_that_was_given_away_is_another_process(tmp_path):
    made = proc(tmp_path, p10=(1, "S", 999))
    assert processes.alive([(10, 100), (10, 999)], made) == [(10, 999)]


def test_a_recycled_pid_is_not_signalled(monkeypatch):
    sent: list[int] = []
    monkeypatch.setattr(os, "kill", lambda pid, number: sent.append(pid))
    me = os.getpid()
    processes.send([(me, -1)], signal.SIGTERM)
    assert sent == []
    processes.send([(me, processes.start_time(me) or 0)], signal.SIGTERM)
    assert sent == [me]


def test_one_that_ends_before_its_signal_is_no_error(monkeypatch):
    def gone(pid: int, number: int) -> None:
        raise ProcessLookupError

    monkeypatch.setattr(os, "kill", gone)
    processes.send([(os.getpid(), processes.start_time(os.getpid()) or 0)], signal.SIGTERM)


@pytest.fixture
def sleeper():
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    yield child
    child.kill()
    child.wait()


def test_gone_is_said_when_they_are_gone_also_while_nobody_reaps(sleeper):
    them = processes.tree([sleeper.pid])
    assert processes.wait_gone(them, 0.0) == them
    processes.send(them, signal.SIGKILL)
    assert processes.wait_gone(them, 30.0) == [], "a zombie has ended"


def test_waiting_reaps(sleeper):
    them = processes.tree([sleeper.pid])
    processes.send(them, signal.SIGKILL)
    end = time.monotonic() + 30
    while sleeper.returncode is None and time.monotonic() < end:
        processes.wait_gone(them, 1.0, sleeper.poll)
    assert sleeper.returncode == -signal.SIGKILL
