"""Devices of one step that take turns, or start something at one time, without a process group: by empty files.

A dead neighbour holds the others up for no longer than the patience: then they go on without it.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from pathlib import Path

NAP = 0.005  # seconds between two looks


class Turns:
    """One device's side. folder: shared by the devices of the step. patience: seconds that one turn may take."""

    def __init__(self, folder: Path, rank: int, world: int, patience: float) -> None:
        self.folder, self.rank, self.world, self.patience = folder, rank, world, patience
        folder.mkdir(parents=True, exist_ok=True)

    def wait(self, what: str) -> None:
        """Wait until every device of a lower rank is done with it."""
        self._until(what, range(self.rank))

    def done(self, what: str) -> None:
        self._file(what, self.rank).touch()

    def meet(self, what: str) -> None:
        """Wait until every device has come this far."""
        self.done(what)
        self._until(what, range(self.world))

    def _until(self, what: str, ranks: Iterable[int]) -> None:
        for rank in ranks:
            awaited = self._file(what, rank)
            end = time.monotonic() + self.patience  # from when the one before it was done
            while not awaited.exists():
                if time.monotonic() >= end:
                    awaited.touch()  # given up, by all at once: the next ones do not wait for it again
                    break
                time.sleep(NAP)

    def _file(self, what: str, rank: int) -> Path:
        return self.folder / f"turn.{what}.{rank}"
