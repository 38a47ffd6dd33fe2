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
    assert Family(proc, HEAD).foreign(processes) == wanted


def test_a_rank_that_outlives_its_parent_stays_ours_until_its_number_is_used_anew(proc: Path) -> None:
    family = Family(proc, HEAD)
    assert family.foreign("61") == 0
    live(proc, 61, 1)
    assert family.foreign("61") == 0
    live(proc, 61, 1, start=2000)
    assert family.foreign("61") == 1
