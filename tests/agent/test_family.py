"""Whose a process is, by a made-up /proc: ours descend from the supervisor."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuburn.agent.family import Family

HEAD = 50


@pytest.fixture
def proc(tmp_path: Path) -> Path:
    """1 -> 50 (the supervisor) -> 60 (torchrun) -> 61 (a rank); 1 -> 70 -> 71: somebody else's."""
    for pid, parent in ((1, 0), (50, 1), (60, 50), (61, 60), (70, 1), (71, 70)):
        live(tmp_path, pid, parent)
    return tmp_path


def live(proc: Path, pid: int, parent: int, start: int = 1000) -> None:
    (proc / str(pid)).mkdir(exist_ok=True)
    (proc / str(pid) / "stat").write_text(f"{pid} (a) name) S {parent} {'0 ' * 17}{start} 0\n")


@pytest.mark.parametrize(("processes", "wanted"), [
    ("none", 0), ("61", 0), ("50 60 61", 0), ("70", 1), ("61 70 71", 2), ("1", 1), ("4711", 0),
])  # fmt: skip
def test_a_process_is_foreign_unless_it_descends_from_the_supervisor(proc: Path, processes: str, wanted: int) -> None:
    assert Family(proc, HEAD, whole=True).foreign("gpu0", processes) == wanted


def test_a_rank_that_outlives_its_parent_stays_ours_until_its_number_is_used_anew(proc: Path) -> None:
    family = Family(proc, HEAD, whole=True)
    assert family.foreign("gpu0", "61") == 0
    live(proc, 61, 1)
    assert family.foreign("gpu0", "61") == 0
    live(proc, 61, 1, start=2000)
    assert family.foreign("gpu0", "61") == 1


def test_a_process_that_proc_does_not_show_has_ended_or_is_a_stranger_from_the_second_look_on(proc: Path) -> None:
    family = Family(proc, HEAD, whole=True)
    assert [family.foreign("gpu0", "61 4711"), family.foreign("gpu1", "4711")] == [0, 0], "each GPU for itself"
    assert family.foreign("gpu0", "61 4711") == 1
    assert family.foreign("gpu0", "61") == 0 and family.foreign("gpu0", "4711") == 0


def test_where_proc_does_not_show_all_nothing_is_said_of_strangers(proc: Path) -> None:
    assert Family(proc, HEAD, whole=False).foreign("gpu0", "none") is None


@pytest.mark.parametrize(("space", "whole"), [("pid:[4026531836]", True), ("pid:[4026532201]", False), ("", False)])
def test_the_machines_own_pid_namespace_shows_all(proc: Path, space: str, whole: bool) -> None:
    if space:
        (proc / "self" / "ns").mkdir(parents=True)
        (proc / "self" / "ns" / "pid").symlink_to(space)
    assert (Family(proc, HEAD).foreign("gpu0", "none") == 0) == whole
