"""Planning: what the inventory says becomes one resolved plan, or one sentence that says why not."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
import runs
from hypothesis import given, strategies as st

from gpuburn import planning, strict
from gpuburn.limit import Limit
from gpuburn.measurement import Point
from gpuburn.plan import Place, Plan, demanded, promise
from gpuburn.probe import discover
from gpuburn.strict import Refused
from gpuburn.telemetry import TELEMETRY

SITE = "gpuburn_limits_site"


def make(asked: planning.Request) -> Plan:
    return planning.make(asked, runs.NONCE, runs.ISSUED)


def with_site(**entries: Any) -> planning.Request:
    named = {key.replace("__", "."): value for key, value in entries.items()}
    return runs.request(site_limits=((SITE, named),))


def test_the_same_request_gives_the_same_plan() -> None:
    assert strict.encode(make(runs.request())) == strict.encode(make(runs.request()))


def test_a_rehearsal_runs_on_cpus_whatever_gpus_there_are() -> None:
    plan = make(runs.request(addresses=("0000:17:00.0",)))
    assert [(one.name, one.kind, one.pci) for one in plan.devices] == [(f"cpu{i}", "cpu", "") for i in range(3)]
    assert "its 1 GPU(s) are not touched" in plan.notes[0]
    assert "accepts nothing" in plan.notes[0]
    assert "temperature" not in [guard.name for guard in plan.guards]


def test_as_many_devices_are_planned_as_were_ordered_and_not_as_were_found() -> None:
    plan = make(runs.hardware(count=8, addresses=("a", "b", "c")))
    assert [one.pci for one in plan.devices] == ["a", "b", "c", "", "", "", "", ""]
    assert [one.name for one in plan.devices] == [f"gpu{index}" for index in range(8)]
    assert {one.kind for one in plan.devices} == {"cuda"}
    more = make(runs.hardware(count=2, addresses=("a", "b", "c")))
    assert [one.pci for one in more.devices] == ["a", "b"]


def test_simulated_gpus_have_addresses_and_work_on_the_cpu_and_the_plan_says_so() -> None:
    plan = make(runs.hardware(kind="simulated", count=8, addresses=("a", "b")))
    assert [(one.name, one.kind, one.pci) for one in plan.devices[:3]] == [
        ("gpu0", "cpu", "a"), ("gpu1", "cpu", "b"), ("gpu2", "cpu", ""),
    ]  # fmt: skip
    assert len(plan.devices) == 8 and "this host's CPU does the work; it accepts nothing" in plan.notes[0]
    assert "temperature" in [guard.name for guard in plan.guards]


@pytest.mark.parametrize(
    ("changed", "most"),
    [
        ({}, 0.1),
        ({"environment": "vm", "foreign_load": 0.3}, 0.3),
        ({"environment": "container"}, None),
        ({"kind": "simulated"}, None),
    ],
)
def test_foreign_load_is_guarded_where_the_host_is_ours_alone(changed: dict[str, Any], most: float | None) -> None:
    guards = {guard.name: guard for guard in make(runs.hardware(count=8, **changed)).guards}
    assert (guards["foreign_load"].max if "foreign_load" in guards else None) == most


def test_the_heat_of_gpus_is_guarded() -> None:
    assert "temperature" in [guard.name for guard in make(runs.hardware(count=8)).guards]


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        (runs.request(count=0), "gpuburn_processes is 0, wanted is at least 1"),
        (runs.hardware(count=0), "gpuburn_gpu_count is 0, wanted is at least 1"),
        (runs.hardware(count=-8), "gpuburn_gpu_count is -8"),
        (runs.hardware(sku="h100-sxm"), "gpuburn_sku: unknown 'h100-sxm'; did you mean '"),
        (runs.hardware(sku=""), "gpuburn_sku: unknown ''"),
        (runs.request(profiles=("trainning",)), "did you mean 'training'"),
        (runs.request(profiles=()), "have no step at level smoke"),
    ],
)
def test_what_cannot_be_planned_is_refused_in_one_sentence(asked: planning.Request, says: str) -> None:
    asked = dataclasses.replace(asked, count=asked.count if asked.count < 1 else 8)
    with pytest.raises(Refused, match=says):
        make(asked)


def test_the_deadline_leaves_time_for_every_timeout() -> None:
    plan = make(runs.request())
    assert plan.deadline - plan.issued >= sum(step.timeout for step in plan.steps) + 60
    assert plan.expected() == sum(step.expected for step in plan.steps)


@pytest.mark.parametrize("asked", [runs.request(profiles=("training", "inference")), runs.hardware(count=8)])
def test_every_promise_of_every_step_is_demanded_or_listed_as_left_out(asked: planning.Request) -> None:
    plan = make(asked)
    for step in plan.steps:
        for probe in (discover()[step.probe], TELEMETRY):
            for name, promised in probe.promises.items():
                about = f"{probe.name}.{name}"
                for point in probe.points(promised, step.params if probe.name == step.probe else {}):
                    heard = {
                        profile
                        for one in plan.limits
                        if one.about == about and step.name in one.when.steps and one.when.point.includes(point)
                        for profile in one.when.profiles
                    }
                    said = {
                        profile
                        for one in plan.left_out
                        if one.what.startswith(f"{about} in step {step.name}")
                        for profile in one.profiles
                    }
                    assert heard | said >= set(step.profiles), (about, step.name, point)


def test_no_limit_of_a_plan_demands_nothing() -> None:
    plan = make(runs.request(profiles=("training", "inference")))
    for limit in plan.limits:
        [name] = limit.when.steps
        step = plan.step(name)
        assert step is not None
        assert list(demanded(plan, limit, step, discover()))
        assert promise(limit, step, discover())


def test_gpu_sensors_are_not_demanded_of_a_cpu_and_that_is_said() -> None:
    plan = make(runs.request())
    assert not any(one.about == "telemetry.temperature" for one in plan.limits)
    why = {one.why for one in plan.left_out if one.what.startswith("telemetry.temperature")}
    assert why == {"not promised in a run of kind rehearsal"}
    assert any(one.about == "telemetry.temperature" for one in make(runs.hardware(count=8)).limits)


def test_a_site_limit_is_in_the_plan_and_ours_on_that_quantity_is_not() -> None:
    plan = make(with_site(gemm__tflops={"min": 0.001, "unit": "TFLOP/s", "because": "the contract"}))
    by_step = {limit.when.steps[0]: limit for limit in plan.limits if limit.about == "gemm.tflops"}
    one = by_step.pop("gemm")
    assert (one.min, one.because, one.source) == (0.001, "the contract", "site")
    assert {other.source for other in by_step.values()} == {"limits.yml"}, "a floor is not for every number format"


def test_a_site_limit_on_a_speed_in_another_step_names_it() -> None:
    floor = {"min": 0.001, "unit": "TFLOP/s", "because": "the contract", "when": {"steps": ["gemm_fp16"]}}
    found = {
        one.when.steps: one.source for one in make(with_site(gemm__tflops=floor)).limits if one.about == "gemm.tflops"
    }
    assert found == {("gemm",): "limits.yml", ("gemm_fp16",): "site"}


@pytest.mark.parametrize(
    ("about", "entry", "says"),
    [
        ("gem.tflops", {"min": 1, "unit": "TFLOP/s", "because": "r"}, "unknown 'gem'; did you mean 'gemm'"),
        ("gemm.tflop", {"min": 1, "unit": "TFLOP/s", "because": "r"}, "unknown 'tflop'; did you mean 'tflops'"),
        ("gemm", {"min": 1, "unit": "TFLOP/s", "because": "r"}, "unknown ''"),
        ("gemm.tflops", {"min": 1, "unit": "GB/s", "because": "r"}, "measured in 'TFLOP/s', limited in 'GB/s'"),
        ("gemm.tflops", {"equals": "1", "because": "r"}, "is a number; wanted is min or max"),
        ("gemm.tflops", {"agree": "host", "because": "r"}, "is a number; wanted is min or max"),
        ("gemm.checksum", {"min": 1, "unit": "count", "because": "r"}, "is a fact; wanted is equals or agree"),
        ("gemm.tflops", {"min": 1, "unit": "TFLOP/s"}, "needs a reason"),
        ("gemm.wrong", {"max": 1, "because": "r", "when": {"kinds": ["hardwear"]}}, "when.kinds: unknown 'hardwear'"),
        ("gemm.wrong", {"max": 1, "because": "r", "when": {"levels": ["smok"]}}, "did you mean 'smoke'"),
        ("gemm.wrong", {"max": 1, "because": "r", "when": {"steps": ["gem"]}}, "did you mean 'gemm'"),
        ("gemm.wrong", {"max": 1, "because": "r", "when": {"profiles": ["trainin"]}}, "did you mean 'training'"),
        ("gemm.wrong", {"max": 1, "because": "r", "when": {"environments": ["vms"]}}, "unknown 'vms'"),
    ],
)
def test_a_site_limit_with_a_mistake_is_refused_before_the_first_watt(about: str, entry: Any, says: str) -> None:
    with pytest.raises(Refused, match=says):
        make(runs.request(site_limits=((SITE, {about: entry}),)))


def test_a_limit_on_a_point_of_another_level_is_listed_and_ours_stays() -> None:
    entry = {"min": 1, "unit": "GB/s", "because": "r", "when": {"point": {"mib": 1024}}}
    plan = make(with_site(allreduce__busbw=entry))
    assert [one.source for one in plan.limits if one.about == "allreduce.busbw"] == ["limits.yml"]
    said = {one.what: one.why for one in plan.left_out if one.what.startswith("allreduce.busbw")}
    assert said == {
        "allreduce.busbw in step allreduce at mib=1024": "a limit names this point, which the step does not have"
    }


@pytest.mark.parametrize(
    ("about", "point", "says"),
    [
        ("allreduce.busbw", {"mib": 4096}, "no step of any level has this point"),
        ("allreduce.busbw", {"mb": 1024}, "unknown 'mb'; did you mean 'mib'"),
        ("gemm.tflops", {"dtype": "bfloat16"}, "unknown 'dtype'"),
    ],
)
def test_a_limit_on_a_point_that_nothing_has_is_refused(about: str, point: dict[str, Any], says: str) -> None:
    entry = {"min": 1, "because": "r", "unit": "GB/s" if "busbw" in about else "TFLOP/s", "when": {"point": point}}
    with pytest.raises(Refused, match=f"limit {about}: when.point.*{says}"):
        make(runs.request(site_limits=((SITE, {about: entry}),)))


def test_a_limit_for_one_profile_leaves_ours_to_the_other() -> None:
    entry = {"max": 0, "unit": "count", "because": "r", "when": {"profiles": ["training"]}}
    plan = make(dataclasses.replace(with_site(gemm__wrong=entry), profiles=("training", "inference")))
    assert {(one.source, one.when.profiles) for one in plan.limits if one.about == "gemm.wrong"} == {
        ("site", ("training",)), ("limits.yml", ("training", "inference")),
    }  # fmt: skip


def test_a_limit_on_one_point_is_demanded_there_and_ours_at_the_others() -> None:
    entry = {"min": 1, "unit": "GB/s", "because": "r", "when": {"point": {"mib": 8}}}
    plan = make(with_site(allreduce__busbw=entry))
    step = plan.step("allreduce")
    assert step is not None
    asked = {one.source: set(demanded(plan, one, step, discover())) for one in plan.limits
             if one.about == "allreduce.busbw"}  # fmt: skip
    assert asked == {
        "site": {(f"cpu{i}", Point.of(mib=8)) for i in range(3)},
        "limits.yml": {(f"cpu{i}", Point.of(mib=1)) for i in range(3)},
    }


def test_a_limit_of_another_level_leaves_ours_in_force() -> None:
    entry = {"max": 0, "unit": "count", "because": "r", "when": {"levels": ["soak"]}}
    plan = make(with_site(gemm__wrong=entry))
    assert {(one.source, one.max) for one in plan.limits if one.about == "gemm.wrong"} == {("limits.yml", 0.0)}


@pytest.mark.parametrize(
    ("about", "entry", "ours"),
    [
        ("gemm.wrong", {"informational": "off"}, "x <= 0 count"),
        ("gemm.wrong", {"max": 3}, "x <= 0 count"),
        ("gemm.wrong", {"confidence": "low"}, "x <= 0 count"),
        ("gemm.checksum", {"informational": "off"}, "the same over the cohort"),
        ("gemm.checksum", {"agree": "host"}, "the same over the cohort"),
        ("gemm.tflops", {"min": 1, "unit": "TFLOP/s", "confidence": "low"}, "a number that may reject"),
        ("gemm.tflops", {"min": 1, "unit": "TFLOP/s"}, ""),
        ("gemm.wrong", {"max": 0}, ""),
        ("gemm.checksum", {"equals": "a"}, ""),
    ],
)
def test_a_site_that_demands_less_says_what_ours_was(about: str, entry: dict[str, Any], ours: str) -> None:
    plan = make(runs.request(site_limits=((SITE, {about: {**entry, "because": "r"}}),)))
    assert {one.loosened for one in plan.limits if one.about == about and one.source == "site"} == {ours}


@pytest.mark.parametrize("key", ["missed", "loosened", "reference", "uncalibrated"])
def test_what_gpuburn_says_of_a_limit_no_site_says_for_it(key: str) -> None:
    entry = {"max": 0, "because": "r", key: "incomplete"}
    with pytest.raises(Refused, match=f"gemm.wrong: {key} is gpuburn's own to say; wanted are min, max"):
        make(runs.request(site_limits=((SITE, {"gemm.wrong": entry}),)))


def test_calling_a_quantity_informational_does_not_make_it_calibrated() -> None:
    plan = make(with_site(gemm__tflops={"informational": "seen", "because": "r"}))
    found = [one for one in plan.limits if one.about == "gemm.tflops" and one.when.steps == ("gemm",)]
    assert {(one.source, one.uncalibrated) for one in found} == {("site", True)}


def test_a_number_of_the_site_stands_beside_a_share_of_a_measurement() -> None:
    asked = runs.hardware(count=8, site_limits=((SITE, {"memory_bandwidth.triad": {
        "min": 2500, "unit": "GB/s", "because": "the contract", "source": "contract",
    }}),))  # fmt: skip
    found = [
        one
        for one in make(asked).limits
        if one.about == "memory_bandwidth.triad" and one.when.steps == ("memory_bandwidth",)
    ]
    assert [(one.source, one.of, one.min) for one in found] == [
        ("limits.yml", "telemetry.memory_peak", None), ("contract", "", 2500.0),
    ]  # fmt: skip


def h100(**entry: Any) -> list[Limit]:
    asked = runs.hardware(count=8, site_limits=((SITE, {"gemm.tflops": {"because": "annex B", **entry}}),))
    return [one for one in make(asked).limits if one.about == "gemm.tflops" and one.when.steps == ("gemm",)]


def test_a_number_of_the_contract_leaves_our_share_of_the_reference_in_force() -> None:
    ours, theirs = h100(min=640, unit="TFLOP/s", source="contract")
    assert (ours.source, ours.min, ours.reference is not None) == ("sku", 0.85 * 730, True)
    assert (theirs.source, theirs.min, theirs.loosened) == ("contract", 640.0, "")


def test_another_share_of_the_same_reference_stands_instead_and_says_so() -> None:
    [one] = h100(fail_below=0.6, warn_below=0.65)
    assert (one.min, one.loosened) == (0.6 * 730, "620.5 <= x TFLOP/s")


@pytest.mark.parametrize(
    ("entry", "says"),
    [
        ({"min": 6_200_000, "unit": "TFLOP/s"}, "above what a h100-sxm5-80gb can reach, 989 TFLOP/s"),
        ({"of": "gemm.tflops", "fail_below": 0.5, "unit": "TFLOP/s"}, "'of' is the quantity itself"),
    ],
)
def test_a_floor_that_cannot_be_is_refused_before_the_first_watt(entry: dict[str, Any], says: str) -> None:
    with pytest.raises(Refused, match=says):
        h100(**entry)


def test_what_judges_beside_the_plan_is_part_of_the_criteria(monkeypatch: pytest.MonkeyPatch) -> None:
    before = make(runs.hardware())
    assert make(runs.hardware(host="other", place=Place("a", "1"))).criteria == before.criteria
    monkeypatch.setattr("gpuburn.judgement.digest", lambda: "another table of Xids")
    assert make(runs.hardware()).criteria != before.criteria
    monkeypatch.undo()
    assert make(runs.hardware(privileges="user")).criteria != before.criteria


@given(st.binary(min_size=1, max_size=40))
def test_a_nonce_is_32_hex_digits(entropy: bytes) -> None:
    nonce = planning.fresh_nonce(entropy)
    assert len(nonce) == 32
    assert int(nonce, 16) >= 0


def test_the_ordered_count_is_demanded_and_not_called_left_out() -> None:
    plan = make(runs.hardware(count=8))
    [one] = [one for one in plan.limits if one.about == "identity.gpus"]
    assert (one.min, one.max, one.source, one.can_reject) == (8.0, 8.0, "contract", True)
    assert not any(one.what.startswith("identity.gpus ") for one in plan.left_out)


def test_steps_that_a_site_does_not_ask_for_are_listed_and_a_typo_is_refused() -> None:
    plan = make(runs.request(only=("gemm",)))
    assert [step.name for step in plan.steps] == ["gemm"]
    assert ("step idle", "not among gpuburn_steps") in [(one.what, one.why) for one in plan.left_out]
    with pytest.raises(Refused, match="gpuburn_steps: unknown 'gem'; did you mean 'gemm'"):
        make(runs.request(only=("gem",)))
