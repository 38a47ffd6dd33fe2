"""One rank of a training run that may be struck: trains, saves every so often, resumes if asked, and leaves its bits.

Started by torchrun for the resume probe. Leaves losses.jsonl (rank 0) and states.<rank>.jsonl, line by line, and
stacks.<rank>.txt, which is empty unless the rank crashed or was told to end.
"""

from __future__ import annotations

import datetime
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import torch
import torch.distributed as dist

from gpuburn import plan, strict
from gpuburn.agent import device as devices
from gpuburn.agent.lifeline import die_with_parent
from gpuburn.agent.training import checkpoint, shard
from gpuburn.agent.training.beside import Beside
from gpuburn.agent.training.bits import checksum
from gpuburn.agent.training.launched import Saving
from gpuburn.agent.training.loop import Recipe, Training, reproducible
from gpuburn.agent.worker import keep_stacks
from gpuburn.strict import Refused


@dataclass(frozen=True, slots=True)
class Task:
    """What the ranks are to do. every: steps from one state that is told, and saved, to the next.

    timeout: of a save, and of what the ranks do together before and after training; patience: of a step's collectives.
    Both in seconds: a hang is seen after the second, and a slow disk is none.
    """

    devices: list[plan.Device]
    recipe: Recipe
    steps: int
    every: int
    saving: Saving
    checkpoints: str
    resume: bool
    threads: int
    timeout: float
    patience: float


@dataclass(frozen=True, slots=True)
class Step:
    """A line of losses.jsonl: the loss to the last bit."""

    step: int
    loss: str


@dataclass(frozen=True, slots=True)
class State:
    """A line of states.<rank>.jsonl: checksums of weights, optimizer and generator after so many steps."""

    step: int
    parameters: str
    optimizer: str
    generator: str

    @classmethod
    def of(cls, training: Training) -> State:
        noise = checksum(training.noise.get_state())
        return cls(training.step, training.parameters(), training.state(), noise)


def begin(task: Task, training: Training) -> None:
    """Bring the run back to its newest complete checkpoint, which rank 0 finds for all."""
    found: list[str] = [""]
    if training.rank == 0:
        found[0] = str(shard.newest_complete(Path(task.checkpoints)) or "")
    dist.broadcast_object_list(found)
    if not found[0]:
        raise Refused(f"{task.checkpoints}: no complete checkpoint to resume from")
    checkpoint.load(Path(found[0]), training)


def work(task: Task, training: Training, beside: Beside, losses: BinaryIO, states: BinaryIO) -> None:
    """Train to the last step, and tell states and losses. A save in the loop is complete before its step is told."""
    if task.resume:
        begin(task, training)
    _tell(states, State.of(training))
    while training.step < task.steps:
        due = (training.step + 1) % task.every == 0
        if due and task.saving == "beside the loop":
            beside.expect(training.step + 1)
        took = training.advance()
        if due:
            _tell(states, State.of(training))
            if task.saving == "in the loop":
                checkpoint.save(Path(task.checkpoints), training)
            elif task.saving == "beside the loop":
                beside.save()
        if training.rank == 0:
            _tell(losses, Step(took.step, took.loss.hex()))
    beside.finish()
    if training.step % task.every:
        _tell(states, State.of(training))


def _tell(file: BinaryIO, said: Any) -> None:
    file.write(strict.line(said))
    file.flush()


def main() -> None:
    """child FOLDER: FOLDER holds task.json."""
    folder, rank = Path(sys.argv[1]), int(os.environ["RANK"])
    (folder / f"pid.{rank}").write_text(str(os.getpid()))
    die_with_parent()
    keep_stacks(folder, str(rank))
    path = folder / "task.json"
    task = strict.build(Task, strict.loads(strict.load_file(path), str(path)), str(path))
    torch.set_num_threads(task.threads)
    device = devices.make(task.devices[rank], rank, len(task.devices), folder, task.recipe.seed)
    with (
        reproducible(),
        (folder / "losses.jsonl").open("ab") as losses,
        (folder / f"states.{rank}.jsonl").open("ab") as states,
    ):
        dist.init_process_group(device.collectives, timeout=datetime.timedelta(seconds=task.timeout))
        steps = dist.new_group(timeout=datetime.timedelta(seconds=task.patience))
        training = Training(task.recipe, device, steps)
        beside = Beside(Path(task.checkpoints), folder, training, task.timeout)
        work(task, training, beside, losses, states)
        dist.barrier()
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
