"""Five ways in which a training run is struck down, each timed: until somebody noticed, and until all was torn down."""

from __future__ import annotations

import shutil
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from gpuburn.agent.processes import Process, send, start_time, stopped, wait_gone
from gpuburn.agent.training import shard
from gpuburn.agent.training.launched import Run, Saving

GONE = 15.0  # seconds that ranks have to be gone once their launcher is
STACKS = 3.0  # seconds that hung ranks have to tell their stacks before they are ended


@dataclass(frozen=True, slots=True)
class Struck:
    """A run that was struck. Seconds from the strike until it was noticed, and from then until all were gone."""

    detection: float
    teardown: float
    survivors: int


@dataclass(frozen=True, slots=True)
class Way:
    """hit: do it to a rank of a run; False if the run ended first. patient: its launcher is left to tear it down.

    saving: how the run that is struck saves. launcher: it is the launcher that is struck, so that it notices nothing.
    """

    hit: Callable[[Run, int, Path], bool]
    saving: Saving = "in the loop"
    patient: bool = True
    launcher: bool = False


def _kill(run: Run, rank: int, checkpoints: Path) -> bool:
    run.ranks.send(rank, signal.SIGKILL)
    return True


def _hang(run: Run, rank: int, checkpoints: Path) -> bool:
    run.ranks.send(rank, signal.SIGSTOP)
    return True


def _behead(run: Run, rank: int, checkpoints: Path) -> bool:
    run.ranks.behead()
    return True


def _kill_in_a_save(run: Run, rank: int, checkpoints: Path) -> bool:
    """Stop the rank at the sight of its save; kill it if that is unfinished, else let it go on to the next one."""
    mark = shard.saving(run.folder, rank)
    while run.ranks.poll() is None:
        if mark.exists():
            run.ranks.send(rank, signal.SIGSTOP)
            pid = run.ranks.pid(rank) or 0
            while not stopped(pid):
                run.pause("a stopped rank still runs")
            if _in_flight(mark, rank, checkpoints):
                run.ranks.send(rank, signal.SIGKILL)
                return True
            run.ranks.send(rank, signal.SIGCONT)
        run.pause("no save was seen")
    return False


def _in_flight(mark: Path, rank: int, checkpoints: Path) -> bool:
    """Whether the save of a stopped rank can never be complete. Rank 0 commits; of others the words are missing."""
    step = mark.read_text() if mark.exists() else ""
    if not step:
        return False
    if rank == 0:
        return not (checkpoints / shard.name(int(step))).exists()
    return not shard.words(checkpoints / shard.unfinished(int(step)), rank).exists()


WAYS = {
    "kill": Way(_kill),
    "hang": Way(_hang, patient=False),
    "launcher": Way(_behead, launcher=True),
    "async": Way(_kill_in_a_save, saving="beside the loop"),
    "torn": Way(_kill),
}


def strike(run: Run, way: Way, rank: int, step: int, checkpoints: Path, patience: float) -> Struck | None:
    """Strike once the step is told, and see everything end. None if the run came to its end first.

    patience: the seconds after which a rank gives up on another.
    """
    everyone: list[Process] = []
    try:
        if not run.reached(step):
            run.late()
            return None
        everyone = run.processes()
        mine = [] if way.launcher else run.processes(rank)
        silent = None if way.launcher else run.ranks.said()
        if not everyone or not way.hit(run, rank, checkpoints):
            run.late()
            return None
        moment = time.monotonic()
        run.noticed([one for one in everyone if one not in mine], silent, GONE if way.launcher else patience)
        noticed = time.monotonic()
        if not way.patient:
            _end(run, rank, everyone)
        status = run.status()
    except ProcessLookupError:
        run.late()
        return None
    finally:
        run.ranks.stop()
        left = remaining(everyone, GONE)
    # A rank that was already through takes a kill without harm: the launcher's status says whether one died of it.
    return Struck(noticed - moment, time.monotonic() - noticed, left) if status != 0 else None


def _end(run: Run, rank: int, everyone: list[Process]) -> None:
    """End a hung run as an operator would: stacks first, then the launcher, which takes its ranks with it.

    torchrun would give a rank that does not react 30 s. A stopped one goes on for as long as it takes to tell and end.
    """
    send(everyone, signal.SIGTERM)
    if start_time(run.ranks.pid(rank) or 0) is not None:
        run.ranks.send(rank, signal.SIGCONT)
    wait_gone(everyone, STACKS)
    run.ranks.behead()


def remaining(ranks: list[Process], seconds: float) -> int:
    """How many of the processes are still there after the time; they are counted, then ended."""
    left = wait_gone(ranks, seconds)
    send(left, signal.SIGKILL)
    return len(left)


def tear(place: Path, rank: int) -> None:
    """Flip one bit in the middle of a rank's file: its size stays as it was."""
    with shard.data(place, rank).open("r+b") as file:
        file.seek(file.seek(0, 2) // 2)
        byte = file.read(1)[0]
        file.seek(-1, 1)
        file.write(bytes([byte ^ 1]))


def keep(run: Run, log: Path, name: str) -> None:
    """Copy what the ranks said at their end to where the step's log is kept: stacks and errors, under the name."""
    for rank in range(run.world):
        said = [run.folder / f"stacks.{rank}.txt", *sorted(run.folder.glob(f"log/**/{rank}/stderr.log"))]
        for path in said:
            if path.exists() and path.stat().st_size:
                shutil.copyfile(path, log / f"{path.name.partition('.')[0]}.{name}.{rank}.txt")
