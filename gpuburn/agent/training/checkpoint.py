"""Save and load the whole state of a training run, each rank its own share; damage is refused by all.

The replicated state (weights, moments) is cut into equal slices, one per rank; what is a rank's own (generator,
counter of updates) is written whole. Files and folders are shard.py's business.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import torch
import torch.distributed as dist

from gpuburn.agent.training import shard
from gpuburn.agent.training.bits import memory
from gpuburn.agent.training.loop import Training
from gpuburn.agent.training.shard import Part, Shard
from gpuburn.strict import Refused

PIECE = 2**24  # values brought to the host at a time


def save(folder: Path, training: Training) -> Path:
    """Write the state as it is after training.step steps. Returns on every rank when the whole is durable."""
    if training.rank == 0:
        shard.begin(folder, training.step)
    dist.barrier()
    write(folder / shard.unfinished(training.step), training, training.step, state(training))
    dist.barrier()
    if training.rank == 0:
        shard.commit(folder, training.step)
    dist.barrier()
    return folder / shard.name(training.step)


def state(training: Training) -> dict[str, torch.Tensor]:
    """This rank's share of the state, as views: the next step changes them."""
    return {**_slices(training), **_own(training)}


def copied(training: Training) -> dict[str, torch.Tensor]:
    """The same in host memory, as it is now: the loop may go on."""
    return {name: one.detach().to("cpu", copy=True) for name, one in state(training).items()}


def write(place: Path, training: Training, step: int, tensors: dict[str, torch.Tensor]) -> None:
    """Write this rank's share durably, then the words that say what it is. No other rank is asked."""
    parts = [Part(name, str(one.dtype).removeprefix("torch."), one.numel()) for name, one in tensors.items()]
    size, digest = shard.write(shard.data(place, training.rank), _bytes(tensors))
    config = training.recipe.digest(training.world)
    shard.describe(place, Shard(config, step, training.rank, training.world, size, digest, parts))


def load(place: Path, training: Training) -> None:
    """Bring a run back to where it was saved. If one rank refuses its share all refuse, and nothing is changed."""
    refusal, tensors = "", {}
    try:
        tensors = _read(place, training)
    except (Refused, OSError) as error:
        refusal = str(error)
    refusals: list[str] = [""] * training.world
    dist.all_gather_object(refusals, refusal)
    if any(refusals):
        raise Refused("; ".join(sorted({one for one in refusals if one})))
    for name, whole in _replicated(training).items():
        mine = tensors[name].to(whole.device)
        dist.all_gather(list(whole.chunk(training.world)), mine)
    training.updates.copy_(tensors["updates"][0])
    training.noise.set_state(tensors["noise"])
    training.step = shard.described(place, training.rank).step


def _replicated(training: Training) -> dict[str, torch.Tensor]:
    return {"weights": training.weights, "moment1": training.moments[0], "moment2": training.moments[1]}


def _slices(training: Training) -> dict[str, torch.Tensor]:
    """This rank's share of what every rank holds."""
    return {name: whole.chunk(training.world)[training.rank] for name, whole in _replicated(training).items()}


def _own(training: Training) -> dict[str, torch.Tensor]:
    """What only this rank knows."""
    return {"updates": training.updates.reshape(1), "noise": training.noise.get_state()}


def _bytes(tensors: dict[str, torch.Tensor]) -> Iterator[memoryview]:
    for tensor in tensors.values():
        for piece in torch.split(tensor, PIECE):
            host = piece.cpu().contiguous()
            yield memory(host)


def _read(place: Path, training: Training) -> dict[str, torch.Tensor]:
    """This rank's shard, verified: digest, recipe, number of ranks and the sizes of its parts."""
    said = shard.described(place, training.rank)
    config = training.recipe.digest(training.world)
    if said.config != config:
        raise Refused(f"{place}: of config {said.config[:16]}..., this run's is {config[:16]}...")
    if (said.rank, said.world) != (training.rank, training.world):
        raise Refused(f"{place}: rank {said.rank} of {said.world}, wanted is {training.rank} of {training.world}")
    expected = {name: one.numel() for name, one in state(training).items()}
    if {part.name: part.count for part in said.parts} != expected:
        raise Refused(f"{place}: rank {said.rank} holds {said.parts}, wanted is {expected}")
    shard.verify(place, said)
    found = {part.name: torch.empty(part.count, dtype=getattr(torch, part.dtype)) for part in said.parts}
    with shard.data(place, said.rank).open("rb") as file:
        for part in said.parts:
            file.readinto(memory(found[part.name]))
    return found
