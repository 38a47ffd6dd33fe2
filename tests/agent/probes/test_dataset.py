"""Reading of a data set on one and three ranks: what is read, how long the loop starves, and that damage is seen."""

from __future__ import annotations

from unittest import mock

import pytest
import torch

from gpuburn.agent import place
from gpuburn.agent.probes import dataset
from gpuburn.agent.training import samples
from gpuburn.agent.training.samples import Epoch, Samples, fed
from gpuburn.measurement import Fact, Reading, Work, measure
from gpuburn.probe import discover
from tests.agent.training.alone import device, group
from tests.agent.training.three_ranks import WORLD, run

PROBE = discover()["dataset"]
SMALL = {**PROBE.smoke, "mib": 1, "files": 10, "kib": 4, "step": 0.001}
MIB = 2**20


@pytest.fixture
def one(tmp_path):
    with group(tmp_path):
        yield device(tmp_path)


@pytest.fixture
def made(tmp_path):
    (tmp_path / "own").mkdir()
    return Samples.write(device(tmp_path), tmp_path / "own", 10, 4096)


def numbers(taken):
    readings = [one for one in taken if isinstance(one, Reading)]
    return {one.name.partition(".")[2]: one.value for one in measure(PROBE.name, PROBE.metrics, readings)}


def test_every_promise_is_kept_and_nothing_is_left(one):
    taken = list(PROBE.run(one, **SMALL))
    found = numbers(taken)
    assert found.keys() == PROBE.metrics.keys()
    assert found["wrong"] == 0 and found["checked"] * 1024 == pytest.approx(1 + 40 / 1024)
    assert 0 <= found["starvation"] <= 1 and found["sequential"] > 0 and found["small"] > 0 and found["per_file"] > 0
    assert [each.iterations for each in taken if isinstance(each, Work)] == [1, 3], "10 samples are 3 batches of 4"
    assert [each.name for each in taken if isinstance(each, Fact)] == ["storage"]
    assert list(one.folder.iterdir()) == []


def test_files_lie_where_they_shall_and_what_lies_there_already_is_left_alone(one, tmp_path):
    array = tmp_path / "array"
    array.mkdir()
    (array / "precious").write_text("x")
    generator = PROBE.run(one, **SMALL, directory=str(array))
    while next(generator) != Work(iterations=1, bytes=MIB):
        pass
    next(generator)
    assert len(list(array.glob("gpuburn-dataset-*/rank-0/*.bin"))) == 10
    generator.close()
    assert [path.name for path in array.iterdir()] == ["precious"]


@pytest.mark.parametrize(("metric", "name", "count"), [("sequential", "large.bin", 1), ("per_file", "0000007.bin", 1)])
def test_a_bit_that_the_storage_flipped_is_counted(one, metric, name, count):
    """Once the file is out of the page cache, before it is compared."""

    def flipped(taken):
        for found in taken:
            if isinstance(found, Reading) and found.metric == metric:
                [path] = one.folder.glob(f"gpuburn-dataset-*/rank-0/{name}")
                data = bytearray(path.read_bytes())
                data[100] ^= 1
                path.write_bytes(data)
            yield found

    assert numbers(flipped(PROBE.run(one, **SMALL)))["wrong"] == count


def cut(path):
    path.write_bytes(path.read_bytes()[:-8])


def swapped(path):
    path.write_bytes(path.with_name("0000002.bin").read_bytes())


@pytest.mark.parametrize("damage", [cut, swapped])
def test_a_sample_that_is_not_what_was_written_is_wrong(made, tmp_path, damage):
    damage(made.path(7))
    epoch = fed(device(tmp_path), made, made.order(1), 4, 1, lambda: None)
    assert epoch.wrong(made) == 1 and epoch.steps == 3


def test_a_sample_that_never_came_is_wrong(made, tmp_path):
    assert fed(device(tmp_path), made, made.order(1)[:-2], 4, 1, lambda: None).wrong(made) == 2
    assert Epoch().wrong(made) == 10


def test_a_file_that_is_gone_ends_the_step(made, tmp_path):
    made.path(3).unlink()
    with pytest.raises(FileNotFoundError, match=r"0000003\.bin"):
        fed(device(tmp_path), made, made.order(1), 4, 1, lambda: None)


def waiting(seconds):
    """A loader whose batches were waited for so long."""
    honest = samples._timed
    return mock.patch.object(
        samples, "_timed", lambda batches: ((numbers, seconds, data) for numbers, _, data in honest(batches))
    )


def test_starvation_is_the_waiting_over_the_loops_time_without_the_first_batch(made, tmp_path):
    ticks = iter(range(100))
    clock = mock.Mock(perf_counter=lambda: float(next(ticks)))  # a step takes one second
    with waiting(3.0), mock.patch.object(samples, "time", clock):
        epoch = fed(device(tmp_path), made, made.order(1), 4, 1, lambda: None)
    assert (epoch.waited, epoch.steps) == (6.0, 3)
    assert epoch.total - epoch.waited == pytest.approx(2.0)


def test_the_work_is_done_on_every_batch(made, tmp_path):
    done = []
    with waiting(0.0):
        epoch = fed(device(tmp_path), made, made.order(1), 4, 1, lambda: done.append(1))
    assert len(done) == 3 and epoch.waited == 0


def test_no_process_of_the_loader_is_left(made, tmp_path):
    import multiprocessing

    before = {one.pid for one in multiprocessing.active_children()}
    fed(device(tmp_path), made, made.order(1), 4, 2, lambda: None)
    assert {one.pid for one in multiprocessing.active_children()} <= before


def test_samples_are_all_different_and_each_ranks_own(made, tmp_path):
    (tmp_path / "other").mkdir()
    other = Samples.write(device(tmp_path, 1, 2), tmp_path / "other", 10, 4096)
    assert len({path.read_bytes() for one in (made, other) for path in one.paths()}) == 20
    assert sorted(made.order(1)) == list(range(10)) and made.order(1) != made.order(2)


def test_a_read_that_comes_in_pieces_fills_the_buffer(tmp_path):
    """As a network file system may answer."""
    (tmp_path / "x").write_bytes(b"0123456789")
    whole = memoryview(bytearray(10))
    honest = type(tmp_path).open

    class Slow:
        def __init__(self, file):
            self.file = file

        def __enter__(self):
            return self

        def __exit__(self, *_):
            self.file.close()

        def readinto(self, buffer):
            return self.file.readinto(buffer[:3])

    with mock.patch.object(type(tmp_path), "open", lambda path, *a, **k: Slow(honest(path, *a, **k))):
        samples.fill(tmp_path / "x", whole)
    assert bytes(whole) == b"0123456789"


def test_too_little_space_is_refused_before_a_byte_is_written(one):
    with (
        mock.patch.object(place.shutil, "disk_usage", lambda path: mock.Mock(free=MIB)),
        pytest.raises(OSError, match=f"{MIB} bytes free, {int(1.1 * (MIB + 40 * 1024))} wanted"),
    ):
        list(PROBE.run(one, **SMALL))
    assert list(one.folder.iterdir()) == []


def cases(device):
    yield "whole", PROBE.run(device, **SMALL)
    slow = lambda path: 4.0 if device.rank == 2 else 0.1  # noqa: E731
    sweep = lambda self, order: 8.0 if device.rank == 1 else 0.1  # noqa: E731
    with mock.patch.object(dataset, "read", slow), mock.patch.object(Samples, "swept", sweep):
        yield "slow", PROBE.run(device, **SMALL)
    torch.manual_seed(0)


def test_three_ranks_are_as_fast_as_the_slowest_and_leave_nothing(tmp_path):
    taken = run(cases, tmp_path)
    for rank in range(WORLD):
        assert numbers(taken["whole"][rank])["wrong"] == 0
        found = numbers(taken["slow"][rank])
        assert found["sequential"] == pytest.approx(WORLD * MIB / 4.0 / 1e9)
        assert found["small"] == pytest.approx(WORLD * 10 * 4096 / 8.0 / 1e9)
        assert found["per_file"] == pytest.approx(800 if rank == 1 else 10)
    assert not list(tmp_path.rglob("*.bin"))
