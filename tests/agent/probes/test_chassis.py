"""The whole machine at once: every load works, and each of them finds what it is made to find."""

from __future__ import annotations

import os
import shutil
import socket
import threading
from collections import namedtuple
from pathlib import Path

import pytest

from gpuburn.agent import loads
from gpuburn.agent.loads import BLOCK, Beside, Tally
from gpuburn.measurement import Fact, Reading, Work
from gpuburn.probe import discover
from tests.agent.threads import one_thread  # noqa: F401  the fixture, found here by name
from tests.agent.training import alone

CHASSIS = discover()["chassis"]
HOST = ("cpu", "memory", "disk", "network")


@pytest.fixture(autouse=True)
def calm(one_thread):  # noqa: F811
    """As in a rehearsal's process."""


def taken(folder: Path, **params: object) -> list[Reading | Fact | Work]:
    return list(CHASSIS.run(alone.device(folder), **{**CHASSIS.smoke, **params}))


def numbers(found: list[Reading | Fact | Work]) -> dict[str, float]:
    return {one.metric: one.value for one in found if isinstance(one, Reading)}


def test_each_load_of_the_host_works_however_short_the_step(tmp_path):
    found = numbers(taken(tmp_path))
    assert set(found) == set(CHASSIS.metrics) and all(found[name] > 0 for name in ("tflops", *HOST))
    assert found["wrong"] == found["host_wrong"] == 0
    assert not list(tmp_path.rglob("*.bin"))


def test_without_room_for_the_disk_s_load_nothing_begins(tmp_path, monkeypatch):
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage(1, 1, 1000))
    with pytest.raises(OSError, match="1000 bytes free, 10066329 wanted"):
        taken(tmp_path)


def test_a_folder_that_is_not_there_is_an_error_and_is_not_made(tmp_path):
    with pytest.raises(FileNotFoundError):
        taken(tmp_path, directory=str(tmp_path / "missing"))
    assert not (tmp_path / "missing").exists()


def run(load: loads.Load) -> Tally:
    """A load that is told to stop at once, and so does the least it may."""
    stop, tally = threading.Event(), Tally()
    stop.set()
    load(stop, tally)
    return tally


def test_a_page_that_changed_on_the_disk_is_wrong(tmp_path, monkeypatch):
    path = tmp_path / "load.bin"

    def damage(where: Path) -> None:
        with where.open("r+b") as file:
            file.seek(BLOCK + 17)
            file.write(b"!")

    monkeypatch.setattr(loads, "evict", damage)
    tally = run(loads.disk(path, 8, seed=1))
    assert tally.wrong == 1 and tally.done == 4 * BLOCK and not path.exists()


def test_a_file_of_somebody_else_is_left_alone(tmp_path):
    path = tmp_path / "load.bin"
    path.write_text("theirs")
    with pytest.raises(FileExistsError):
        run(loads.disk(path, 8, seed=1))
    assert path.read_text() == "theirs"


def test_a_bit_that_changed_on_its_way_through_the_stack_is_wrong(monkeypatch):
    honest = socket.socket.sendall

    def sendall(self: socket.socket, data: bytes) -> None:
        honest(self, data[:-1] + bytes([data[-1] ^ 1]))

    monkeypatch.setattr(socket.socket, "sendall", sendall)
    assert run(loads.network(seed=1)).wrong == 1


@pytest.mark.parametrize(("load", "function"), [(loads.processors(1, 7, 64), "matmul"), (loads.memory(1), "add")])
def test_a_wrong_product_or_sum_is_counted(monkeypatch, load, function):
    import torch

    assert run(load).wrong == 0
    honest, calls = getattr(torch, function), [0]

    def wrong(*args: object, **kwargs: object) -> object:
        calls[0] += 1
        found = honest(*args, **kwargs)
        if "out" in kwargs:
            found[0] += 1
        return found

    monkeypatch.setattr(torch, function, wrong)
    assert run(load).wrong == 1 and calls[0] >= 1


def test_a_load_that_fails_is_an_error_of_the_step_and_ends_the_others():
    ended = threading.Event()

    def fails(stop: threading.Event, tally: Tally) -> None:
        raise OSError("no more room")

    def goes_on(stop: threading.Event, tally: Tally) -> None:
        stop.wait(60)
        ended.set()

    with pytest.raises(OSError, match="no more room"), Beside({"disk": fails, "other": goes_on}).running():
        pass
    assert ended.is_set()


def test_processors_are_shared_among_the_devices(tmp_path, monkeypatch):
    asked = []
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(13)))
    monkeypatch.setattr(loads, "processors", lambda threads, seed: asked.append(threads) or loads.memory(1))
    list(CHASSIS.run(alone.device(tmp_path, 0, 3), **CHASSIS.smoke))
    assert asked == [4]
