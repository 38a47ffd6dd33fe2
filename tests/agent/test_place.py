"""The place of a step on a storage: its own folder, room, and on a shared path its turn, which all ranks wait for."""

from __future__ import annotations

from unittest import mock

import pytest

from gpuburn.agent import mounts, place
from gpuburn.agent.slots import Slots
from gpuburn.measurement import Fact, Reading
from gpuburn.strict import Refused
from tests.agent.training.alone import device, group
from tests.agent.training.three_ranks import WORLD, run

NFS = mounts.Mount("nfs4", "/mnt/data")


@pytest.fixture
def one(tmp_path):
    with group(tmp_path):
        yield device(tmp_path)


@pytest.fixture
def nfs(tmp_path, monkeypatch):
    monkeypatch.setattr(mounts, "of", lambda path, table=None: NFS)
    (tmp_path / "data").mkdir()
    return tmp_path / "data"


def told(there):
    return {getattr(one, "metric", getattr(one, "name", "")): one.value for one in there.told()}


def test_on_a_shared_path_a_slot_is_held_while_the_step_writes(one, nfs):
    (nfs / ".gpuburn-writer-0.0").touch()
    with place.of_ranks(one, str(nfs), "x", 1, writers=2) as there:
        assert (nfs / ".gpuburn-writer-1.0").exists()
        assert there.folder.parent == nfs
    assert told(there) == {"storage": f"{NFS}", "others": 1.0, "waited": 0.0}
    assert [path.name for path in nfs.iterdir()] == [".gpuburn-writer-0.0"]


def test_without_a_path_there_are_no_turns(one, nfs):
    with place.of_ranks(one, "", "x", 1, writers=1) as there:
        assert list(one.folder.iterdir()) == [there.folder]
    assert told(there)["others"] == 0.0
    assert list(one.folder.iterdir()) == []


def test_a_path_of_this_host_alone_has_no_turns(one, tmp_path):
    with (
        mock.patch.object(mounts, "of", lambda path, table=None: mounts.Mount("xfs", "/data")),
        place.of_ranks(one, str(tmp_path), "x", 1, writers=1) as there,
    ):
        assert not list(tmp_path.glob(".gpuburn-writer*"))
    assert told(there)["storage"] == "xfs at /data, this host's own"


def test_a_step_waits_for_its_turn_and_says_how_long(one, nfs, monkeypatch):
    other = Slots(nfs, 1)
    assert other.take()
    naps = []
    monkeypatch.setattr(place.time, "sleep", lambda seconds: naps.append(seconds) or other.release())
    with place.of_ranks(one, str(nfs), "x", 1, writers=1) as there:
        assert naps == [place.POLL]
    assert there.waited > 0


@pytest.mark.parametrize("way", ["ranks", "host"])
def test_a_turn_that_never_comes_is_an_error_that_names_the_holders(one, nfs, monkeypatch, way):
    other = Slots(nfs, 1)
    assert other.take()
    monkeypatch.setattr(place, "PATIENCE", -1.0)
    taken = place.of_ranks(one, str(nfs), "x", 1, 1) if way == "ranks" else place.of_host(str(nfs), nfs / "x", 1)
    with pytest.raises(TimeoutError, match=r"no slot .*\(\d+\) hold them; raise gpuburn_storage_writers"), taken:
        raise AssertionError("it must not begin")
    other.release()
    assert list(nfs.iterdir()) == []


def test_a_single_process_holds_a_slot_too(nfs):
    with place.of_host(str(nfs), nfs / "own", 1) as there:
        assert (nfs / ".gpuburn-writer-0.0").exists()
    assert told(there) == {"storage": f"{NFS}", "others": 0.0, "waited": pytest.approx(0, abs=60)}
    assert list(nfs.iterdir()) == []


def test_a_slot_that_was_lost_meanwhile_is_told_with_the_storage(one, nfs):
    with place.of_ranks(one, str(nfs), "x", 1, writers=1) as there:
        (nfs / ".gpuburn-writer-0.0").unlink()
    assert "its slot was lost" in told(there)["storage"]


def test_a_link_in_the_folders_place_is_refused(one, nfs, tmp_path):
    place.own(one.folder, str(nfs), "x").symlink_to(tmp_path)
    with pytest.raises(Refused, match="a link"), place.of_ranks(one, str(nfs), "x", 1, 1):
        raise AssertionError("it must not begin")


def test_too_few_inodes_are_refused(tmp_path):
    with (
        mock.patch.object(
            place.os,
            "statvfs",
            lambda path: mock.Mock(f_files=100, f_favail=9, f_bavail=9, f_blocks=9, f_bfree=9, f_frsize=4096),
        ),
        pytest.raises(OSError, match="9 inodes free, 10 wanted"),
    ):
        place.room(tmp_path / "x", 1, files=10)
    place.room(tmp_path / "x", 1)


def cases(device):
    """A slot that comes free at the third try: every rank waits, and the first alone asks."""
    tries, naps = iter(["a", "a", ""]), []
    with (
        mock.patch.object(place, "_slot", lambda *_: mock.MagicMock(__enter__=lambda _: (None, lambda: next(tries)))),
        mock.patch.object(place.time, "sleep", naps.append),
        place.of_ranks(device, "", "x", 1, 1) as there,
    ):
        pass
    yield "waited", [*there.told(), Reading("naps", float(len(naps)))]


def test_all_ranks_wait_for_the_turn_of_the_first(tmp_path):
    taken = run(cases, tmp_path)["waited"]
    for rank in range(WORLD):
        assert [one.value for one in taken[rank] if isinstance(one, Reading) and one.metric == "naps"] == [2.0]
        assert next(one.value for one in taken[rank] if isinstance(one, Fact)).startswith("local disk only")
