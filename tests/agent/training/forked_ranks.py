"""Ranks without torchrun, for tests that start many: forked from a server that has imported torch, ended together.

Each rank may carry a fault: a function of this module, called in the rank before it begins.
"""

from __future__ import annotations

import multiprocessing
import os
import socket
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from unittest import mock

from gpuburn.agent.host import Host

SERVER = multiprocessing.get_context("forkserver")
SERVER.set_forkserver_preload(["torch", "torch._dynamo", "gpuburn.agent.training.child"])


class ForkedRanks:
    """What gpuburn.agent.host.Ranks is, started in hundredths of a second."""

    def __init__(self, folder: Path, world: int, fault: str) -> None:
        self.folder, self._headless, self._outlives = folder, False, fault == "outlives its launcher"
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        given = [(str(folder), rank, world, port, fault) for rank in range(world)]
        self._all = [SERVER.Process(target=_rank, args=one) for one in given]
        for one in self._all:
            one.start()

    def pid(self, rank: int) -> int | None:
        path = self.folder / f"pid.{rank}"
        return int(path.read_text()) if path.exists() and path.read_text() else None

    def send(self, rank: int, number: int) -> None:
        os.kill(self.pid(rank) or self._all[rank].pid or 0, number)

    def behead(self) -> None:
        """There is no launcher: the ranks end as their death signal would end them, unless they are to outlive it."""
        if self.poll() is None:
            self._headless = True
            self.stop()

    def said(self) -> int:
        return 0

    def poll(self) -> int | None:
        if self._headless:
            return -9
        status = [one.exitcode for one in self._all]
        if any(status):
            self.stop()
            return 1
        return None if None in status else 0

    def wait(self, timeout: float) -> int:
        end = time.monotonic() + timeout
        while (status := self.poll()) is None:
            if time.monotonic() > end:
                self.stop()
                raise TimeoutError(f"ranks not done within {timeout:g} s")
            time.sleep(0.002)
        return status

    def stop(self) -> None:
        if self._headless and self._outlives:
            return
        for one in self._all:
            one.kill()
            one.join(10)

    def last_words(self) -> str:
        return "".join(path.read_text() for path in sorted(self.folder.glob("stderr.*")))[-600:]


@dataclass(frozen=True)
class ForkedHost(Host):
    """A host of which the run of that folder name carries the fault."""

    faults: dict[str, str] = field(default_factory=dict)

    def ranks(self, module: str, arguments: list[str], folder: Path) -> ForkedRanks:  # type: ignore[override]
        assert module == "gpuburn.agent.training.child" and arguments == [str(folder)]
        return ForkedRanks(folder, len(self.left), self.faults.get(folder.name, ""))


def _rank(folder: str, rank: int, world: int, port: int, fault: str) -> None:
    from gpuburn.agent.training import child

    os.dup2(os.open(f"{folder}/stderr.{rank}", os.O_WRONLY | os.O_CREAT, 0o644), 2)
    os.environ |= {"RANK": str(rank), "WORLD_SIZE": str(world), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    if fault:
        FAULTS[fault]()
    sys.argv = ["child", folder]
    with mock.patch.object(child, "die_with_parent"):  # the parent is the server
        child.main()


def _after_load(change: Callable[..., object]) -> Callable[[], None]:
    """Resuming, and then losing something."""

    def patch() -> None:
        from gpuburn.agent.training import checkpoint

        load = checkpoint.load
        checkpoint.load = lambda place, training: (load(place, training), change(training))  # type: ignore[assignment]

    return patch


def _stay_at_the_beginning() -> None:
    from gpuburn.agent.training import child

    child.begin = lambda task, training: None


def _hang_in_the_second_save() -> None:
    """All ranks have written, and none has renamed, when the kill comes."""
    from gpuburn.agent.training import shard

    commit = shard.commit

    def hang(folder: Path, step: int) -> Path:
        if list(folder.glob("step-*")):
            (folder / "hangs").touch()
            time.sleep(60)
        return commit(folder, step)

    shard.commit = hang


def _take_the_torn_one() -> None:
    from gpuburn.agent.training import shard

    shard.is_whole = lambda folder: True
    shard.verify = lambda folder, shard: None


def _save_slowly() -> None:
    from gpuburn.agent.training import checkpoint

    write = checkpoint.write
    checkpoint.write = lambda *given: (time.sleep(0.1), write(*given))[1]  # type: ignore[func-returns-value]


def _save_what_comes_later() -> None:
    """The state is not copied before the loop goes on."""
    from gpuburn.agent.training import checkpoint

    checkpoint.copied = checkpoint.state
    _save_slowly()


def _fail_in_a_save() -> None:
    from gpuburn.agent.training import shard

    def fail(*_: object) -> None:
        raise OSError("no space left, said the test")

    shard.write = fail  # type: ignore[assignment]


def _crash() -> None:
    from gpuburn.agent.training.loop import Training

    def crash(training: Training) -> None:
        raise RuntimeError("the rank's own fault")

    Training.learn = crash  # type: ignore[method-assign]


def _hang() -> None:
    from gpuburn.agent.training import child

    child.devices.make = lambda *_: time.sleep(60)  # type: ignore[assignment]


FAULTS: dict[str, Callable[[], None]] = {
    "generator lost": _after_load(lambda training: training.noise.manual_seed(1)),
    "step lost": _after_load(lambda training: setattr(training, "step", 0)),
    "step skipped": _after_load(lambda training: setattr(training, "step", training.step + 1)),
    "moments lost": _after_load(lambda training: training.moments[0].zero_()),
    "last bit lost": _after_load(lambda training: training.weights.view(dtype=_int32())[9].bitwise_xor_(1)),
    "checkpoint ignored": _stay_at_the_beginning,
    "hang in save": _hang_in_the_second_save,
    "torn one taken": _take_the_torn_one,
    "slow save": _save_slowly,
    "later state saved": _save_what_comes_later,
    "failing save": _fail_in_a_save,
    "outlives its launcher": lambda: None,
    "crash": _crash,
    "hang": _hang,
}


def _int32() -> object:
    import torch

    return torch.int32
