"""Strike a training run down, resume from its newest checkpoint, and compare every bit with a run left in peace."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from gpuburn.agent import place
from gpuburn.agent.training.trial import History, Trial
from gpuburn.measurement import Fact, Metric, Observed, Point, Reading, Work
from gpuburn.probe import Taken, probe

if TYPE_CHECKING:
    from gpuburn.agent.host import Host

AT = {"variant": "variants"}
VARIANTS = ["kill", "hang", "launcher", "async", "torn"]


def _stored(params: dict[str, Any], count: int) -> int:
    """Bytes of all checkpoints, each written twice: a strike loses steps, and a run that missed its own is repeated."""
    heads, width = params["heads"], params["width"]
    attention = 2 * width * width + 2 * params["kv_heads"] * (width // heads) * width
    block = attention + 3 * width * params["ffn"] + 2 * width
    parameters = 2 * params["vocab"] * width + params["layers"] * block + width  # Shape.parameters, without torch
    saves = params["steps"] // params["every"] + len(params["variants"])
    return int(12 * parameters * 2 * saves)


@probe(
    scope="host",
    revision=2,
    stores=_stored,
    mismatches=Metric("count", "last", at=AT, doc="losses and states whose bits are not the reference's, or missing"),
    strikes=Metric("count", "last", at=AT, doc="runs struck while they trained: without one nothing was tried"),
    survivors=Metric("count", "last", at=AT, doc="ranks still there after their launcher had ended"),
    steps_lost=Metric(
        "count", "last", at=AT, doc="steps done after the checkpoint that can be resumed from: they are done twice"
    ),
    detection=Metric(
        "s", "last", at=AT, doc="from the strike until another rank or the launcher had ended, or the launcher said so"
    ),
    teardown=Metric("s", "last", at=AT, doc="from then until every process of the run was gone"),
    restart=Metric("s", "last", at=AT, doc="from the new start to the end of the first step after the checkpoint"),
    reference=Observed("digest of all ranks' weights, optimizers and generators after the run in peace"),
    resumed=Observed("the same digest after all strikes and resumes"),
    smoke={
        "layers": 2, "width": 64, "heads": 4, "kv_heads": 2, "ffn": 128, "vocab": 64, "sequence": 32, "batch": 4,
        "steps": 24, "every": 4, "learning_rate": 3e-3, "timeout": 60.0, "patience": 5.0, "variants": ["kill", "hang"],
    },
    **place.TELLS,
)  # fmt: skip
def resume(
    host: Host, layers: int = 8, width: int = 2048, heads: int = 16, kv_heads: int = 8, ffn: int = 8192,
    vocab: int = 32768, sequence: int = 4096, batch: int = 4, learning_rate: float = 3e-4, warmup: int = 10,
    steps: int = 60, every: int = 5, directory: str = "", writers: int = 4, timeout: float = 600.0,
    patience: float = 30.0, variants: list[str] = VARIANTS,
) -> Iterator[Taken]:  # fmt: skip
    """Run in peace; run, strike, resume, strike again: the last run must end with the very bits of the one in peace.

    variants, in this order: a rank is killed (kill), stands still (hang), the launcher is killed (launcher), a rank is
    killed while it saves beside the loop (async), and the newest checkpoint is damaged after a kill (torn). Step and
    rank follow from the seed. A run that ends before its strike is repeated from the first step with an earlier one.
    A variant's mismatches are of the run resumed after it, up to the next strike; of the first also before it.

    directory: the file system of the checkpoints ("" = scratch). writers: hosts that may write there at once. timeout:
    of each of the runs, and of a save, in seconds. patience: of the collectives of a step; so much later a hang is
    noticed.

    Exercises: the launcher, death and hang of a rank under load, checkpoints, their being found, the same bits again.
    Does not exercise: the loss of a host, a hang in the driver that no signal ends, another number of ranks afterwards.
    """
    from gpuburn.agent.training.loop import Recipe
    from gpuburn.agent.training.model import Shape

    shape = Shape(layers, width, heads, kv_heads, ffn, vocab, sequence)
    recipe = Recipe(shape, batch, host.seed, learning_rate, warmup)
    own = place.own(host.folder, directory, "resume") if directory else host.folder / "checkpoints"
    trial = Trial(host, recipe, steps, every, timeout, patience, own, variants)
    history = History(trial)
    with place.of_host(directory, own, writers) as there:
        try:
            trial.check()
            yield from _tried(history)
        finally:
            history.stop()
            shutil.rmtree(trial.checkpoints, ignore_errors=True)  # what stays must not hide why the runs ended
        yield from there.told()


def _tried(history: History) -> Iterator[Taken]:
    peace = history.peace()
    yield Work(iterations=history.iterations)
    yield Fact("reference", peace.final())
    before = None
    for number, variant in enumerate(history.trial.variants):
        at = Point.of(variant=variant)
        found = history.strike(number)
        yield Work(iterations=history.iterations)
        if before is not None:
            yield _mismatches(history, before)
        yield Reading("strikes", float(found is not None), at)
        if found is None:
            return
        struck, lost = found
        yield Reading("detection", struck.detection, at)
        yield Reading("teardown", struck.teardown, at)
        yield Reading("survivors", float(struck.survivors), at)
        yield Reading("steps_lost", float(lost), at)
        yield Reading("restart", history.resume(number), at)
        before = variant
    again = history.end()
    yield Work(iterations=history.iterations)
    yield Fact("resumed", again.final())
    yield _mismatches(history, history.trial.variants[-1])


def _mismatches(history: History, variant: str) -> Reading:
    return Reading("mismatches", float(history.wrong[variant]), Point.of(variant=variant))
