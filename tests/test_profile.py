"""Profiles as data: read strictly, sized by level and kind, and shared steps run once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from gpuburn import profile as profiles
from gpuburn.plan import LEVELS
from gpuburn.profile import Size, sized, steps
from gpuburn.strict import Refused


def step(**changed: Any) -> dict[str, Any]:
    levels = {level: {"params": {"seconds": 2.0}, "expected": 3, "timeout": 9} for level in LEVELS}
    return {"name": "rest", "probe": "idle", "because": "a reason", "levels": levels, **changed}


@pytest.fixture
def written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(profiles, "FOLDER", tmp_path)

    def write(**named: Any) -> None:
        for name, many in named.items():
            (tmp_path / f"{name}.yml").write_text(yaml.safe_dump({"profile": name, "doc": "d", "steps": many}))

    return write


def test_a_step_that_two_profiles_share_runs_once_and_serves_both(written: Any) -> None:
    written(one=[step(), step(name="more")], two=[step()])
    planned, left_out = steps(["one", "two"], "smoke", "hardware")
    assert [(one.name, one.profiles) for one in planned] == [("rest", ("one", "two")), ("more", ("one",))]
    assert left_out == []


@pytest.mark.parametrize(
    "changed",
    [
        {"params": {"period": 0.5}}, {"threads": 2}, {"env": {"A": "1"}},
        {"levels": {**step()["levels"], "smoke": {"params": {"seconds": 2.0}, "expected": 3, "timeout": 99}}},
    ],
)  # fmt: skip
def test_a_step_that_differs_between_profiles_is_refused(written: Any, changed: dict[str, Any]) -> None:
    written(one=[step()], two=[step(**changed)])
    with pytest.raises(Refused, match="step 'rest' differs between profiles one and two"):
        steps(["one", "two"], "smoke", "hardware")


def test_a_step_named_twice_in_a_profile_is_refused(written: Any) -> None:
    written(one=[step(), step()])
    with pytest.raises(Refused, match="step 'rest' is in profile one twice"):
        steps(["one"], "smoke", "hardware")


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"probe": "idel"}, "unknown 'idel'; did you mean 'idle'"),
        ({"because": " "}, "needs a reason"),
        ({"params": {"secnods": 1.0}}, "unknown 'secnods'; did you mean 'seconds'"),
        ({"params": {"period": "1"}}, "wanted is float"),
        ({"levels": {"smoke": {}}}, "level 'quick' is missing"),
        ({"levels": {**step()["levels"], "smok": {}}}, "unknown 'smok'; did you mean 'smoke'"),
        ({"rehearsal": {"smok": {}}}, "unknown 'smok'"),
        ({"levels": {**step()["levels"], "soak": {"params": {"size": 1}}}}, "unknown 'size'"),
        ({"rehearsal": {"soak": {"params": {"size": 1}}}}, "unknown 'size'"),
        ({"thread": 1}, "unknown 'thread'; did you mean 'threads'"),
        ({"env": {"A": 1}}, "wanted is a str"),
    ],
)
def test_a_profile_with_a_mistake_is_refused_when_it_is_read(written: Any, changed: dict[str, Any], says: str) -> None:
    written(one=[step(**changed)])
    with pytest.raises(Refused, match=rf"^one\.yml.*{says}"):
        profiles.load("one")


def test_an_unknown_profile_names_the_nearest() -> None:
    with pytest.raises(Refused, match="gpuburn_profiles: unknown 'trainning'; did you mean 'training'"):
        profiles.load("trainning")


@pytest.mark.parametrize("name", ["../profiles/training", "", "training.yml"])
def test_the_name_of_a_profile_is_no_path(name: str) -> None:
    with pytest.raises(Refused, match="unknown"):
        profiles.load(name)


def one(**changed: Any) -> profiles.ProfileStep:
    levels = {level: Size({"seconds": 9.0}, 10, 20) for level in LEVELS}
    return profiles.ProfileStep(**{"name": "a", "probe": "idle", "because": "b", "levels": levels, **changed})


def test_a_rehearsal_is_small_at_every_level_and_hardware_is_not() -> None:
    small = one(
        params={"period": 0.5}, rehearsal={"smoke": Size({"seconds": 1.0}, 2, 3), "soak": Size({"seconds": 4.0})}
    )
    assert sized(small, "smoke", "hardware") == Size({"period": 0.5, "seconds": 9.0}, 10, 20)
    assert sized(small, "smoke", "rehearsal") == Size({"period": 0.5, "seconds": 1.0}, 2, 3)
    assert sized(small, "quick", "rehearsal") == Size({"period": 0.5, "seconds": 1.0}, 2, 3)
    assert sized(small, "soak", "rehearsal") == Size({"period": 0.5, "seconds": 4.0}, 10, 20)
    assert sized(small, "smoke", "simulated") == sized(small, "smoke", "rehearsal"), "the CPU does the work of both"


def test_what_a_level_leaves_out_is_listed_with_its_reason(written: Any) -> None:
    levels = {**step()["levels"], "smoke": {"left_out": "too long for a smoke test"}}
    written(one=[step(), step(name="long", levels=levels)])
    planned, left_out = steps(["one"], "smoke", "hardware")
    assert [p.name for p in planned] == ["rest"]
    assert [(o.what, o.why, o.profiles) for o in left_out] == [("step long", "too long for a smoke test", ("one",))]
    assert len(steps(["one"], "quick", "hardware")[0]) == 2
