"""One rank of a training run that may be killed: trains, saves every so often, resumes if asked, and leaves its bits.

Started by torchrun for the resume probe. Leaves losses.jsonl (rank 0, line by line) and final.<rank>.json.
"""

from __future__ import annotations

import datetime
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import torch
import torch.distributed as dist

from gpuburn import plan, strict
from gpuburn.agent import device as devices
from gpuburn.agent.lifeline import die_with_parent
from gpuburn.agent.training import checkpoint, shard
from gpuburn.agent.training.bits import checksum
from gpuburn.agent.training.loop import Recipe, Training, reproducible
from gpuburn.strict import Refused


@dataclass(frozen=True, slots=True)
class Task:
    """What the ranks are to do. every: steps between checkpoints, 0 for none. timeout: of a collective, in seconds."""

    devices: list[plan.Device]
    recipe: Recipe
    steps: int
    every: int
    checkpoints: str
    resume: bool
    threads: int
    timeout: float


@dataclass(frozen=True, slots=True)
class Step:
    """A line of losses.jsonl: the loss to the last bit."""

    step: int
    loss: str


@dataclass(frozen=True, slots=True)
class Final:
    """What a rank ends with: checksums of weights, optimizer and generator."""

    parameters: str
    optimizer: str
    generator: str


def begin(task: Task, training: Training) -> None:
    """Bring the run back to its newest complete checkpoint, which rank 0 finds for all."""
    found: list[str] = [""]
    if training.rank == 0:
        found[0] = str(shard.newest_complete(Path(task.checkpoints)) or "")
    dist.broadcast_object_list(found)
    if not found[0]:
        raise Refused(f"{task.checkpoints}: no complete checkpoint to resume from")
    checkpoint.load(Path(found[0]), training)


def work(task: Task, training: Training, losses: BinaryIO) -> Final:
    """Train to the last step. A step is told only after its checkpoint, if it has one, is complete."""
    if task.resume:
        begin(task, training)
    while training.step < task.steps:
        took = training.advance()
        if task.every and took.step % task.every == 0:
            checkpoint.save(Path(task.checkpoints), training)
        if training.rank == 0:
            losses.write(strict.line(Step(took.step, took.loss.hex())))
            losses.flush()
    return Final(training.parameters(), training.state(), checksum(training.noise.get_state()))


def main() -> None:
    """child FOLDER: FOLDER holds task.json."""
    folder, rank = Path(sys.argv[1]), int(os.environ["RANK"])
    (folder / f"pid.{rank}").write_text(str(os.getpid()))
    die_with_parent()
    path = folder / "task.json"
    task = strict.build(Task, strict.loads(strict.load_file(path), str(path)), str(path))
    torch.set_num_threads(task.threads)
    device = devices.make(task.devices[rank], rank, len(task.devices), folder, task.recipe.seed)
    with reproducible(), (folder / "losses.jsonl").open("ab") as losses:
        dist.init_process_group(device.collectives, timeout=datetime.timedelta(seconds=task.timeout))
        final = work(task, Training(task.recipe, device), losses)
        dist.barrier()
        (folder / f"final.{rank}.json").write_bytes(strict.encode(final))
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
