"""Steps that come again: a soak rotates some of its steps, and each turn of one is a step of its own. Pure.

The first turn bears the step's own name, the others "-r2", "-r3" behind it; a limit on a step is on all of its turns.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from gpuburn.plan import Step
from gpuburn.strict import Refused

TURN = re.compile(r"(.+)-r([1-9]\d*)")
FEWEST = 2  # turns: one is none that comes again


@dataclass(frozen=True, slots=True)
class Rotation:
    """Which steps come again in this order, and how many turns each has in all."""

    turns: int
    steps: tuple[str, ...]

    def __post_init__(self) -> None:
        if self.turns < FEWEST:
            raise Refused(f"rotation of {self.turns} turns; wanted are {FEWEST} and more")


def base(name: str) -> str:
    """The step that a turn is one of; the name itself of a first turn."""
    match = TURN.fullmatch(name)
    return match[1] if match else name


def again(steps: Iterable[Step], rotation: Rotation) -> list[Step]:
    """All turns but the first, round by round, of those steps that are planned."""
    planned = {step.name: step for step in steps}
    rotating = [planned[name] for name in rotation.steps if name in planned]
    return [replace(step, name=f"{step.name}-r{turn}") for turn in range(2, rotation.turns + 1) for step in rotating]


def turns(steps: Sequence[Step]) -> dict[str, list[Step]]:
    """The turns of each step, in the order they are done; one of a step that does not come again."""
    found: dict[str, list[Step]] = {}
    for step in steps:
        found.setdefault(base(step.name), []).append(step)
    return found
