"""The runs of the resume probe: one in peace, then one history that is struck, resumed, struck again and ended."""

from __future__ import annotations

import shutil
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from gpuburn import strict
from gpuburn.agent.training import shard
from gpuburn.agent.training.launched import Run, Saving, Told, differences
from gpuburn.agent.training.strike import WAYS, Struck, keep, strike, tear

if TYPE_CHECKING:
    from gpuburn.agent.host import Host
    from gpuburn.agent.training.loop import Recipe

CHILD = "gpuburn.agent.training.child"
ATTEMPTS = 3


@dataclass(frozen=True, slots=True)
class Trial:
    """What all runs have in common, and what of each follows from the seed. timeout, patience: as of the child's task.

    checkpoints: a folder of their own.
    """

    host: Host
    recipe: Recipe
    steps: int
    every: int
    timeout: float
    patience: float
    checkpoints: Path
    variants: list[str]

    @property
    def slot(self) -> int:
        """Steps between two strikes: room for two saves and one step more."""
        return (self.steps - 2) // len(self.variants)

    def check(self) -> None:
        """Refuse what cannot prove anything, or would fill the disk."""
        for name in self.variants:
            strict.known(name, WAYS, "resume: variants")
        if len(set(self.variants)) < len(self.variants):
            raise strict.Refused(f"resume: variants {', '.join(self.variants)}: each is tried once")
        if self.every < 1 or self.slot <= 2 * self.every:
            raise strict.Refused(
                f"every={self.every} of {self.steps} steps leaves no step to be struck in: for {len(self.variants)} "
                f"variants it takes {(2 * self.every + 1) * len(self.variants) + 2} steps"
            )
        if self.checkpoints.exists():
            shutil.rmtree(self.checkpoints)
        self.checkpoints.mkdir(parents=True)
        wanted = int(3.3 * 12 * self.recipe.shape.parameters)
        free = shutil.disk_usage(self.checkpoints).free
        if free < wanted:
            raise OSError(f"{self.checkpoints}: {free} bytes free, {wanted} wanted for three checkpoints and a tenth")

    def chosen(self, number: int, attempt: int) -> tuple[int, int]:
        """Rank and step of a strike. Later attempts are runs of their own, from the first step on, struck earlier."""
        from gpuburn.agent.training.language import derive

        variant, seed = self.variants[number], self.recipe.seed
        low = 2 * self.every + 1 + (0 if attempt else number * self.slot)
        step = low + derive("strike", seed, number, attempt) % max(1, (self.slot - 2 * self.every) >> attempt)
        if variant == "hang":  # right after a save: a hang in one is noticed only when the save's time is over
            step -= (step - 1) % self.every
        return derive("victim", seed, number, attempt) % len(self.host.left), step

    def launch(self, name: str, saving: Saving, resume: bool) -> Run:
        """Start a run in a folder of that name."""
        folder = self.host.folder / name
        if folder.exists():
            shutil.rmtree(folder)
        folder.mkdir(parents=True)
        task = {
            "devices": self.host.left, "recipe": self.recipe, "steps": self.steps, "every": self.every,
            "saving": saving, "checkpoints": str(self.checkpoints), "resume": resume,
            "threads": self.host.threads or 1, "timeout": self.timeout, "patience": self.patience,
        }  # fmt: skip
        (folder / "task.json").write_bytes(strict.encode(task))
        started = time.monotonic()
        ranks = self.host.ranks(CHILD, [str(folder)], folder)
        return Run(ranks, folder, len(self.host.left), started, started + self.timeout)

    def left(self, variant: str, rank: int) -> int:
        """Damage what the variant damages; then the step of the newest checkpoint that is whole, found here.

        That of a torn one is known to be the one before, whatever the search says of it.
        """
        whole = [path for path in sorted(self.checkpoints.glob("step-*")) if shard.is_whole(path)]
        if variant == "torn" and whole:
            tear(whole.pop(), rank)
        if not whole:
            raise RuntimeError(f"{self.checkpoints}: no complete checkpoint was left by the run that was struck")
        return shard.described(whole[-1], 0).step


class History:
    """One run after the other, each resumed from what the one before left; at most one at a time.

    saved: the step that the run under way began after. wrong: differences from the run in peace, per variant.
    iterations: steps done since this was asked last.
    """

    def __init__(self, trial: Trial) -> None:
        self.trial, self.saved = trial, 0
        self.wrong = dict.fromkeys(trial.variants, 0)
        self._done = 0
        self._peace = Told({}, {})
        self._run: Run | None = None
        self._guilty = ""

    @property
    def iterations(self) -> int:
        done, self._done = self._done, 0
        return done

    def peace(self) -> Told:
        """The reference: no saves, no strikes."""
        self._peace = self._launch("reference", "never", "").ended()
        self._done += len(self._peace.losses)
        return self._peace

    def strike(self, number: int) -> tuple[Struck, int] | None:
        """Strike the run under way, or, where there is none any more, one from the first step on.

        With the steps that were lost. None if every run came to its end before it was struck.
        """
        trial, variant = self.trial, self.trial.variants[number]
        for attempt in range(ATTEMPTS):
            run = self._run if number and not attempt and self._run else self._anew(variant, attempt)
            rank, step = trial.chosen(number, attempt)
            struck = strike(run, WAYS[variant], rank, step, trial.checkpoints, trial.patience)
            if trial.host.log and not WAYS[variant].patient:
                keep(run, trial.host.log, variant)
            told = run.told()
            if told.through(trial.steps, run.world):  # the strike came too late, or harmed nobody
                struck = None
            self._compare(told, ended=struck is None)
            if struck:
                self.saved = trial.left(variant, rank)
                return struck, told.last - self.saved
        return None

    def resume(self, number: int) -> float:
        """Start again after the strike of that number. The seconds to the end of the first step."""
        variant, *following = self.trial.variants[number:]
        name, saving = (f"{following[0]}-0", WAYS[following[0]].saving) if following else ("resumed", "in the loop")
        return self._launch(name, saving, variant).first()

    def end(self) -> Told:
        """Let the last run come to its end."""
        if self._run is None:
            raise RuntimeError("no run was resumed")
        told = self._run.ended()
        self._compare(told, ended=True)
        return told

    def stop(self) -> None:
        """Leave no process behind."""
        if self._run is not None:
            self._run.ranks.stop()

    def _anew(self, variant: str, attempt: int) -> Run:
        """A run from the first step on, and nothing left of those before."""
        shutil.rmtree(self.trial.checkpoints)
        self.trial.checkpoints.mkdir()
        self.saved = 0
        run = self._launch(f"{variant}-{attempt}", WAYS[variant].saving, "")
        self._guilty = variant
        return run

    def _launch(self, name: str, saving: Saving, resumed: str) -> Run:
        """resumed: the variant that it is resumed after, "" for a run from the first step on."""
        self._guilty = resumed
        self._run = self.trial.launch(name, saving, bool(resumed))
        return self._run

    def _compare(self, told: Told, ended: bool) -> None:
        self._done += len(told.losses)
        self.wrong[self._guilty] += differences(self._peace, told, self.saved, ended)
