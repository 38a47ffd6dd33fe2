"""Saving and loading on three ranks: one rank's damage stops all of them, and none waits for another for ever."""

from __future__ import annotations

import torch.distributed as dist

from gpuburn.agent.training import checkpoint, shard
from gpuburn.agent.training.loop import Training, reproducible
from gpuburn.measurement import Fact
from gpuburn.strict import Refused
from tests.agent.training.alone import RECIPE
from tests.agent.training.three_ranks import WORLD, run


def cases(device):
    with reproducible():
        training = Training(RECIPE, device)
        for _ in range(3):
            training.advance()
        place = checkpoint.save(device.folder / "checkpoints", training)
        yield "straight", [*ahead(training)]
        again = Training(RECIPE, device)
        checkpoint.load(place, again)
        yield "loaded", [*ahead(again)]
        yield "found", [Fact("found", str(shard.newest_complete(place.parent) == place))]
        dist.barrier()
        if device.rank == 1:
            path = shard.data(place, 1)
            path.write_bytes(path.read_bytes()[:-1] + b"?")
        dist.barrier()
        yield "damaged", [*refusal(place, Training(RECIPE, device))]


def ahead(training):
    for _ in range(3):
        yield Fact("loss", training.advance().loss.hex())
    yield Fact("parameters", training.parameters())
    yield Fact("optimizer", training.state())


def refusal(place, training):
    before = training.parameters()
    try:
        checkpoint.load(place, training)
    except Refused as error:
        yield Fact("refusal", str(error))
    yield Fact("changed", str(before != training.parameters()))


def test_three_ranks_save_load_and_refuse_together(tmp_path):
    taken = run(cases, tmp_path)
    assert taken["straight"] == taken["loaded"]
    assert all(one == taken["straight"][0] for one in taken["straight"])
    assert taken["found"] == [[Fact("found", "True")]] * WORLD
    for rank in range(WORLD):
        refused, changed = taken["damaged"][rank]
        assert "rank-1.bin" in refused.value and changed.value == "False"
