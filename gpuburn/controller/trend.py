"""How the quantities of a long step went over its time: read from the step's evidence once, when it comes home."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from gpuburn import evidence, rotation, run_folder
from gpuburn.controller.collect import Collected
from gpuburn.controller.judged import Trend
from gpuburn.measurement import Reading
from gpuburn.plan import Plan, Step

SHORTEST = 5400.0  # seconds of a step that has a trend: half an hour of warm-up, and six windows of ten minutes
ANY = 1.0  # the limit is the policy's and comes later; the method only wants one above 0


def trends(folder: Path, collected: Collected) -> Iterator[Trend]:
    """The trend of every compared median of every step that went on for long enough; the turns of a rotation are one
    step. folder: the unsealed run folder."""
    outcomes = {outcome.step: outcome for outcome in collected.outcomes}
    ran = [step for step in collected.plan.steps if step.name in outcomes]
    for turns in rotation.turns(ran).values():
        first, last = outcomes[turns[0].name], outcomes[turns[-1].name]
        if last.started + last.seconds - first.started >= SHORTEST:
            yield from _step(folder / "steps", collected.plan, turns)


def _step(folder: Path, plan: Plan, turns: list[Step]) -> Iterator[Trend]:
    import pandas as pd

    from gpuburn.controller.fleet.soak import soak

    rows = [row for step in turns for row in _readings(folder / step.name, plan, step)]
    for one in soak(pd.DataFrame(rows), ANY) if rows else []:
        if math.isfinite(one.change):
            served = list(turns[0].profiles)
            yield Trend(one.step, one.about, one.subject, one.point, served, one.change, one.hours, one.why)


def _readings(folder: Path, plan: Plan, step: Step) -> Iterator[dict[str, Any]]:
    found = (evidence.read(folder, evidence.WORKERS), evidence.sampled(folder))
    for probe, readings in zip(run_folder.probes_of(step), found):
        compared = {name: one for name, one in probe.metrics.items() if one.better and one.reduce == "median"}
        for taken in readings:
            if isinstance(taken, Reading) and taken.metric in compared and not taken.failed:
                yield {
                    "host": plan.host, "subject": taken.subject, "step": rotation.base(step.name),
                    "about": f"{probe.name}.{taken.metric}", "point": str(taken.point),
                    "better": compared[taken.metric].better, "at": taken.at, "value": taken.value,
                }  # fmt: skip
