"""Checkpoint folders: found only when whole, kept two, and nothing removed that is not one."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from gpuburn.agent.training import shard
from gpuburn.agent.training.shard import Part, Shard
from gpuburn.strict import Refused

WORLD = 3


def save(folder: Path, step: int, config: str = "one") -> Path:
    place = shard.begin(folder, step)
    for rank in range(WORLD):
        content = bytes([rank, step % 256]) * 500
        size, digest = shard.write(shard.data(place, rank), [memoryview(content)])
        shard.describe(place, Shard(config, step, rank, WORLD, size, digest, [Part("weights", "uint8", size)]))
    return shard.commit(folder, step)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_what_was_saved_is_found_and_the_last_two_are_kept(tmp_path):
    assert shard.newest_complete(tmp_path / "nowhere") is None
    for step in (5, 10, 15):
        save(tmp_path, step)
    assert names(tmp_path) == ["step-00000010", "step-00000015"]
    assert shard.newest_complete(tmp_path) == tmp_path / "step-00000015"
    assert shard.described(tmp_path / "step-00000015", 2).step == 15


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


DAMAGE = {
    "a flipped bit": lambda at: flip(at / "rank-1.bin"),
    "a truncated shard": lambda at: os.truncate(at / "rank-1.bin", 999),
    "a longer shard": lambda at: (at / "rank-1.bin").write_bytes((at / "rank-1.bin").read_bytes() + b"x"),
    "a missing shard": lambda at: (at / "rank-2.bin").unlink(),
    "a missing description": lambda at: (at / "rank-2.json").unlink(),
    "a cut description": lambda at: os.truncate(at / "rank-0.json", 20),
    "an empty description": lambda at: (at / "rank-0.json").write_text("{}"),
    "another run's shard": lambda at: other(at),
    "swapped ranks": lambda at: (at / "rank-1.json").write_bytes((at / "rank-2.json").read_bytes()),
    "another step's name": lambda at: at.rename(at.parent / "step-00000011"),
    "a linked shard": lambda at: ((at / "rank-1.bin").rename(at / "x"), (at / "rank-1.bin").symlink_to(at / "x")),
}


def other(at: Path) -> None:
    text = (at / "rank-1.json").read_text().replace('"one"', '"two"')
    (at / "rank-1.json").write_text(text)


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
def test_a_damaged_checkpoint_is_passed_over_for_the_one_before(tmp_path, damage):
    save(tmp_path, 5)
    damage(save(tmp_path, 10))
    assert shard.newest_complete(tmp_path) == tmp_path / "step-00000005"


def test_an_unfinished_one_is_passed_over_and_made_anew(tmp_path):
    save(tmp_path, 5)
    place = shard.begin(tmp_path, 10)
    (place / "rank-0.bin").write_bytes(b"half")
    assert shard.newest_complete(tmp_path) == tmp_path / "step-00000005"
    assert save(tmp_path, 10) == shard.newest_complete(tmp_path)


def test_a_damaged_one_of_the_same_step_is_replaced(tmp_path):
    flip(save(tmp_path, 10) / "rank-1.bin")
    assert save(tmp_path, 10) == shard.newest_complete(tmp_path)


@pytest.mark.parametrize("call", ["os.fsync", "os.rename", "shard.sync", "shard.describe"])
def test_a_process_killed_while_it_saves_leaves_the_one_before(tmp_path, call):
    """The kill comes at the moment that the named function is first called for the second checkpoint."""
    save(tmp_path, 5)
    script = f"""
import os, pathlib, signal, sys
from gpuburn.agent.training import shard
from tests.agent.training.test_shard import save
die = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
pathlib.Path.rename = die if {call!r} == "os.rename" else pathlib.Path.rename
os.fsync = die if {call!r} == "os.fsync" else os.fsync
shard.sync = die if {call!r} == "shard.sync" else shard.sync
shard.describe = die if {call!r} == "shard.describe" else shard.describe
save(pathlib.Path(sys.argv[1]), 10)
"""
    root = Path(__file__).parents[3]
    done = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path)], cwd=root, env={**os.environ, "PYTHONPATH": "."}
    )
    assert done.returncode == -signal.SIGKILL
    assert shard.newest_complete(tmp_path) == tmp_path / "step-00000005"
    assert save(tmp_path, 10) == shard.newest_complete(tmp_path)


def test_a_name_is_durable_before_the_one_before_it_is_removed(tmp_path, monkeypatch):
    """What is synced when the oldest goes: the files, their folder, and the folder of the names."""
    save(tmp_path, 5), save(tmp_path, 10)
    order = []
    sync, remove = shard.sync, shard.remove
    monkeypatch.setattr(shard, "sync", lambda folder: (order.append(("sync", folder.name)), sync(folder)))
    monkeypatch.setattr(shard, "remove", lambda path: (order.append(("remove", path.name)), remove(path)))
    save(tmp_path, 15)
    assert order[-2:] == [("sync", tmp_path.name), ("remove", "step-00000005")]
    assert order.count(("sync", ".tmp-00000015")) == WORLD


def test_nothing_that_is_not_a_checkpoint_is_ever_removed(tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "precious").write_text("x")
    folder = tmp_path / "checkpoints"
    folder.mkdir()
    for foreign in ("step-old", "notes", "step-1", ".tmp-x"):
        (folder / foreign).mkdir()
    (folder / "step-00000001").symlink_to(outside)
    with pytest.raises(Refused, match="left alone"):
        shard.remove(folder / "step-00000001")
    with pytest.raises(Refused, match="left alone"):
        shard.remove(outside)
    (folder / "step-00000001").unlink()
    for step in (5, 10, 15):
        save(folder, step)
    assert (outside / "precious").read_text() == "x"
    assert names(folder) == [".tmp-x", "notes", "step-00000010", "step-00000015", "step-1", "step-old"]
