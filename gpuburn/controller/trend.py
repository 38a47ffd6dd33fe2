"""How the quantities of a long step went over its time: read from the step's evidence once, when it comes home."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from gpuburn import evidence, run_folder
from gpuburn.controller.collect import Collected
from gpuburn.controller.judged import Trend
from gpuburn.measurement import Reading
from gpuburn.outcome import Outcome
from gpuburn.plan import Plan, Step

SHORTEST = 5400.0  # seconds of a step that has a trend: half an hour of warm-up, and six windows of ten minutes
ANY = 1.0  # the limit is the policy's and comes later; the method only wants one above 0


def trends(folder: Path, collected: Collected) -> Iterator[Trend]:
    """The trend of every compared median of every step that ran for long enough. folder: the unsealed run folder."""
    for outcome in collected.outcomes:
        step = collected.plan.step(outcome.step)
        if step is not None and outcome.seconds >= SHORTEST:
            yield from _step(folder / "steps" / step.name, collected.plan, step, outcome)


def _step(folder: Path, plan: Plan, step: Step, outcome: Outcome) -> Iterator[Trend]:
    import pandas as pd

    from gpuburn.controller.fleet.soak import soak

    rows = list(_readings(folder, plan, step))
    for one in soak(pd.DataFrame(rows), ANY) if rows else []:
        if math.isfinite(one.change):
            served = list(step.profiles)
            yield Trend(step.name, one.about, one.subject, one.point, served, one.change, one.hours, one.why)


def _readings(folder: Path, plan: Plan, step: Step) -> Iterator[dict[str, Any]]:
    found = (evidence.read(folder, evidence.WORKERS), evidence.sampled(folder))
    for probe, readings in zip(run_folder.probes_of(step), found):
        compared = {name: one for name, one in probe.metrics.items() if one.better and one.reduce == "median"}
        for taken in readings:
            if isinstance(taken, Reading) and taken.metric in compared and not taken.failed:
                yield {
                    "host": plan.host, "subject": taken.subject, "step": step.name,
                    "about": f"{probe.name}.{taken.metric}", "point": str(taken.point),
                    "better": compared[taken.metric].better, "at": taken.at, "value": taken.value,
                }  # fmt: skip
