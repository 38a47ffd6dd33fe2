"""A save beside the loop: the state as it was, whatever is trained meanwhile; complete only when every part is."""

import copy
import threading

import pytest

from gpuburn.agent.training import checkpoint, shard
from gpuburn.agent.training.beside import Beside
from gpuburn.agent.training.loop import Training, reproducible
from tests.agent.training.alone import RECIPE, device, group


@pytest.fixture(autouse=True)
def one_rank(tmp_path):
    with group(tmp_path), reproducible():
        yield


@pytest.fixture
def training(tmp_path):
    one = Training(RECIPE, device(tmp_path))
    for _ in range(4):
        one.advance()
    return one


def beside(tmp_path, training, timeout=60.0):
    one = Beside(tmp_path / "checkpoints", tmp_path, training, timeout)
    one.expect(4)
    return one


def test_it_saves_what_was_there_when_it_was_asked(tmp_path, training, monkeypatch):
    """The disk is so slow that three steps are done before the first byte is written."""
    place = checkpoint.save(tmp_path / "in the loop", training)
    write, done = shard.write, threading.Event()
    monkeypatch.setattr(shard, "write", lambda *given: done.wait(60) and write(*given))
    one = beside(tmp_path, training)
    one.save()
    for _ in range(3):
        training.advance()
    done.set()
    one.finish()
    assert shard.newest_complete(tmp_path / "checkpoints") == tmp_path / "checkpoints" / shard.name(4)
    assert shard.described(tmp_path / "checkpoints" / shard.name(4), 0) == shard.described(place, 0)


def two(training):
    """The same run as the two ranks of a pair."""
    ranks = []
    for rank in range(2):
        ranks.append(copy.copy(training))
        ranks[-1].world, ranks[-1].rank = 2, rank
    return ranks


def test_it_is_in_flight_until_every_ranks_part_is_there(tmp_path, training):
    first, second = two(training)
    one, other = beside(tmp_path, first), Beside(tmp_path / "checkpoints", tmp_path, second, 60.0)
    place = tmp_path / "checkpoints" / shard.unfinished(4)
    one.save()
    while not shard.words(place, 0).exists():
        pass
    assert shard.saving(tmp_path, 0).read_text() == "4"
    assert shard.newest_complete(tmp_path / "checkpoints") is None
    other.save()
    other.finish()
    one.finish()
    assert shard.is_whole(tmp_path / "checkpoints" / shard.name(4))
    assert not list(tmp_path.glob("saving.*"))


def test_a_rank_whose_part_does_not_come_is_named(tmp_path, training):
    one = beside(tmp_path, two(training)[0], timeout=0.0)
    one.save()
    with pytest.raises(RuntimeError, match=r"save of step 4 failed: .*no part of ranks \[1\] within 0 s"):
        one.finish()
    assert shard.newest_complete(tmp_path / "checkpoints") is None


def test_a_save_that_failed_is_said_before_the_next_begins(tmp_path, training, monkeypatch):
    one = beside(tmp_path, training)
    monkeypatch.setattr(shard, "write", lambda *_: (_ for _ in ()).throw(OSError("disk full")))
    one.save()
    with pytest.raises(RuntimeError, match="step 4 failed: disk full"):
        one.save()


def test_what_an_earlier_attempt_left_is_removed_before_the_step(tmp_path, training):
    place = shard.begin(tmp_path / "checkpoints", 4)
    shard.words(place, 1).write_text("of a run that was struck")
    beside(tmp_path, two(training)[0])
    assert not list(place.iterdir())
