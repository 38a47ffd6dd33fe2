"""Control groups in a made-up hierarchy: found, joined, killed, removed, and absent without a word."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from gpuburn.agent import cgroup
from gpuburn.agent.cgroup import Group

V1 = "32 31 0:29 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu\n"


@pytest.fixture
def hierarchy(tmp_path: Path) -> Path:
    unit = tmp_path / "cgroup" / "system.slice" / "gpuburn.service"
    unit.mkdir(parents=True)
    (unit / "cgroup.procs").touch()
    return unit


def proc(folder: Path, mounts: str, mine: str = "0::/system.slice/gpuburn.service\n") -> Path:
    place = folder / "self"
    place.mkdir()
    (place / "mountinfo").write_text(mounts)
    (place / "cgroup").write_text(mine)
    return place


def v2(folder: Path, optional: str = "shared:9 ") -> str:
    return f"{V1}41 31 0:31 / {folder / 'cgroup'} rw,relatime {optional}- cgroup2 cgroup2 rw\n"


@pytest.mark.parametrize("optional", ["", "shared:9 ", "shared:9 master:1 "])
def test_ones_own_group_is_found_whatever_optional_fields_the_mount_has(hierarchy, tmp_path, optional):
    assert (
        cgroup.own(proc(tmp_path, v2(tmp_path, optional), "9:name=systemd:/\n0::/system.slice/gpuburn.service\n"))
        == hierarchy
    )


def test_there_is_none_without_version_2_or_without_a_place_in_it(hierarchy, tmp_path):
    assert cgroup.own(proc(tmp_path, V1)) is None
    (tmp_path / "self" / "mountinfo").write_text(v2(tmp_path))
    (tmp_path / "self" / "cgroup").write_text("3:cpu:/\n")
    assert cgroup.own(tmp_path / "self") is None
    (tmp_path / "self" / "cgroup").write_text("0::/elsewhere\n")
    assert cgroup.own(tmp_path / "self") is None


@pytest.fixture
def group(hierarchy, monkeypatch) -> Group:
    """A group in which the kernel's own files are there, as it would make them."""
    mkdir = Path.mkdir

    def populated(path: Path, *given: object, **named: object) -> None:
        mkdir(path, *given, **named)  # type: ignore[arg-type]
        for name in ("cgroup.kill", "cgroup.procs"):
            (path / name).touch()

    monkeypatch.setattr(cgroup, "own", lambda: hierarchy)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(Path, "mkdir", populated)
    return Group("run-step")


def test_a_process_joins_and_the_group_is_killed_at_once(group, hierarchy):
    assert group.folder == hierarchy / "gpuburn-run-step"
    group.join()
    assert group.pids() == [os.getpid()]
    group.kill()
    assert (group.folder / "cgroup.kill").read_text() == "1"


def test_a_group_in_use_stays(group):
    group.join()
    group.remove()
    assert group.folder.exists()


@pytest.mark.parametrize(("busy", "patience", "gone"), [(3, 60.0, True), (10**9, 0.0, False)])
def test_a_group_whose_last_process_is_about_to_end_is_waited_for(group, monkeypatch, busy, patience, gone):
    tries = []

    def rmdir(path: Path) -> None:
        tries.append(path)
        if len(tries) <= busy:
            raise OSError(errno.EBUSY, os.strerror(errno.EBUSY), str(path))

    monkeypatch.setattr(Path, "rmdir", rmdir)
    monkeypatch.setattr(cgroup.time, "sleep", lambda seconds: None)
    assert group.remove(patience) is gone and len(tries) >= min(busy, 1)


def test_another_error_of_its_removal_is_one(group, monkeypatch):
    monkeypatch.setattr(Path, "rmdir", lambda path: (_ for _ in ()).throw(OSError(errno.EPERM, "no")))
    with pytest.raises(OSError, match="no"):
        group.remove()


def test_without_one_of_our_own_every_verb_does_nothing(monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    group = Group("run-step")
    assert group.folder is None and group.pids() == []
    group.join(), group.kill(), group.remove()


def test_a_hierarchy_that_is_read_only_or_too_old_is_none(hierarchy, monkeypatch):
    monkeypatch.setattr(cgroup, "own", lambda: hierarchy)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert Group("old").folder is None, "no cgroup.kill before Linux 5.14"
    monkeypatch.setattr(cgroup, "own", lambda: hierarchy / "cgroup.procs")
    assert Group("read-only").folder is None
