"""Checkpoints through torch.distributed.checkpoint, on one and three ranks: timing, order, and every damage seen."""

from __future__ import annotations

import threading
from unittest import mock

import pytest
import torch

from gpuburn.agent import place
from gpuburn.agent.probes import distributed_checkpoint as probe_file
from gpuburn.agent.training import sharded
from gpuburn.agent.training.bits import checksum
from gpuburn.measurement import Fact, Reading, Work, measure
from gpuburn.probe import discover
from tests.agent.training.alone import device, group
from tests.agent.training.three_ranks import WORLD, run

PROBE = discover()["distributed_checkpoint"]
SMALL = {**PROBE.smoke, "mib": 3}
MIB = 2**20


@pytest.fixture
def one(tmp_path):
    with group(tmp_path):
        yield device(tmp_path)


def numbers(taken):
    readings = [one for one in taken if isinstance(one, Reading)]
    return {one.name.partition(".")[2]: one.value for one in measure(PROBE.name, PROBE.metrics, readings)}


def test_every_promise_is_kept_and_nothing_is_left(one):
    taken = list(PROBE.run(one, **SMALL))
    found = numbers(taken)
    assert found.keys() == PROBE.metrics.keys()
    assert found["wrong"] == 0 and found["checked"] * 1024 == pytest.approx(2 * 3)
    assert all(found[name] > 0 for name in found.keys() - {"wrong", "cached_share", "others", "waited"})
    assert [each.bytes for each in taken if isinstance(each, Work)] == [3 * MIB, 3 * MIB]
    assert [each.name for each in taken if isinstance(each, Fact)] == ["storage"]
    assert list(one.folder.iterdir()) == []


def test_files_lie_where_they_shall_and_what_lies_there_already_is_left_alone(one, tmp_path):
    array = tmp_path / "array"
    array.mkdir()
    (array / "precious").write_text("x")
    generator = PROBE.run(one, **SMALL, directory=str(array))
    next(generator)
    [own] = array.glob("gpuburn-distributed_checkpoint-*")
    assert sorted(path.name for path in own.rglob("*") if path.is_file()) == [".metadata", "__0_0.distcp"]
    assert own.stat().st_mode & 0o777 == 0o700, "what is loaded from it is code to pickle"
    generator.close()
    assert [path.name for path in array.iterdir()] == ["precious"]


def flipped(store):
    """One bit of a number in the file, in the middle of the first tensor."""
    [path] = store.files()
    with path.open("r+b") as file:
        place_ = path.stat().st_size // 4
        file.seek(place_)
        [byte] = file.read(1)
        file.seek(place_)
        file.write(bytes([byte ^ 1]))


def damaged(how):
    """The probe's restoring, with a fault of the storage just before it."""
    honest = sharded.Store.restore
    return mock.patch.object(sharded.Store, "restore", lambda store: (how(store), honest(store))[1])


def test_a_bit_that_the_storage_flipped_is_counted_each_time(one):
    with damaged(flipped):
        assert numbers(PROBE.run(one, **SMALL))["wrong"] == 2


def test_a_restore_that_does_nothing_does_not_look_right(one):
    idle = lambda entries, storage_reader, process_group: setattr(storage_reader, "seconds", 1.0)  # noqa: E731
    with mock.patch.object(sharded, "load", idle):
        assert numbers(PROBE.run(one, **SMALL))["wrong"] == 2 * 4, "three tensors and the step, twice"


def test_a_copy_that_the_loop_writes_into_is_torn_and_seen(one):
    """The snapshot of an asynchronous save is no copy but the state itself, and is written after the loop went on."""
    went_on = threading.Event()
    write, step, begin = sharded.Writer.write_data, sharded.Loop.step, sharded.Store.begin

    def late(writer, plan, planner):
        if threading.current_thread() is not threading.main_thread():
            assert went_on.wait(60)
        return write(writer, plan, planner)

    with (
        mock.patch.object(sharded.Writer, "stage", lambda writer, state: state),
        mock.patch.object(sharded.Writer, "write_data", late),
        mock.patch.object(sharded.Loop, "step", lambda loop: (step(loop), went_on.set())[0]),
        mock.patch.object(sharded.Store, "begin", lambda store: (went_on.clear(), begin(store))[1]),
    ):
        assert numbers(PROBE.run(one, **SMALL))["wrong"] == 3


def test_a_save_that_fails_in_its_thread_ends_the_step(one):
    honest = sharded.Writer.write_data

    def failing(writer, plan, planner):
        if threading.current_thread() is not threading.main_thread():
            raise OSError(28, "No space left on device")
        return honest(writer, plan, planner)

    with (
        mock.patch.object(sharded.Writer, "write_data", failing),
        pytest.raises(BaseException, match="No space left on device"),
    ):
        list(PROBE.run(one, **SMALL))
    assert list(one.folder.iterdir()) == []


def test_nothing_has_its_name_before_all_of_it_is_synced(one, tmp_path):
    """The order of a commit: files, their folder, the new name, the folder above."""
    seen = []
    store = stored(one, tmp_path)
    fsync, rename = sharded.sync, type(tmp_path).rename
    with (
        mock.patch.object(sharded, "sync", lambda path: (seen.append(("sync", path.name)), fsync(path))),
        mock.patch.object(
            type(tmp_path), "rename", lambda path, to: (seen.append(("rename", path.name)), rename(path, to))[1]
        ),
    ):
        store.save()
    assert seen[-3:] == [("sync", ".tmp-checkpoint"), ("rename", ".tmp-checkpoint"), ("sync", "saves")]
    assert not store.unfinished.exists() and store.final.is_dir()


def stored(device, tmp_path):
    import torch.distributed as dist

    (tmp_path / "saves").mkdir()
    return sharded.Store(tmp_path / "saves", device, sharded.State(device, 3), dist.new_group(backend="gloo"))


def test_every_file_is_written_with_fsync(one, tmp_path):
    store = stored(one, tmp_path)
    with mock.patch("os.fsync") as fsync:
        store.save()
    assert fsync.call_count == 4, "a file of tensors, one of metadata, two folders"


def test_an_old_checkpoint_is_never_written_over(one, tmp_path):
    store = stored(one, tmp_path)
    store.save()
    with pytest.raises(OSError, match="not empty"):
        store.save()


def test_the_state_is_random_of_its_own_on_each_rank_and_moves(tmp_path):
    shares = [sharded.State(device(tmp_path, rank, 3), 3) for rank in range(3)]
    assert len({checksum(one) for share in shares for one in share.local}) == 9
    before = shares[0].told()
    shares[0].advance()
    assert all(one != other for one, other in zip(before, shares[0].told()))
    assert shares[0].bytes == 3 * MIB


def test_too_little_memory_or_room_is_refused_before_a_byte_is_written(one):
    with pytest.raises(MemoryError, match="wanted for copies of the state"):
        list(PROBE.run(one, **{**SMALL, "mib": 2**30}))
    with (
        mock.patch.object(place.shutil, "disk_usage", lambda path: mock.Mock(free=MIB)),
        pytest.raises(OSError, match=rf"{MIB} bytes free, {int(2.2 * 3 * MIB)} wanted"),
    ):
        list(PROBE.run(one, **SMALL))
    assert list(one.folder.iterdir()) == []


def test_a_loop_ends_when_all_say_so_and_does_a_step_at_least(one):
    state = sharded.State(one, 3)
    loop = sharded.Loop(one, state, lambda: None)
    answers = iter([False, False, True])
    assert len(loop.until(lambda: next(answers))) == 3 and state.step == 3
    assert len(loop.until(lambda: True)) == 1


def cases(device):
    yield "whole", PROBE.run(device, **SMALL)
    honest = sharded.Store.save
    late = lambda store: (lambda stall, own: (stall + 4.0 * (device.rank == 2), own))(*honest(store))  # noqa: E731
    with mock.patch.object(sharded.Store, "save", late):
        yield "slow", PROBE.run(device, **SMALL)
    with mock.patch.object(sharded.Store, "restore", _spoilt(device.rank, sharded.Store.restore)):
        yield "spoilt", PROBE.run(device, **SMALL)


def _spoilt(rank, restore):
    """One rank's memory loses a bit on restoring."""

    def spoilt(store):
        found = restore(store)
        if rank == 1:
            store.state.local[2].view(torch.int32)[7] ^= 1
        return found

    return spoilt


def test_three_ranks_restore_what_each_saved_and_the_slowest_counts(tmp_path):
    taken = run(cases, tmp_path)
    for rank in range(WORLD):
        assert numbers(taken["whole"][rank])["wrong"] == 0
        assert numbers(taken["slow"][rank])["stall"] > 4
        assert numbers(taken["slow"][rank])["write"] < WORLD * 3 * MIB / 4.0 / 1e9
    assert [numbers(each)["wrong"] for each in taken["spoilt"]] == [0, 2, 0]
    assert len({numbers(each)["persist"] for each in taken["whole"]}) == 1
    assert not [path for path in tmp_path.rglob("*.distcp")]
    assert probe_file.COPIES > 1
