"""The storage probe on one and on three ranks: what it writes, that storage is read, and that damage is seen."""

from __future__ import annotations

import os
import zlib
from unittest import mock

import pytest

from gpuburn.agent import place, stream
from gpuburn.agent.page_cache import cached, evict
from gpuburn.agent.probes import checkpoint
from gpuburn.measurement import Reading, Work, measure
from gpuburn.probe import discover
from tests.agent.training.alone import device, group
from tests.agent.training.three_ranks import WORLD, run

PROBE = discover()["checkpoint"]
MIB = 2**20


@pytest.fixture
def one(tmp_path):
    with group(tmp_path):
        yield device(tmp_path)


def numbers(taken):
    readings = [one for one in taken if isinstance(one, Reading)]
    return {one.name.partition(".")[2]: one.value for one in measure("checkpoint", PROBE.metrics, readings)}


def on_disk(folder):
    return [path for path in folder.rglob("*.bin")]


def test_every_promise_is_kept_and_nothing_is_left(one):
    taken = list(PROBE.run(one, **PROBE.smoke))
    found = numbers(taken)
    assert found.keys() == PROBE.metrics.keys()
    assert found["wrong"] == 0 and found["checked"] * 1024 == 16 and found["write"] > 0 and found["read"] > 0
    assert [each.bytes for each in taken if isinstance(each, Work)] == [16 * MIB]
    assert on_disk(one.folder) == [] and list(one.folder.iterdir()) == []


def test_files_lie_where_they_shall_and_what_lies_there_already_is_left_alone(one, tmp_path):
    array = tmp_path / "array"
    array.mkdir()
    (array / "precious").write_text("x")
    generator = PROBE.run(one, mib=1, rounds=1, directory=str(array))
    next(generator)
    assert [path.stat().st_size for path in on_disk(array)] == [MIB]
    assert [path.stat().st_mode & 0o777 for path in array.glob("gpuburn-checkpoint-*")] == [0o700]
    generator.close()
    assert [path.name for path in array.iterdir()] == ["precious"]


@pytest.mark.parametrize("at, blocks", [(0, 1), (17 * MIB, 1), (None, 2)], ids=["first", "second", "both gone"])
def test_damage_between_writing_and_reading_is_counted_in_blocks(one, at, blocks):
    def damaged(path):
        with path.open("r+b") as file:
            if at is None:
                file.truncate(0)
                return
            file.seek(at)
            [byte] = file.read(1)
            file.seek(at)
            file.write(bytes([byte ^ 1]))

    with mock.patch.object(checkpoint, "evict", damaged), mock.patch.object(checkpoint, "cached", lambda path: 0.0):
        assert numbers(PROBE.run(one, mib=20, rounds=1))["wrong"] == blocks


def test_a_file_that_is_longer_than_written_is_wrong(tmp_path):
    (tmp_path / "x").write_bytes(b"x" * (stream.BLOCK + 1))
    assert stream.wrong(tmp_path / "x", []) == 2


def test_what_stays_in_memory_is_told_apart_from_what_left_it(tmp_path):
    """Where the kernel lets a file go, the share falls; a file just read is there in whole."""
    path = tmp_path / "x"
    stream.write(path, mock.Mock(blocks=lambda: iter([memoryview(b"x" * MIB)])))
    assert path.read_bytes() == b"x" * MIB
    assert cached(path) == 1
    with mock.patch("os.posix_fadvise") as advise:
        evict(path)
    assert advise.call_args.args[1:] == (0, 0, os.POSIX_FADV_DONTNEED)
    assert cached(path) == 1


def test_a_file_system_that_never_lets_go_says_so():
    """On tmpfs memory is the storage: the share stays at 1, and a limit can refuse the reading."""
    from pathlib import Path
    from tempfile import TemporaryDirectory

    if "tmpfs /dev/shm" not in Path("/proc/mounts").read_text():
        pytest.skip("no tmpfs at /dev/shm")
    with TemporaryDirectory(dir="/dev/shm") as folder:
        path = Path(folder) / "x"
        path.write_bytes(b"x" * MIB)
        evict(path)
        assert cached(path) == 1


def test_too_little_space_is_refused_before_a_byte_is_written(one):
    with (
        mock.patch.object(place.shutil, "disk_usage", lambda path: mock.Mock(free=2 * MIB)),
        pytest.raises(OSError, match=rf"gpuburn-checkpoint-.*{2 * MIB} bytes free, {int(2.2 * MIB)} wanted"),
    ):
        list(PROBE.run(one, mib=1, rounds=1))
    assert on_disk(one.folder) == []


def test_a_file_system_that_is_not_mounted_is_refused(one, tmp_path):
    with pytest.raises(NotADirectoryError, match="array: not there"):
        list(PROBE.run(one, mib=1, rounds=1, directory=str(tmp_path / "array")))
    assert not (tmp_path / "array").exists()


def test_the_data_cannot_be_compressed_and_repeat_no_page(one):
    data = stream.Data.of(one, number=0, mib=33)
    blocks = [bytes(block) for block in data.blocks()]
    assert [len(block) for block in blocks] == [16 * MIB, 16 * MIB, MIB]
    whole = b"".join(blocks)
    pages = {whole[start : start + stream.PAGE] for start in range(0, len(whole), stream.PAGE)}
    assert len(pages) == len(whole) // stream.PAGE
    assert len(zlib.compress(whole[:MIB], 1)) > 0.99 * MIB
    other = b"".join(map(bytes, stream.Data.of(one, number=1, mib=1).blocks()))
    again = b"".join(map(bytes, stream.Data.of(one, number=0, mib=1).blocks()))
    assert again == whole[:MIB] != other


def cases(device):
    yield "whole", PROBE.run(device, mib=4, rounds=2)
    with mock.patch.object(checkpoint, "write", _slower(device.rank, stream.write)):
        yield "slow", PROBE.run(device, mib=4, rounds=1)


def _slower(rank, write):
    return lambda path, data: write(path, data) + (4.0 if rank == 2 else 0.0)


def test_three_ranks_are_as_fast_as_the_slowest_and_leave_nothing(tmp_path):
    taken = run(cases, tmp_path)
    for rank in range(WORLD):
        assert numbers(taken["whole"][rank])["checked"] == pytest.approx(8 / 1024)
        assert numbers(taken["slow"][rank])["write"] < 12 * MIB / 4.0 / 1e9
    assert len({numbers(each)["write"] for each in taken["slow"]}) == 1
    assert on_disk(tmp_path) == []
