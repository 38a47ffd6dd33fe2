"""The plan: refused before the first watt when it could not be carried out or judged."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest

from gpuburn import plan as plans, strict
from gpuburn.limit import Limit, When
from gpuburn.measurement import Point
from gpuburn.plan import Device, Plan, check, decode, demanded, subjects
from gpuburn.probe import discover
from gpuburn.strict import Refused


def with_step(plan: Plan, of: str, /, **changed: Any) -> Plan:
    steps = [dataclasses.replace(one, **changed) if one.name == of else one for one in plan.steps]
    return dataclasses.replace(plan, steps=steps)


def with_one_limit(plan: Plan, limit: Limit) -> Plan:
    return dataclasses.replace(plan, limits=[*plan.limits, limit])


def bound(about: str = "gemm.wrong", step: str = "gemm", **fields: Any) -> Limit:
    settled = {"unit": "count", "because": "r", "max": 0.0}
    when = When(steps=(step,), profiles=("training",), point=fields.pop("point", Point()))
    return Limit(about, when=fields.pop("when", when), **{**settled, **fields})


def test_a_whole_plan_is_taken(rehearsal: Plan, bare_metal: Plan) -> None:
    for plan in (rehearsal, bare_metal):
        assert check(plan) is plan


def test_the_host_speaks_for_a_step_of_the_host_and_devices_for_all_others(rehearsal: Plan) -> None:
    found = {step.name: subjects(rehearsal, step) for step in rehearsal.steps}
    cpus = ["cpu0", "cpu1", "cpu2"]
    assert found == {"idle": ["host"], "gemm": cpus, "allreduce": cpus}


def test_what_is_demanded_comes_from_the_plan_and_not_from_what_was_measured(rehearsal: Plan) -> None:
    step = rehearsal.step("gemm")
    assert step is not None
    seen = list(demanded(rehearsal, bound(), step, discover()))
    assert seen == [(f"cpu{index}", Point()) for index in range(3)]
    sampled = bound("telemetry.samples")
    assert list(demanded(rehearsal, sampled, step, discover())) == [("host", Point())]


MISTAKES = {
    "no steps": ({"steps": []}, "needs profiles, devices and steps"),
    "no devices": ({"devices": []}, "needs profiles, devices and steps"),
    "no profiles": ({"profiles": ()}, "needs profiles, devices and steps"),
    "two devices of a name": ({"devices": [Device("a", "cpu"), Device("a", "cpu")]}, "names of their own"),
    "a device called host": ({"devices": [Device("host", "cpu")]}, "names of their own"),
}


@pytest.mark.parametrize(("changed", "says"), MISTAKES.values(), ids=MISTAKES)
def test_a_plan_without_work_or_names_is_refused(rehearsal: Plan, changed: dict[str, Any], says: str) -> None:
    with pytest.raises(Refused, match=says):
        check(dataclasses.replace(rehearsal, **changed))


def test_two_steps_of_one_name_are_refused(rehearsal: Plan) -> None:
    with pytest.raises(Refused, match="two steps have the same name"):
        check(dataclasses.replace(rehearsal, steps=[*rehearsal.steps, rehearsal.steps[0]]))


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"probe": "gem"}, "unknown 'gem'; did you mean 'gemm'"),
        ({"scope": "host"}, "scope 'host', gemm runs per 'device'"),
        ({"params": {"sise": 1}}, "unknown 'sise'; did you mean 'size'"),
        ({"params": {"size": "1"}}, "wanted is int"),
        ({"timeout": 1.0}, "timeout 1 s must be at least the expected"),
        ({"timeout": 0.0, "expected": 0.0}, "above 0"),
        ({"expected": 0.0}, "above 0"),
        ({"expected": -1.0}, "above 0"),
        ({"profiles": ("trainin",)}, "unknown 'trainin'; did you mean 'training'"),
        ({"profiles": ()}, "serves at least one profile"),
        ({"name": "../../etc"}, "a step's name is a folder's"),
        ({"name": "a/b"}, "a step's name is a folder's"),
        ({"name": ""}, "a step's name is a folder's"),
        ({"name": "-rf"}, "a step's name is a folder's"),
    ],
)
def test_a_step_with_a_mistake_is_refused(rehearsal: Plan, changed: dict[str, Any], says: str) -> None:
    with pytest.raises(Refused, match=says):
        check(with_step(rehearsal, "gemm", **changed))


def test_a_timeout_that_is_just_the_expected_time_is_taken(rehearsal: Plan) -> None:
    assert check(with_step(rehearsal, "gemm", expected=10.0, timeout=10.0))


@pytest.mark.parametrize(
    ("limit", "says"),
    [
        (bound(step="gem"), "unknown step 'gem'; the plan has idle, gemm, allreduce"),
        (bound("idle.late", unit="ms"), "probe of step gemm: unknown 'idle'"),
        (bound("gemm.wron"), "unknown 'wron'; did you mean 'wrong'"),
        (bound("telemetry.sample"), "did you mean 'samples'"),
        (bound(unit="s"), "measured in 'count', limited in 's'"),
        (bound("gemm.checksum"), "is a fact; wanted is equals or agree"),
        (Limit("gemm.wrong", because="r", agree="host", when=bound().when), "is a number; wanted is min or max"),
        (Limit("gemm.wrong", because="r", equals="0", when=bound().when), "is a number; wanted is min or max"),
        (bound(when=When(profiles=("training",))), "names its step"),
        (bound(when=When(steps=("gemm",))), "names the profiles"),
        (bound(when=When(steps=("gemm",), profiles=("other",))), "unknown 'other'"),
        (bound(point=Point.of(mib=1)), "has no point 'mib=1', so that it demands nothing"),
        (bound("allreduce.wrong", "allreduce", point=Point.of(mib=3)), "has no point 'mib=3'"),
    ],
)
def test_a_limit_that_cannot_be_judged_is_refused(rehearsal: Plan, limit: Limit, says: str) -> None:
    with pytest.raises(Refused, match=says):
        check(with_one_limit(rehearsal, limit))


def test_an_unknown_key_anywhere_in_a_plan_is_refused(rehearsal: Plan) -> None:
    def places(value: Any) -> list[dict[str, Any]]:
        if isinstance(value, dict):
            return [value, *(place for item in value.values() for place in places(item))]
        return [place for item in value for place in places(item)] if isinstance(value, list) else []

    whole = json.loads(strict.encode(rehearsal))
    count = len(places(whole))
    refused = 0
    for index in range(0, count, max(1, count // 60)):
        document = json.loads(strict.encode(rehearsal))
        places(document)[index]["surprise"] = 1
        try:
            decode(strict.encode(document))
        except Refused as error:
            refused += "surprise" in str(error) or "wanted is a str" in str(error) or "demands nothing" in str(error)
        else:
            pytest.fail(f"taken: {places(document)[index]}")
    assert refused


@pytest.mark.parametrize("schema", ["gpuburn/plan/2", "gpuburn/result/1", "", None, 1, ["gpuburn/plan/1"]])
def test_an_unknown_schema_is_refused(rehearsal: Plan, schema: Any) -> None:
    document = {**json.loads(strict.encode(rehearsal)), "schema": schema}
    with pytest.raises(Refused, match="this version reads 'gpuburn/plan/1'"):
        decode(strict.encode(document))


@pytest.mark.parametrize("data", [b"[]", b"null", b"{}", b'"gpuburn/plan/1"', b"", b"{"])
def test_what_is_no_plan_is_refused(data: bytes) -> None:
    with pytest.raises(Refused):
        decode(data)


def test_a_plan_of_the_right_schema_is_still_checked(rehearsal: Plan) -> None:
    document = json.loads(strict.encode(rehearsal))
    document["steps"][1]["scope"] = "host"
    with pytest.raises(Refused, match="scope 'host'"):
        decode(strict.encode(document))


def test_a_step_is_found_by_its_name(rehearsal: Plan) -> None:
    assert rehearsal.step("nothing") is None
    assert [rehearsal.step(one.name) for one in rehearsal.steps] == rehearsal.steps
    assert plans.HOST not in rehearsal.device_names()
