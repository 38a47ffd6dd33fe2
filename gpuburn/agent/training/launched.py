"""A training run as the one sees it that launched it: what its ranks told so far, whether they are there, how it ended.

Standard library only: whoever strikes and times a run needs no device.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from gpuburn import strict
from gpuburn.agent.processes import Process, alive, tree

if TYPE_CHECKING:
    from gpuburn.agent.host import Ranks

LOOK = 0.005  # seconds between two looks at a run: far below any step
Place = tuple[int, int]  # rank and step
Saving = Literal["never", "in the loop", "beside the loop"]


@dataclass(frozen=True, slots=True)
class Told:
    """What a run left: loss per step in hex, and a state per rank and step, each in the canonical writing."""

    losses: dict[int, str]
    states: dict[Place, str]

    @property
    def last(self) -> int:
        return max(self.losses, default=0)

    def through(self, steps: int, world: int) -> bool:
        """Whether every rank has done its last step."""
        return all((rank, steps) in self.states for rank in range(world))

    def final(self) -> str:
        """One digest of all ranks' states after the last step."""
        states = [state for (_, step), state in sorted(self.states.items()) if step == self.last]
        return strict.digest("\n".join(states).encode())


def differences(peace: Told, seen: Told, saved: int, ended: bool) -> int:
    """How many bits of evidence of a run that began after step `saved` are not those of the run in peace, or missing.

    A step that was not done, or should not have been, counts: from step 1 anyone comes to the same end. A run that was
    struck owes the losses up to the last one told, and all ranks' states before that step.
    """
    last = peace.last if ended else seen.last
    losses = {step: loss for step, loss in peace.losses.items() if saved < step <= last}
    states = {place: state for place, state in peace.states.items() if place[1] >= saved}
    owed = {place for place in states if place[1] < last or ended}
    return sum(losses.get(step) != seen.losses.get(step) for step in losses.keys() | seen.losses.keys()) + sum(
        states.get(place) != seen.states.get(place) for place in owed | seen.states.keys()
    )


@dataclass(frozen=True, slots=True)
class Run:
    """A launched run; deadline is of time.monotonic()."""

    ranks: Ranks
    folder: Path
    world: int
    started: float
    deadline: float

    def told(self) -> Told:
        """What was told so far; a line that is still being written is left for the next look."""
        losses = {one["step"]: one["loss"] for one in _lines(self.folder / "losses.jsonl")}
        states = {
            (rank, one["step"]): strict.line(one).decode()
            for rank in range(self.world)
            for one in _lines(self.folder / f"states.{rank}.jsonl")
        }
        return Told(losses, states)

    def step(self) -> int:
        """The last step told; cheap enough to be asked all the time beside ranks that need the processor."""
        path = self.folder / "losses.jsonl"
        lines = path.read_bytes().split(b"\n")[:-1] if path.exists() else []
        return int(strict.loads(lines[-1], str(path))["step"]) if lines else 0

    def reached(self, step: int) -> bool:
        """Wait until that step is told. False if the run ended first."""
        while True:
            ended = self.ranks.poll() is not None
            if self.step() >= step:
                return True
            if ended:
                return False
            self.pause(f"step {step} not reached")

    def pause(self, why: str) -> None:
        """Until the next look. Raises TimeoutError once the run's time is over."""
        if time.monotonic() > self.deadline:
            raise TimeoutError(f"{self.folder.name}: {why} in time; {self.why()}")
        time.sleep(LOOK)

    def first(self) -> float:
        """Seconds from the start to the end of the first step."""
        if not self.reached(1):
            raise RuntimeError(f"{self.folder.name}: ended before its first step; {self.why()}")
        return time.monotonic() - self.started

    def processes(self, rank: int | None = None) -> list[Process]:
        """The processes of a rank, or of all, with their descendants."""
        ranks = range(self.world) if rank is None else [rank]
        return tree([pid for one in ranks if (pid := self.ranks.pid(one))])

    def noticed(self, others: list[Process], silent: int | None, patience: float) -> None:
        """Wait until one of the others has ended, or the launcher has: or it has said more than those silent bytes.

        silent: None where it is the launcher that was struck. Then, and where a rank is alone, no other waits in vain:
        it is our own patience that ends.
        """
        end = time.monotonic() + patience
        while len(alive(others)) == len(others):
            if silent is not None and (self.ranks.poll() is not None or self.ranks.said() > silent):
                return
            if (silent is None or not others) and time.monotonic() > end:
                return
            self.pause("nobody noticed that it was struck")

    def ended(self) -> Told:
        """Wait for a good end, and read what it left."""
        status = self.status()
        self.ranks.stop()
        if status != 0:
            raise RuntimeError(f"{self.folder.name}: ranks ended with status {status}; {self.why()}")
        return self.told()

    def late(self) -> None:
        """The run ended before it was struck: well, and it may be repeated; or badly, which nobody asked for."""
        status = self.status()
        if status != 0:
            raise RuntimeError(f"{self.folder.name}: ended with status {status} before it was struck; {self.why()}")

    def status(self) -> int:
        """The launcher's exit status, waited for until the deadline."""
        try:
            return self.ranks.wait(max(1.0, self.deadline - time.monotonic()))
        except TimeoutError as error:
            raise TimeoutError(f"{self.folder.name}: {error}; {self.why()}") from None

    def why(self) -> str:
        """The last words of the rank that failed, else of the launcher."""
        said = sorted(path for path in self.folder.glob("log/**/stderr.log") if path.stat().st_size)
        return said[0].read_text(errors="replace")[-600:] if said else self.ranks.last_words()


def _lines(path: Path) -> list[dict[str, Any]]:
    whole = path.read_bytes().rpartition(b"\n")[0] if path.exists() else b""
    return [strict.loads(line, str(path)) for line in whole.splitlines()]
