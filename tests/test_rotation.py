"""Turns of a soak are steps of their own, under the limits of the step that they are turns of."""

from __future__ import annotations

import dataclasses

import pytest
import runs

from gpuburn import planning, profile, rotation
from gpuburn.finding import Verdict
from gpuburn.plan import Plan
from gpuburn.rotation import Rotation
from gpuburn.strict import Refused


@pytest.fixture(scope="module")
def soak() -> Plan:
    request = dataclasses.replace(runs.hardware(), level="soak")
    return planning.make(request, "0" * 32, runs.ISSUED)


def test_each_turn_has_the_limits_of_its_step(soak):
    demanded = {}
    for limit in soak.limits:
        [step] = limit.when.steps
        demanded.setdefault(step, set()).add((limit.about, str(limit)))
    turns = rotation.turns(soak.steps)
    rotating = profile.load("training").rotation["soak"]
    assert {name for name, many in turns.items() if len(many) > 1} <= set(rotating.steps)
    for name in (name for name in rotating.steps if name in turns):
        many = turns[name]
        assert len(many) == rotating.turns
        assert all(demanded[step.name] == demanded[name] for step in many)


def test_turns_come_round_by_round_before_the_last_look(soak):
    names = [step.name for step in soak.steps]
    rounds = [name.rpartition("-r")[2] for name in names if "-r" in name]
    assert rounds == sorted(rounds, key=int) and names[-1] == "gpu_health_after"
    first = rotation.turns(soak.steps)["gemm"]
    assert [step.name for step in first[:3]] == ["gemm", "gemm-r2", "gemm-r3"]
    assert len({(step.probe, str(step.params)) for step in first}) == 1


def test_a_soak_of_a_day_is_a_day(soak):
    assert soak.expected() / 3600 == pytest.approx(24, abs=0.5)


def test_a_replay_that_ends_otherwise_in_a_later_turn_is_told(soak):
    outcomes, name = runs.outcomes(soak), "replay_hot-r4"
    assert not [one for one in runs.judged(soak, outcomes) if one.verdict is Verdict.FAIL]
    facts = [
        dataclasses.replace(fact, value="other") if fact.name == "replay.bits" else fact
        for fact in outcomes[name].facts
    ]
    outcomes[name] = dataclasses.replace(outcomes[name], facts=facts)
    found = [one for one in runs.judged(soak, outcomes) if one.verdict is Verdict.FAIL]
    assert {(one.code, one.step, one.subject) for one in found} == {
        ("fact.failed", name, device.name) for device in soak.devices
    }


@pytest.mark.parametrize(
    ("name", "base"), [("gemm", "gemm"), ("gemm-r2", "gemm"), ("gemm-r0", "gemm-r0"), ("r2", "r2")]
)
def test_a_turn_is_known_by_its_name(name, base):
    assert rotation.base(name) == base


def test_one_turn_is_no_rotation():
    with pytest.raises(Refused, match="wanted are 2 and more"):
        Rotation(1, ("gemm",))


def test_two_profiles_share_their_turns():
    steps, _ = profile.steps(["training", "inference"], "soak", "hardware")
    names = [step.name for step in steps]
    assert len(names) == len(set(names))
    assert next(step for step in steps if step.name == "gemm-r2").profiles == ("training", "inference")
