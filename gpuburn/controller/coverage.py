"""What a host's steps came to: minutes, work, heat, and how much of it was compared. Coverage, never "no corruption".

Everything is from outcomes that came home; nothing is judged here, and what was not told is left empty.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from gpuburn import rotation
from gpuburn.outcome import Outcome, Status
from gpuburn.plan import Plan, Step

FULL = ("gemm", "chassis", "train")  # probes that keep every device busy all the time
HEAT = "telemetry.temperature"
# Counts of what was compared and had other bits, by probe.
COMPARED = {
    "gemm": ("wrong", "not_finite"), "chassis": ("wrong", "host_wrong"), "power_steps": ("wrong",),
    "memory_bandwidth": ("wrong", "read_wrong"), "memory_pattern": ("wrong",), "copies": ("wrong",),
    "pairs": ("wrong", "together_wrong", "engine_wrong"), "allreduce": ("wrong", "differing"),
    "collectives": ("wrong",), "replay": ("differing",),
    "checkpoint": ("wrong",), "train": ("replicas_differ", "guard_changed"), "resume": ("mismatches",),
    "serve": ("failed",),    "context": ("wrong", "short"),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Covered:
    """One step over all of its turns. minutes: from start to end; heat: C; found: comparisons that were not equal."""

    step: str
    turns: int
    minutes: float
    work: str
    heat: str
    found: str


@dataclass(frozen=True, slots=True)
class Coverage:
    """minutes: of all steps. full: of the longest completed step that keeps every device busy, which longest names."""

    minutes: float = 0.0
    full: float = 0.0
    longest: str = ""
    rows: list[Covered] = field(default_factory=list)

    @property
    def words(self) -> str:
        """For a table of hosts."""
        full = f", {self.full:.1f} of them full load on end ({self.longest})" if self.longest else ""
        return f"{self.minutes:.1f} min{full}" if self.minutes else "nothing ran"


def of(plan: Plan, outcomes: Iterable[Outcome]) -> Coverage:
    """What came of a plan."""
    ran = {one.step: one for one in outcomes}
    rows = [_row(name, turns, [ran[step.name] for step in turns if step.name in ran])
            for name, turns in rotation.turns(plan.steps).items()]  # fmt: skip
    held = [one for one in ran.values() if one.probe in FULL and one.status is Status.COMPLETED]
    longest = max(held, key=lambda one: one.seconds, default=None)
    return Coverage(
        sum(one.seconds for one in ran.values()) / 60, longest.seconds / 60 if longest else 0.0,
        rotation.base(longest.step) if longest else "", [row for row in rows if row.minutes],
    )  # fmt: skip


def _row(name: str, turns: list[Step], outcomes: list[Outcome]) -> Covered:
    minutes = sum(one.seconds for one in outcomes) / 60
    heat = [value for one in outcomes for m in one.measurements if m.name == HEAT for value in (m.low, m.high)]
    told = f"{min(heat):.0f} to {max(heat):.0f} C" if heat else ""
    return Covered(name, len(outcomes), minutes, "; ".join(_work(outcomes)), told, _found(turns[0].probe, outcomes))


def _work(outcomes: list[Outcome]) -> Iterator[str]:
    """What all devices did together: products also in operations, and how many of them were compared."""
    done = [(outcome, one.work) for outcome in outcomes for one in outcome.subjects]
    iterations, size = sum(work.iterations for _, work in done), sum(work.bytes for _, work in done)
    if iterations:
        yield f"{iterations:,} iterations"
    if size:
        yield f"{size / 2**40:.3g} TiB"
    if outcomes and outcomes[0].probe == "gemm":
        yield "{:.3g} FLOP, {:.3g} of them compared bit by bit".format(*_operations(outcomes))


def _operations(outcomes: list[Outcome]) -> tuple[float, float]:
    """FLOP of all products, and of those whose every bit was compared: 2 n^3 each."""
    done = compared = 0.0
    for outcome in outcomes:
        share = {m.subject: m.value for m in outcome.measurements if m.name == "gemm.checked"}
        for one in outcome.subjects:
            flop = 2.0 * float(outcome.params.get("size", 0)) ** 3 * one.work.iterations
            done, compared = done + flop, compared + flop * share.get(one.subject, 0.0)
    return done, compared


def _found(probe: str, outcomes: list[Outcome]) -> str:
    """How many comparisons were not equal, of those that were told."""
    names = [f"{probe}.{name}" for name in COMPARED.get(probe, ())]
    told = [m.value for one in outcomes for m in one.measurements if m.name in names]
    return f"{sum(told):g} differing" if told else ""
