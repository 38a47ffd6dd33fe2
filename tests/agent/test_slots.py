"""Slots of a shared path: never more holders than slots, dead hosts are passed over, and nobody's files are removed."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor

import pytest

from gpuburn.agent import slots
from gpuburn.agent.slots import STALE, Slots, held


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def aged(path, seconds=STALE + 60):
    """As a holder leaves it that died so long ago."""
    path.touch()
    now = path.stat().st_mtime
    os.utime(path, (now - seconds, now - seconds))


def test_a_slot_is_held_once_and_given_back(tmp_path):
    one, two = Slots(tmp_path, 1), Slots(tmp_path, 1)
    assert one.take() and not two.take()
    assert names(tmp_path) == [".gpuburn-writer-0.0"]
    assert [str(os.getpid()) in said for said in two.holders()] == [True]
    one.release()
    assert two.take() and names(tmp_path) == [".gpuburn-writer-0.0"]
    two.release()
    assert names(tmp_path) == [] and (one.most, two.most, one.lost) == (0, 0, "")


def test_as_many_hold_one_as_there_are_slots_and_see_each_other(tmp_path):
    three = [Slots(tmp_path, 2) for _ in range(3)]
    assert [one.take() for one in three] == [True, True, False]
    for one in three:
        one.release()
    assert [one.most for one in three] == [1, 1, 0]


def test_a_dead_hosts_slot_is_passed_over_and_its_file_left(tmp_path):
    dead = tmp_path / ".gpuburn-writer-0.4"
    aged(dead)
    one, two = Slots(tmp_path, 1), Slots(tmp_path, 1)
    assert one.take() and not two.take()
    assert names(tmp_path) == [dead.name, ".gpuburn-writer-0.5"]
    one.release()
    assert names(tmp_path) == [dead.name] and one.most == 0


def test_a_slot_that_is_touched_stays_its_holders(tmp_path):
    one, two = Slots(tmp_path, 1), Slots(tmp_path, 1)
    assert one.take()
    aged(tmp_path / ".gpuburn-writer-0.0")
    one._watch()
    assert not two.take()
    one.release()


def test_who_comes_late_to_a_generation_does_not_hold_the_slot(tmp_path, monkeypatch):
    """Between the look and the making another host took the next generation, and the dead one's file went away."""
    one = Slots(tmp_path, 1)
    (tmp_path / ".gpuburn-writer-0.1").touch()
    seen = one._seen
    looks = [{}]  # what it saw first; then what is there
    monkeypatch.setattr(one, "_seen", lambda: looks.pop() if looks else seen())
    assert not one.take()
    assert names(tmp_path) == [".gpuburn-writer-0.1"]


def test_many_at_once_never_hold_more_than_there_are(tmp_path):
    all_ = [Slots(tmp_path, 3) for _ in range(24)]
    with ThreadPoolExecutor(24) as pool:
        took = list(pool.map(lambda one: one.take(), all_))
    assert 1 <= sum(took) <= 3
    for one in all_:
        one.release()
    assert [name for name in names(tmp_path) if "writer" in name] == []


def test_a_slot_that_somebody_removed_is_told(tmp_path):
    one = Slots(tmp_path, 1)
    assert one.take()
    (tmp_path / ".gpuburn-writer-0.0").unlink()
    one.release()
    assert one.lost.endswith("No such file or directory")


def test_what_is_no_slot_is_no_holder(tmp_path):
    for name in ("data.bin", ".gpuburn-writer-x.0", ".gpuburn-writer-0", "gpuburn-checkpoint-1"):
        (tmp_path / name).touch()
    with held(Slots(tmp_path, 1)) as one:
        assert one.take() and one.most == 0


def test_the_keeper_touches_it_while_it_is_held(tmp_path, monkeypatch):
    monkeypatch.setattr(slots, "TOUCH", 0.001)
    one = Slots(tmp_path, 1)
    assert one.take()
    aged(tmp_path / ".gpuburn-writer-0.0")
    (tmp_path / ".gpuburn-writer-1.0").touch()
    while not one.most:  # the keeper's next look sees the other
        pass
    assert not Slots(tmp_path, 1).take()
    one.release()


def test_an_error_in_the_block_gives_it_back(tmp_path):
    with pytest.raises(ZeroDivisionError), held(Slots(tmp_path, 1)) as one:
        one.take()
        raise ZeroDivisionError
    assert names(tmp_path) == []
