"""Save a run beside its loop: a copy in host memory, written by a thread while the next steps are done.

No collective is in it. Rank 0 makes the place before the step that is saved: whoever has done that step has exchanged
gradients with rank 0 since. It commits when every rank's words lie there. At most one save is in flight.
"""

from __future__ import annotations

import threading
import time
from pathlib import Path

import torch

from gpuburn.agent.training import checkpoint, shard
from gpuburn.agent.training.loop import Training

LOOK = 0.005  # seconds between two looks for the other ranks' parts


class Beside:
    """The saves of one rank. folder: of the checkpoints. marks: the run's own. timeout: of one save, in seconds."""

    def __init__(self, folder: Path, marks: Path, training: Training, timeout: float) -> None:
        self.folder, self.training, self.timeout = folder, training, timeout
        self.mark = shard.saving(marks, training.rank)
        self._thread: threading.Thread | None = None
        self._why: BaseException | None = None

    def expect(self, step: int) -> None:
        """Before the step that will be saved."""
        if self.training.rank == 0:
            shard.begin(self.folder, step)

    def save(self) -> None:
        """Copy the state as it is now and write it beside the loop. Waits only for the save before."""
        self.finish()
        step, tensors = self.training.step, checkpoint.copied(self.training)
        self.mark.write_text(str(step))
        # Not awaited at an exit: a rank that fails, or is told to end, leaves its save unfinished.
        self._thread = threading.Thread(target=self._write, args=(step, tensors), daemon=True)
        self._thread.start()

    def finish(self) -> None:
        """Wait for the save in flight, if there is one. Raises RuntimeError if it is not complete."""
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        if self.mark.exists():
            raise RuntimeError(f"the save of step {self.mark.read_text()} failed: {self._why}") from self._why

    def _write(self, step: int, tensors: dict[str, torch.Tensor]) -> None:
        place = self.folder / shard.unfinished(step)
        try:
            checkpoint.write(place, self.training, step, tensors)
            if self.training.rank == 0:
                self._commit(place, step)
        except (OSError, RuntimeError, ValueError) as error:  # the thread's border: raised in the loop
            self._why = error
            return
        self.mark.unlink()

    def _commit(self, place: Path, step: int) -> None:
        end = time.monotonic() + self.timeout
        while missing := [one for one in range(self.training.world) if not shard.words(place, one).exists()]:
            if time.monotonic() > end:
                raise TimeoutError(f"{place}: no part of ranks {missing} within {self.timeout:g} s")
            time.sleep(LOOK)
        shard.sync(place)  # another rank's own may still be under way
        shard.commit(self.folder, step)
