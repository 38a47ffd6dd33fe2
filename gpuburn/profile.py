"""An acceptance standard as data: which steps, why, how large at which level. profiles/<name>.yml, one file each."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from gpuburn import strict
from gpuburn.needs import NEEDS
from gpuburn.plan import LEVELS, LeftOut, Step
from gpuburn.probe import Probe, discover
from gpuburn.rotation import Rotation, again
from gpuburn.strict import Refused, known

FOLDER = Path(__file__).parent / "profiles"


@dataclass(frozen=True, slots=True)
class Size:
    """One level of one step: parameters over the step's own, seconds expected and allowed; or why it is left out."""

    params: dict[str, Any] = field(default_factory=dict)
    expected: float = 0.0
    timeout: float = 0.0
    left_out: str = ""


@dataclass(frozen=True, slots=True)
class ProfileStep:
    """rehearsal: parameters small enough for a CPU, over those of the level; durations stay the level's.

    needs: what the device or the site must have beside what the probe itself needs (needs.py).
    """

    name: str
    probe: str
    because: str
    levels: dict[str, Size]
    params: dict[str, Any] = field(default_factory=dict)
    rehearsal: dict[str, Size] = field(default_factory=dict)
    threads: int = 1
    env: dict[str, str] = field(default_factory=dict)
    needs: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Profile:
    """rotation: by level, the steps that come again once all have had their turn."""

    profile: str
    doc: str
    steps: list[ProfileStep]
    rotation: dict[str, Rotation] = field(default_factory=dict)


def names() -> list[str]:
    return sorted(path.stem for path in FOLDER.glob("*.yml"))


def load(name: str) -> Profile:
    """Read a profile strictly: known probes and parameters, every level named, a reason for every step."""
    known(name, names(), "gpuburn_profiles")
    return _read(FOLDER / f"{name}.yml")


@functools.cache
def _read(path: Path) -> Profile:
    profile = strict.build(Profile, strict.load_yaml(path), path.name)
    for step in profile.steps:
        _check(step, f"{path.name}: step {step.name}")
    for level, rotation in profile.rotation.items():
        known(level, LEVELS, f"{path.name}: rotation: level")
        for name in rotation.steps:
            known(name, [step.name for step in profile.steps], f"{path.name}: rotation: step")
    return profile


def _check(step: ProfileStep, where: str) -> None:
    known(step.probe, discover(), f"{where}: probe")
    if not step.because.strip():
        raise Refused(f"{where}: a step needs a reason ('because')")
    missing = [level for level in LEVELS if level not in step.levels]
    if missing:
        raise Refused(f"{where}: level {missing[0]!r} is missing; give its size, or left_out with the reason")
    for need in (*step.needs, *discover()[step.probe].needs):
        known(need, NEEDS, f"{where}: needs")
    for level in (*step.levels, *step.rehearsal):
        known(level, LEVELS, f"{where}: level")
    for kind in ("hardware", "rehearsal"):
        for level in LEVELS:
            discover()[step.probe].settled(sized(step, level, kind).params, f"{where}: {level}")


def sized(step: ProfileStep, level: str, kind: str) -> Size:
    """The parameters and times of a step at a level, in a kind of run."""
    size = step.levels[level]
    small = step.rehearsal.get(level, step.rehearsal.get("smoke", Size())) if kind != "hardware" else Size()
    return Size(
        {**step.params, **size.params, **small.params},
        small.expected or size.expected,
        small.timeout or size.timeout,
        (small.left_out if kind == "rehearsal" else "") or size.left_out,  # simulated GPUs are looked at like real ones
    )


def steps(
    wanted: list[str], level: str, kind: str, lacks: Callable[[str], str] = lambda need: ""
) -> tuple[list[Step], list[LeftOut]]:
    """The steps of all wanted profiles, in order; what two profiles share runs once and serves both. lacks: why a need
    is not met, "" if it is.

    What ends every profile that has it also ends them together.
    """
    planned: dict[str, Step] = {}
    left_out = []
    for name in wanted:
        for one in load(name).steps:
            size = sized(one, level, kind)
            needs = (*discover()[one.probe].needs, *one.needs)
            why = size.left_out or next((said for need in needs if (said := lacks(need))), "")
            if why:
                left_out.append(LeftOut(f"step {one.name}", why, (name,)))
                continue
            step = _step(one, size, discover()[one.probe], (name,))
            twin = planned.get(one.name)
            if twin and name in twin.profiles:
                raise Refused(f"step {one.name!r} is in profile {name} twice")
            if twin and replace(twin, profiles=(name,), because=one.because) != step:
                raise Refused(f"step {one.name!r} differs between profiles {twin.profiles[0]} and {name}")
            planned[one.name] = replace(twin, profiles=(*twin.profiles, name)) if twin else step
    early = {step.name for name in wanted for step in load(name).steps[:-1]}
    last = {load(name).steps[-1].name for name in wanted} - early
    first = [step for step in planned.values() if step.name not in last]
    turns = [load(name).rotation[level] for name in wanted if level in load(name).rotation]
    repeated = {step.name: step for rotation in turns for step in again(first, rotation)}  # two may share a step
    return [*first, *repeated.values(), *(step for step in planned.values() if step.name in last)], left_out


def enough(steps: list[Step], left_out: list[LeftOut], count: int) -> tuple[list[Step], list[LeftOut]]:
    """The steps that so many devices are enough for; the others are listed as left out."""
    least = {step.name: discover()[step.probe].least_devices for step in steps}
    count = max(count, 1)  # none at all is refused by planning.devices, in its own words
    few = [
        LeftOut(f"step {step.name}", f"takes {least[step.name]} devices, planned: {count}", step.profiles)
        for step in steps
        if least[step.name] > count
    ]
    return [step for step in steps if least[step.name] <= count], [*left_out, *few]


def _step(one: ProfileStep, size: Size, probe: Probe, served: tuple[str, ...]) -> Step:
    params = probe.settled(size.params, f"step {one.name}")
    return Step(
        one.name, one.probe, probe.scope, probe.revision, served, one.because, params, size.expected, size.timeout,
        one.threads, one.env,
    )  # fmt: skip
