"""What a device is worth beside others: training on 1, 2, 4, ... all devices, against the same devices alone."""

from __future__ import annotations

import statistics
from collections.abc import Generator, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from gpuburn.measurement import Fact, Metric, Observed, Point, Reading, Work
from gpuburn.plan import HOST
from gpuburn.probe import Taken, probe
from gpuburn.strict import Refused

if TYPE_CHECKING:
    from gpuburn.agent.device import Device
    from gpuburn.agent.training.loop import Recipe

AT = {"devices": "counts"}


@probe(
    scope="ranks",
    filled={"counts": "doublings"},
    weak=Metric("1", "last", "the same rows per device: token/s of n devices over n times that of one; the worst group",
                per="host", at=AT, better="higher"),
    strong=Metric("1", "last", "the same rows in all: time of one device over n times that of n; the worst group",
                  per="host", at=AT, better="higher"),
    exposed=Metric("1", "last", "communication: share of a weak step beside forward and backward; the worst group",
                   per="host", at=AT, better="lower"),
    alone=Metric("token/s", doc="one device alone, while all the others work alone too", better="higher"),
    not_finite=Metric("count", "sum", "steps whose loss or gradient is infinite or no number"),
    worst=Observed("the devices of the group with the lowest weak efficiency, and that of the best group", per="host",
                   at=AT),
    smoke={
        "counts": [1], "layers": 2, "width": 64, "heads": 4, "kv_heads": 2, "ffn": 128, "vocab": 64, "sequence": 32,
        "batch": 2, "rows": 6, "warm": 1, "steps": 3,
    },
)  # fmt: skip
def scaling(
    device: Device, counts: list[int] = [], layers: int = 8, width: int = 2048, heads: int = 16,  # noqa: B006
    kv_heads: int = 8, ffn: int = 8192, vocab: int = 32768, sequence: int = 2048, batch: int = 4, rows: int = 8,
    warm: int = 10, steps: int = 50,
) -> Iterator[Taken]:  # fmt: skip
    """Train in groups of 1, 2, 4, ... all devices, as many groups of a size at a time as there are devices for.

    The baseline is the median of all devices, each alone and all at the same time: heat and power are then shared as
    they are in a group, and no single device makes the base. Weak: `batch` rows per device. Strong: `rows` rows in all,
    rounded to whole rows per device; the time of one device is scaled to what they are. Times are medians over `steps`
    steps after `warm` ones, of the slowest device of a group.
    counts: how many devices together, first 1; the plan fills it in. Formulas: stress tests of pytorch/torchtitan.

    Exercises: the exchange of gradients in groups of every size, libraries with their own choice of algorithm.
    Does not exercise: overlap of exchange and computation: what is exposed here could be hidden; other hosts.
    """
    from gpuburn.agent.training.loop import Recipe
    from gpuburn.agent.training.model import Shape

    shape = Shape(layers, width, heads, kv_heads, ffn, vocab, sequence)
    ways = Ways(Recipe(shape, batch, device.seed, 3e-4), rows, warm, steps)
    if counts[:1] != [1]:
        raise Refused(f"counts {counts}: wanted is 1 first, which all others are compared with")
    base: list[list[Pace]] = []
    for count in (one for one in counts if one <= device.world):  # a lost device leaves its sizes open
        groups = [list(range(start, start + count)) for start in range(0, device.world - count + 1, count)]
        weak, strong = yield from _trained(device, ways, groups)
        base = base or [weak, strong]
        yield from _told(device, ways, groups, [weak, strong], base)


@dataclass(frozen=True, slots=True)
class Pace:
    """One device's steps: median seconds of a step and of its own part in it; steps that were not finite."""

    device: str
    step: float = 0.0
    compute: float = 0.0
    odd: int = 0


@dataclass(frozen=True, slots=True)
class Ways:
    """What is trained in a group of any size. recipe: with the rows of one device when each has as many as alone."""

    recipe: Recipe
    rows: int
    warm: int
    steps: int

    def shared(self, count: int) -> int:
        """Rows of each device where all of them together have `rows`."""
        return max(1, round(self.rows / count))

    def paced(self, device: Device, rows: int, group: Any) -> Pace:
        """Train in a group, with so many rows of each of its devices."""
        from gpuburn.agent.training.loop import Training

        training = Training(replace(self.recipe, batch=rows), device, group)
        warm = [training.advance() for _ in range(self.warm)]
        taken = [training.advance() for _ in range(self.steps)]
        odd = sum(not one.finite for one in warm + taken)
        step, compute = (statistics.median(getattr(one, name) for one in taken) for name in ("seconds", "compute"))
        return Pace(device.name, step, compute, odd)


def _trained(device: Device, ways: Ways, groups: list[list[int]]) -> Generator[Taken, None, list[list[Pace]]]:
    """Train both ways in groups at the same time; all devices' paces by rank, of no step where one has no group."""
    import torch.distributed as dist

    made = [dist.new_group(ranks) for ranks in groups]  # every rank takes part in the making of every group
    mine = next((one for one, ranks in zip(made, groups) if device.rank in ranks), None)
    told = []
    for rows in (ways.recipe.batch, ways.shared(len(groups[0]))):
        pace = ways.paced(device, rows, mine) if mine else Pace(device.name)
        everyone = [pace] * device.world
        dist.all_gather_object(everyone, pace)
        told.append(everyone)
        if mine:
            yield Work(iterations=ways.warm + ways.steps)
            yield Reading("not_finite", float(pace.odd))
    if mine:
        dist.destroy_process_group(mine)
    return told


def _told(
    device: Device, ways: Ways, groups: list[list[int]], taken: list[list[Pace]], base: list[list[Pace]]
) -> Iterator[Taken]:
    """The efficiencies of a size of group, which rank 0 tells for all; the base is the median of all devices alone."""
    count = len(groups[0])
    if count == 1:
        yield Reading("alone", ways.recipe.tokens / base[0][device.rank].step)
    if device.rank:
        return
    alone, alone_shared = (statistics.median(one.step for one in paces) for paces in base)
    point = Point.of(devices=count)
    slowest = [max((taken[0][rank] for rank in ranks), key=lambda one: one.step) for ranks in groups]
    weak = [alone / one.step for one in slowest]
    ideal = alone_shared * ways.shared(count) / ways.rows
    strong = min(ideal / max(taken[1][rank].step for rank in ranks) for ranks in groups)
    worst = min(range(len(groups)), key=lambda number: weak[number])
    names = " ".join(taken[0][rank].device for rank in groups[worst])
    yield Reading("weak", min(weak), point, HOST)
    yield Reading("strong", strong, point, HOST)
    yield Reading("exposed", max(max(0.0, 1 - one.compute / one.step) for one in slowest), point, HOST)
    yield Fact("worst", f"{names}: {min(weak):.4f}; the best: {max(weak):.4f}", point, HOST)
