"""Kill a rank of a training run, resume from its newest checkpoint, and compare every bit with a run left in peace."""

from __future__ import annotations

import shutil
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpuburn import strict
from gpuburn.agent import place
from gpuburn.agent.processes import Process, send, tree, wait_gone
from gpuburn.measurement import Fact, Metric, Observed, Reading, Work
from gpuburn.probe import Taken, probe

if TYPE_CHECKING:
    from gpuburn.agent.host import Host, Ranks
    from gpuburn.agent.training.loop import Recipe

CHILD = "gpuburn.agent.training.child"
ATTEMPTS = 3
GONE = 15.0  # seconds that ranks have to be gone once their launcher is
LOOK = 0.005  # seconds between two looks at a run: far below any step


def _stored(params: dict[str, Any], count: int) -> int:
    """Bytes of all checkpoints: of each run that is killed, as often as that may take, and of the resumed one."""
    heads, width = params["heads"], params["width"]
    attention = 2 * width * width + 2 * params["kv_heads"] * (width // heads) * width
    block = attention + 3 * width * params["ffn"] + 2 * width
    parameters = 2 * params["vocab"] * width + params["layers"] * block + width  # Shape.parameters, without torch
    return int(12 * parameters * (params["steps"] // params["every"]) * (ATTEMPTS + 1))


@probe(
    scope="host",
    stores=_stored,
    mismatches=Metric("count", "last", doc="losses and final checksums whose bits are not the reference's, or missing"),
    kills=Metric("count", "last", doc="ranks that were killed while they trained: without one nothing was tried"),
    survivors=Metric("count", "last", doc="ranks still there after their launcher had ended"),
    steps_lost=Metric("count", "last", doc="steps done between the checkpoint and the kill: they are done twice"),
    detection=Metric("s", "last", doc="from the kill until the launcher had noticed, torn all down and ended"),
    restart=Metric("s", "last", doc="from the new start to the end of the first step after the checkpoint"),
    reference=Observed("digest of all ranks' weights, optimizers and generators after the run in peace"),
    resumed=Observed("the same digest after kill and resume"),
    smoke={
        "layers": 2, "width": 64, "heads": 4, "kv_heads": 2, "ffn": 128, "vocab": 64, "sequence": 32, "batch": 4,
        "steps": 60, "every": 5, "learning_rate": 3e-3, "timeout": 60.0,
    },
    **place.TELLS,
)  # fmt: skip
def resume(
    host: Host, layers: int = 8, width: int = 2048, heads: int = 16, kv_heads: int = 8, ffn: int = 8192,
    vocab: int = 32768, sequence: int = 4096, batch: int = 4, learning_rate: float = 3e-4, warmup: int = 10,
    steps: int = 60, every: int = 15, directory: str = "", writers: int = 4, timeout: float = 600.0,
) -> Iterator[Taken]:  # fmt: skip
    """Run in peace, run and kill, resume: the resumed run must end with the very bits of the one left in peace.

    The step and the rank of the kill follow from the seed. A run that ends before the kill is repeated with an earlier
    one. directory: the file system of the checkpoints ("" = scratch). writers: hosts that may write there at once.
    timeout: of each of the runs, in seconds.

    Exercises: the launcher, the death of a rank under load, checkpoints, their being found, deterministic training.
    Does not exercise: the loss of a host, a hang without a death, another number of ranks after the restart.
    """
    from gpuburn.agent.training.loop import Recipe
    from gpuburn.agent.training.model import Shape

    shape = Shape(layers, width, heads, kv_heads, ffn, vocab, sequence)
    recipe = Recipe(shape, batch, host.seed, learning_rate, warmup)
    own = place.own(host.folder, directory, "resume") if directory else host.folder / "checkpoints"
    trial = Trial(host, recipe, steps, every, timeout, own)
    with place.of_host(directory, own, writers) as there:
        try:
            trial.check()
            yield from _tried(trial)
        finally:
            shutil.rmtree(trial.checkpoints, ignore_errors=True)
        yield from there.told()


def _tried(trial: Trial) -> Iterator[Taken]:
    peace = trial.run("reference", every=0, resume=False).ended()
    yield Work(iterations=len(peace.losses))
    yield Fact("reference", peace.digest)
    struck = next((one for one in map(trial.strike, range(ATTEMPTS)) if one), None)
    yield Reading("kills", float(struck is not None))
    if struck is None:
        return
    yield Reading("detection", struck.detection)
    yield Reading("survivors", float(struck.survivors))
    saved = trial.newest()
    yield Reading("steps_lost", float(max(struck.losses) - saved))
    run = trial.run("resumed", every=trial.every, resume=True)
    yield Reading("restart", run.first())
    again = run.ended()
    yield Fact("resumed", again.digest)
    yield Work(iterations=len(again.losses))
    yield Reading("mismatches", float(mismatches(peace, struck.losses, again, saved)))


def mismatches(peace: Ended, before: dict[int, str], again: Ended, saved: int) -> int:
    """How many bits of evidence differ: losses up to the kill, losses from the checkpoint on, every rank's final state.

    A step that the resumed run did not do, or should not have done, counts: from step 1 anyone comes to the same end.
    """
    killed = sum(peace.losses.get(step) != loss for step, loss in before.items())
    due = {step: loss for step, loss in peace.losses.items() if step > saved}
    resumed = sum(due.get(step) != again.losses.get(step) for step in due.keys() | again.losses.keys())
    finals = sum(one != other for one, other in zip(peace.finals, again.finals))
    return killed + resumed + finals + abs(len(peace.finals) - len(again.finals))


@dataclass(frozen=True, slots=True)
class Ended:
    """A run that came to its end: loss per step in hex, and each rank's final checksums in the canonical writing."""

    losses: dict[int, str]
    finals: list[str]

    @property
    def digest(self) -> str:
        return strict.digest("".join(self.finals).encode())


@dataclass(frozen=True, slots=True)
class Struck:
    """A run that was killed."""

    losses: dict[int, str]
    detection: float
    survivors: int


@dataclass(frozen=True, slots=True)
class Trial:
    """The runs of one probe: the same recipe on the same ranks, with or without checkpoints."""

    host: Host
    recipe: Recipe
    steps: int
    every: int
    timeout: float
    checkpoints: Path

    def check(self) -> None:
        """Refuse what cannot prove anything, or would fill the disk."""
        if not 0 < self.every < self.steps - 2:
            raise strict.Refused(f"every={self.every} of {self.steps} steps leaves no step to be killed in")
        shutil.rmtree(self.checkpoints, ignore_errors=True)
        self.checkpoints.mkdir(parents=True)
        wanted = int(3.3 * 12 * self.recipe.shape.parameters)
        free = shutil.disk_usage(self.checkpoints).free
        if free < wanted:
            raise OSError(f"{self.checkpoints}: {free} bytes free, {wanted} wanted for three checkpoints and a tenth")

    def run(self, name: str, every: int, resume: bool) -> Run:
        folder = self.host.folder / name
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        task = {
            "devices": self.host.devices, "recipe": self.recipe, "steps": self.steps, "every": every, "resume": resume,
            "checkpoints": str(self.checkpoints), "threads": self.host.threads or 1, "timeout": self.timeout,
        }  # fmt: skip
        (folder / "task.json").write_bytes(strict.encode(task))
        started = time.monotonic()
        ranks = self.host.ranks(CHILD, [str(folder)], folder)
        return Run(ranks, folder, len(self.host.devices), started, started + self.timeout)

    def strike(self, attempt: int) -> Struck | None:
        """A run with one rank killed at a step that follows from the seed; None if it ended first."""
        from gpuburn.agent.training.language import derive

        shutil.rmtree(self.checkpoints, ignore_errors=True)
        seed, span = self.recipe.seed, (self.steps - 2 - self.every) >> attempt
        at = self.every + 1 + derive("kill", seed, attempt) % max(1, span)
        rank = derive("victim", seed, attempt) % len(self.host.devices)
        return self.run(f"victim-{attempt}", self.every, resume=False).killed(rank, at)

    def newest(self) -> int:
        """The step that a resumed run must begin after, found here and not by the run itself."""
        from gpuburn.agent.training import shard

        found = shard.newest_complete(self.checkpoints)
        if found is None:
            raise RuntimeError(f"{self.checkpoints}: no complete checkpoint was left by the killed run")
        return shard.described(found, 0).step


@dataclass(frozen=True, slots=True)
class Run:
    """A launched run; deadline is of time.monotonic(). Each method that ends it leaves no process behind."""

    ranks: Ranks
    folder: Path
    world: int
    started: float
    deadline: float

    def losses(self) -> dict[int, str]:
        """What was told so far; a line that is still being written is left for the next look."""
        path = self.folder / "losses.jsonl"
        whole = path.read_bytes().rpartition(b"\n")[0] if path.exists() else b""
        lines = [strict.loads(line, str(path)) for line in whole.splitlines()]
        return {line["step"]: line["loss"] for line in lines}

    def told(self) -> int:
        """The last step told; cheap enough to be asked all the time beside ranks that need the processor."""
        path = self.folder / "losses.jsonl"
        lines = path.read_bytes().split(b"\n")[:-1] if path.exists() else []
        return int(strict.loads(lines[-1], str(path))["step"]) if lines else 0

    def reached(self, step: int) -> bool:
        """Wait until so many steps are told. False if the run ended first."""
        while True:
            ended = self.ranks.poll() is not None
            if self.told() >= step:
                return True
            if ended:
                return False
            if time.monotonic() > self.deadline:
                raise TimeoutError(f"{self.folder.name}: step {step} not reached in time; {self.ranks.last_words()}")
            time.sleep(LOOK)

    def first(self) -> float:
        """Seconds from the start to the end of the first step."""
        try:
            if not self.reached(1):
                raise RuntimeError(f"{self.folder.name}: ended before its first step; {self.why()}")
        except BaseException:
            self.ranks.stop()
            raise
        return time.monotonic() - self.started

    def ended(self) -> Ended:
        """Wait for a good end, and read what it left."""
        try:
            status = self._status()
        finally:
            self.ranks.stop()
        if status != 0:
            raise RuntimeError(f"{self.folder.name}: ranks ended with status {status}; {self.why()}")
        return Ended(self.losses(), [(self.folder / f"final.{rank}.json").read_text() for rank in range(self.world)])

    def killed(self, rank: int, step: int) -> Struck | None:
        """SIGKILL the rank once the step is told, and see all the others end. None if the run came to its end first."""
        alive: list[Process] = []
        try:
            if not self.reached(step):
                self._late()
                return None
            alive = tree([pid for rank in range(self.world) if (pid := self.ranks.pid(rank))])
            self.ranks.kill(rank)
            moment = time.monotonic()
            status = self._status()
            detection = time.monotonic() - moment
        except ProcessLookupError:
            self._late()
            return None
        finally:
            self.ranks.stop()
            left = remaining(alive, GONE)
        # A rank that was already through takes a kill without harm: the launcher's status says whether one died of it.
        return Struck(self.losses(), detection, left) if status != 0 else None

    def _late(self) -> None:
        """The run ended before the kill: well, and it may be repeated; or badly, which nobody asked for."""
        status = self._status()
        if status != 0:
            raise RuntimeError(f"{self.folder.name}: ended with status {status} before it was killed; {self.why()}")

    def _status(self) -> int:
        try:
            return self.ranks.wait(max(1.0, self.deadline - time.monotonic()))
        except TimeoutError as error:
            raise TimeoutError(f"{self.folder.name}: {error}; {self.why()}") from None

    def why(self) -> str:
        """The last words of the rank that failed, else of the launcher."""
        said = sorted(path for path in self.folder.glob("log/**/stderr.log") if path.stat().st_size)
        return said[0].read_text(errors="replace")[-600:] if said else self.ranks.last_words()


def remaining(ranks: list[Process], seconds: float) -> int:
    """How many of the processes are still there after the time; they are counted, then ended."""
    left = wait_gone(ranks, seconds)
    send(left, signal.SIGKILL)
    return len(left)
