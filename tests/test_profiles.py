"""The shipped profiles: each plans at every level and kind, each step has its sizes, each probe is used."""

from __future__ import annotations

from typing import get_args

import pytest
import runs

from gpuburn import planning, profile
from gpuburn.plan import LEVELS, Kind
from gpuburn.probe import discover
from gpuburn.profile import ProfileStep, sized

NAMES = profile.names()
STEPS = [(name, step) for name in NAMES for step in profile.load(name).steps]
WAYS = [(name, level, kind) for name in NAMES for level in LEVELS for kind in get_args(Kind)]


def test_there_are_two_standards() -> None:
    assert NAMES == ["inference", "training"]


@pytest.mark.parametrize(("name", "level", "kind"), WAYS)
def test_every_profile_plans_at_every_level_and_kind(name: str, level: str, kind: str) -> None:
    asked = runs.request if kind == "rehearsal" else runs.hardware
    count = 3 if kind == "rehearsal" else 8
    plan = planning.make(asked(profiles=(name,), level=level, kind=kind, count=count), "", 0.0)
    assert plan.steps
    assert all(step.profiles == (name,) for step in plan.steps)
    assert any(limit.can_reject and not limit.about.startswith("telemetry.") for limit in plan.limits)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("kind", get_args(Kind))
def test_both_profiles_plan_together_and_what_they_share_runs_once(level: str, kind: str) -> None:
    asked = runs.request if kind == "rehearsal" else runs.hardware
    plan = planning.make(asked(profiles=tuple(NAMES), level=level, kind=kind, count=8), "", 0.0)
    names = [step.name for step in plan.steps]
    assert len(names) == len(set(names))
    if kind == "rehearsal":
        assert {one.what for one in plan.left_out} >= {"step gpu_health", "step gpu_health_after"}
    else:
        assert names.index("gpu_health") < names.index("gemm") and names[-1] == "gpu_health_after"


@pytest.mark.parametrize(("name", "step"), STEPS, ids=lambda one: one if isinstance(one, str) else one.name)
def test_every_step_has_its_size_at_every_level(name: str, step: ProfileStep) -> None:
    assert list(step.levels) == list(LEVELS)
    assert step.because.strip()
    for kind in get_args(Kind):
        times = []
        for level in LEVELS:
            size = sized(step, level, kind)
            if not size.left_out:
                assert 0 < size.expected < size.timeout, f"{level}, {kind}"
                times.append(size.expected * turns(name, level, step))
        if kind != "rehearsal":
            assert times == sorted(times), "a higher level is never shorter, all turns together"


def turns(name: str, level: str, step: ProfileStep) -> int:
    """How often the step comes at this level."""
    rotation = profile.load(name).rotation.get(level)
    return rotation.turns if rotation and step.name in rotation.steps else 1


def test_every_probe_is_used_by_some_profile() -> None:
    used = {step.probe for _, step in STEPS}
    assert set(discover()) <= used, f"no profile uses {sorted(set(discover()) - used)}"


def test_the_rehearsal_of_both_profiles_fits_into_a_demo() -> None:
    plan = planning.make(runs.request(profiles=tuple(NAMES)), "", 0.0)
    assert plan.expected() <= 6 * 60
