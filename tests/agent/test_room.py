"""How long a step's files may become."""

from __future__ import annotations

import pytest

from gpuburn import evidence
from gpuburn.agent import room
from gpuburn.agent.room import Room, tail


@pytest.fixture
def step(tmp_path):
    folder = tmp_path / "steps" / "one"
    (folder / "log" / "attempt_0" / "1").mkdir(parents=True)
    (folder / "scratch").mkdir()
    return folder


def grow(path, size):
    with path.open("wb") as file:
        file.truncate(size)  # a hole: it takes no room


def test_a_step_within_its_bounds_may_go_on(step, tmp_path):
    grow(step / "scratch" / "checkpoint", 10 * room.RUN)
    grow(step / "log" / "a.log", room.LOG)
    grow(step / "readings.cpu0.jsonl", evidence.LINES)
    assert Room(tmp_path, step).exceeded() == ""


@pytest.mark.parametrize("name", ["log/gpu0.log", "log/attempt_0/1/stdout.log", "scratch/launcher.log"])
def test_a_log_that_is_too_long_is_named(step, tmp_path, name):
    grow(step / name, room.LOG + 1)
    assert Room(tmp_path, step).exceeded() == f"its log {name} is longer than {room.LOG} bytes"


@pytest.mark.parametrize("name", ["readings.gpu0.jsonl", "telemetry.jsonl"])
def test_evidence_that_is_too_long_is_named(step, tmp_path, name):
    grow(step / name, evidence.LINES + 1)
    assert Room(tmp_path, step).exceeded() == f"its evidence {name} is longer than {evidence.LINES} bytes"


def test_what_earlier_steps_left_counts(step, tmp_path):
    grow(tmp_path / "earlier", room.RUN - 100)
    one = Room(tmp_path, step)
    grow(step / "readings.a.jsonl", 100)
    assert one.exceeded() == ""
    grow(step / "readings.b.jsonl", 1)
    assert one.exceeded() == f"the run's evidence would be longer than {room.RUN} bytes"


def test_too_many_files_are_too_much(step, tmp_path, monkeypatch):
    monkeypatch.setattr(room, "FILES", 3)
    for number in range(3):
        (step / f"{number}").touch()
    assert Room(tmp_path, step).exceeded() == "it left more than 3 files"


def test_a_data_set_in_scratch_is_no_evidence(step, tmp_path, monkeypatch):
    monkeypatch.setattr(room, "FILES", 3)
    for folder, many in (("scratch/gpuburn-dataset-1/rank-0", True), ("scratch/other", False)):
        (step / folder).mkdir(parents=True)
        for number in range(3):
            (step / folder / f"{number}").touch()
        assert bool(Room(tmp_path, step).exceeded()) != many


def test_links_are_not_followed(step, tmp_path):
    (step / "log" / "gpu0.log").symlink_to(tmp_path / "long")
    grow(tmp_path / "long", room.LOG + 1)
    assert Room(tmp_path, step).exceeded() == ""


def test_a_tail_is_the_end_whatever_the_length(tmp_path):
    (tmp_path / "a").write_bytes(b"0123456789")
    assert (tail(tmp_path / "a", 3), tail(tmp_path / "a", 99)) == (b"789", b"0123456789")
