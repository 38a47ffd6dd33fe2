"""The judgement: each fault that can be imagined, and the finding that it must yield. One thing is wrong in a test."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
import runs
from hypothesis import given, strategies as st

from gpuburn.finding import Finding, Verdict, finding
from gpuburn.identity import Boot, Event, HostRecord
from gpuburn.limit import Limit, When
from gpuburn.measurement import Fact, Point, Reading, Work
from gpuburn.outcome import GuardTrip, Outcome, Status
from gpuburn.plan import Plan
from gpuburn.verdict import fold, verdicts

PASS, FAIL, INCOMPLETE, NOT_APPLICABLE = Verdict
BAD_STATUS = [one for one in Status if one is not Status.COMPLETED]


def swap(of: Plan, step: str, **changed: Any) -> dict[str, Outcome]:
    """All outcomes, one of them changed."""
    said = runs.outcomes(of)
    return {**said, step: dataclasses.replace(said[step], **changed)}


def without(of: Plan, step: str, drop: Any) -> dict[str, Outcome]:
    """All outcomes, made anew without the readings, facts or work that drop picks."""
    taken = runs.answers(of)
    return runs.outcomes(of, {**taken, step: [one for one in taken[step] if not drop(one)]})


def subject(of: Plan, step: str, name: str, **changed: Any) -> dict[str, Outcome]:
    fared = [
        dataclasses.replace(one, **changed) if one.subject == name else one for one in runs.outcomes(of)[step].subjects
    ]
    return swap(of, step, subjects=fared)


def with_reading(of: Plan, step: str, metric: str, value: float, who: str) -> dict[str, Outcome]:
    taken = runs.answers(of)
    changed = [
        dataclasses.replace(one, value=value)
        if isinstance(one, Reading) and one.metric == metric and one.subject == who
        else one
        for one in taken[step]
    ]
    return runs.outcomes(of, {**taken, step: changed})


def with_checksums(of: Plan, *values: str) -> dict[str, Outcome]:
    """One checksum per device of the step gemm; None where a device says none."""
    taken = [one for one in runs.answers(of)["gemm"] if getattr(one, "name", "") != "checksum"]
    taken += [Fact("checksum", value, subject=f"cpu{index}") for index, value in enumerate(values) if value]
    return runs.outcomes(of, {**runs.answers(of), "gemm": taken})


def test_where_all_is_well_the_profile_passes(rehearsal: Plan, bare_metal: Plan) -> None:
    for plan in (rehearsal, bare_metal):
        assert runs.bad(runs.judged(plan)) == []
        assert runs.verdict(plan) is PASS


def test_a_missing_metric_is_incomplete(rehearsal: Plan) -> None:
    said = without(rehearsal, "gemm", lambda one: getattr(one, "metric", "") == "wrong" and one.subject == "cpu1")
    assert runs.bad(runs.judged(rehearsal, said)) == [("limit.unmeasured", "gemm", "cpu1", "incomplete")]


def test_an_informational_metric_must_still_be_taken(rehearsal: Plan) -> None:
    said = without(rehearsal, "gemm", lambda one: getattr(one, "metric", "") == "tflops" and one.subject == "cpu2")
    assert runs.bad(runs.judged(rehearsal, said)) == [("limit.unmeasured", "gemm", "cpu2", "incomplete")]


def test_a_missing_point_of_a_sweep_is_incomplete(rehearsal: Plan) -> None:
    lost = Point.of(mib=8)
    said = without(rehearsal, "allreduce", lambda one: getattr(one, "point", None) == lost and one.metric == "wrong")
    findings = [f for f in runs.judged(rehearsal, said) if f.verdict is INCOMPLETE]
    assert [(f.code, f.subject, f.point) for f in findings] == [
        ("limit.unmeasured", f"cpu{index}", lost) for index in range(3)
    ]


def test_a_reading_at_another_point_answers_nothing(rehearsal: Plan) -> None:
    taken = runs.answers(rehearsal)
    moved = [
        dataclasses.replace(one, point=Point.of(mib=9)) if getattr(one, "point", None) == Point.of(mib=8) else one
        for one in taken["allreduce"]
    ]
    assert runs.verdict(rehearsal, runs.outcomes(rehearsal, {**taken, "allreduce": moved})) is INCOMPLETE


def test_a_silent_device_is_never_a_pass(rehearsal: Plan) -> None:
    said = without(rehearsal, "gemm", lambda one: one.subject == "cpu1")
    silent = [one for one in said["gemm"].subjects if one.subject != "cpu1"]
    said["gemm"] = dataclasses.replace(said["gemm"], subjects=silent)
    found = runs.bad(runs.judged(rehearsal, said))
    assert ("step.silent", "gemm", "cpu1", "incomplete") in found
    assert {(who, verdict) for _, _, who, verdict in found} == {("cpu1", "incomplete")}


def test_a_gpu_that_was_ordered_and_is_not_there_is_never_a_pass() -> None:
    eight, seven = (runs.plan(runs.hardware(count=count), steps=("idle", "gemm")) for count in (8, 7))
    assert runs.verdict(eight, runs.outcomes(seven)) is INCOMPLETE
    assert {who for _, _, who, _ in runs.bad(runs.judged(eight, runs.outcomes(seven)))} == {"gpu7"}


def test_a_device_nobody_ordered_adds_nothing(rehearsal: Plan) -> None:
    more = runs.plan(runs.request(count=4))
    assert runs.judged(rehearsal, runs.outcomes(more)) == runs.judged(rehearsal)


def test_a_step_that_never_ran_is_incomplete_and_so_is_each_of_its_limits(rehearsal: Plan) -> None:
    said = runs.outcomes(rehearsal)
    del said["gemm"]
    findings = [f for f in runs.judged(rehearsal, said) if f.step == "gemm"]
    assert findings[0].code == "step.never_ran"
    assert {f.verdict for f in findings} == {INCOMPLETE}
    assert {f.about for f in findings} >= {"gemm.tflops", "gemm.wrong", "gemm.checksum", "telemetry.samples"}


def test_nothing_at_all_is_never_a_pass(rehearsal: Plan) -> None:
    assert runs.verdict(rehearsal, {}) is INCOMPLETE
    assert runs.verdict(rehearsal, {}, HostRecord()) is INCOMPLETE


@pytest.mark.parametrize("status", BAD_STATUS)
def test_a_step_that_died_is_never_a_pass_whatever_it_measured_before(rehearsal: Plan, status: Status) -> None:
    said = swap(rehearsal, "gemm", status=status, why="the reason")
    [one] = [f for f in runs.judged(rehearsal, said) if f.verdict is not PASS and f.verdict is not NOT_APPLICABLE]
    assert (one.code, one.verdict, one.why, one.profiles) == (f"step.{status}", INCOMPLETE, "the reason", ("training",))
    assert runs.verdict(rehearsal, said) is INCOMPLETE


@pytest.mark.parametrize("status", BAD_STATUS)
def test_a_device_that_died_ends_its_own_pass_and_not_its_neighbours(rehearsal: Plan, status: Status) -> None:
    said = subject(rehearsal, "gemm", "cpu1", status=status, why="fell off the bus")
    assert runs.bad(runs.judged(rehearsal, said)) == [(f"step.{status}", "gemm", "cpu1", "incomplete")]


def test_a_status_without_a_reason_is_still_named(rehearsal: Plan) -> None:
    said = swap(rehearsal, "gemm", status=Status.TIMED_OUT)
    assert "timed_out" in [f.why for f in runs.judged(rehearsal, said)]


def test_an_unkillable_step_asks_for_a_power_cycle(rehearsal: Plan) -> None:
    said = swap(rehearsal, "gemm", status=Status.UNKILLABLE, why="stuck")
    [one] = [f for f in runs.judged(rehearsal, said) if f.code == "step.unkillable"]
    assert "power-cycle" in one.action


@pytest.mark.parametrize("lost", ["iterations", "bytes"])
def test_work_that_was_promised_and_not_done_is_never_a_pass(rehearsal: Plan, lost: str) -> None:
    idle = Work(**{"iterations": 1, "bytes": 1, lost: 0}, subject="cpu0")
    said = subject(rehearsal, "allreduce", "cpu0", work=idle)
    [one] = [f for f in runs.judged(rehearsal, said) if f.code == "step.no_work"]
    assert (one.subject, one.verdict) == ("cpu0", INCOMPLETE)
    assert lost in one.why


def test_negative_work_is_no_work(rehearsal: Plan) -> None:
    said = subject(rehearsal, "gemm", "cpu0", work=Work(iterations=-1))
    assert ("step.no_work", "gemm", "cpu0", "incomplete") in runs.bad(runs.judged(rehearsal, said))


@pytest.mark.parametrize("changed", [{"revision": 99}, {"probe": "idle"}])
def test_another_revision_or_probe_proves_nothing(rehearsal: Plan, changed: dict[str, Any]) -> None:
    found = runs.bad(runs.judged(rehearsal, swap(rehearsal, "gemm", **changed)))
    assert found == [("step.other_revision", "gemm", "host", "incomplete")]


@pytest.mark.parametrize(
    "params",
    [
        {},
        {"size": 1},
        {"size": 1, "dtype": "float32", "seconds": 8.0},
        {"size": 768, "dtype": "float32", "seconds": 8.0, "more": 1},
    ],
)
def test_other_parameters_than_planned_prove_nothing(rehearsal: Plan, params: dict[str, Any]) -> None:
    found = runs.bad(runs.judged(rehearsal, swap(rehearsal, "gemm", params=params)))
    assert found == [("step.other_parameters", "gemm", "host", "incomplete")]


def test_a_number_in_another_unit_is_not_compared(rehearsal: Plan) -> None:
    gemm = runs.outcomes(rehearsal)["gemm"]
    other = [dataclasses.replace(m, unit="%") if m.name == "gemm.wrong" else m for m in gemm.measurements]
    found = runs.bad(runs.judged(rehearsal, swap(rehearsal, "gemm", measurements=other)))
    assert found == [("limit.other_unit", "gemm", f"cpu{index}", "incomplete") for index in range(3)]


def test_a_number_drawn_from_nothing_is_not_a_number(rehearsal: Plan) -> None:
    gemm = runs.outcomes(rehearsal)["gemm"]
    empty = [dataclasses.replace(m, count=0) if m.name == "gemm.wrong" else m for m in gemm.measurements]
    found = runs.bad(runs.judged(rehearsal, swap(rehearsal, "gemm", measurements=empty)))
    assert {code for code, *_ in found} == {"limit.unmeasured"}


def test_a_value_that_is_no_number_is_admitted_by_nothing(rehearsal: Plan) -> None:
    gemm = runs.outcomes(rehearsal)["gemm"]
    odd = [dataclasses.replace(m, value=float("nan")) if m.name == "gemm.wrong" else m for m in gemm.measurements]
    assert runs.verdict(rehearsal, swap(rehearsal, "gemm", measurements=odd)) is FAIL


def test_one_wrong_element_fails_its_device_and_no_other(rehearsal: Plan) -> None:
    said = with_reading(rehearsal, "gemm", "wrong", 1.0, "cpu2")
    assert runs.bad(runs.judged(rehearsal, said)) == [("limit.failed", "gemm", "cpu2", "fail")]
    assert runs.verdict(rehearsal, said) is FAIL


@pytest.mark.parametrize("bound", ["min", "max"])
@pytest.mark.parametrize(("distance", "verdict"), [(0.0, PASS), (1e-9, FAIL)])
def test_the_limit_itself_is_admitted(rehearsal: Plan, bound: str, distance: float, verdict: Verdict) -> None:
    limit = {"informational": "", "uncalibrated": False, "because": "a test", "unit": "TFLOP/s"}
    changed = {"min": None, "max": None, **limit, bound: 5.0}
    plan = runs.with_limit(rehearsal, "gemm.tflops", **changed)
    value = 5.0 - distance if bound == "min" else 5.0 + distance
    assert runs.verdict(plan, with_reading(plan, "gemm", "tflops", value, "cpu0")) is verdict


@pytest.mark.parametrize("confidence", ["medium", "low"])
def test_a_number_of_less_than_high_confidence_may_not_reject(rehearsal: Plan, confidence: str) -> None:
    plan = runs.with_limit(rehearsal, "gemm.wrong", confidence=confidence)
    said = with_reading(plan, "gemm", "wrong", 3.0, "cpu0")
    [one] = [f for f in runs.judged(plan, said) if f.code == "limit.outside"]
    assert (one.verdict, one.marginal, one.subject) == (PASS, True, "cpu0")
    assert confidence in one.why
    assert runs.verdict(plan, said) is PASS


def test_a_demand_that_was_only_missed_without_rejecting_is_no_ground_for_a_pass(rehearsal: Plan) -> None:
    outside = finding("limit.outside", "a.b", PASS, "", "limit", ("training",), marginal=True)
    assert fold([outside], "training") is INCOMPLETE


@pytest.mark.parametrize(("value", "marginal"), [(1.0, True), (1.9, True), (2.0, False), (8.0, False), (8.1, True)])
def test_a_pass_near_the_edge_is_marginal(rehearsal: Plan, value: float, marginal: bool) -> None:
    plan = runs.with_limit(
        rehearsal, "gemm.tflops", informational="", uncalibrated=False, because="a test", unit="TFLOP/s",
        min=1.0, max=9.0, warn_below=2.0, warn_above=8.0,
    )  # fmt: skip
    said = with_reading(plan, "gemm", "tflops", value, "cpu0")
    [one] = [f for f in runs.judged(plan, said) if f.about == "gemm.tflops" and f.subject == "cpu0"]
    assert (one.verdict, one.marginal) == (PASS, marginal)


def test_a_device_that_contradicts_itself_fails(rehearsal: Plan) -> None:
    said = with_checksums(rehearsal, "a", "a", "a")
    twice = [*said["gemm"].facts, Fact("gemm.checksum", "b", subject="cpu1")]
    said["gemm"] = dataclasses.replace(said["gemm"], facts=twice)
    assert runs.bad(runs.judged(rehearsal, said)) == [("fact.failed", "gemm", "cpu1", "fail")]


def test_a_device_that_contradicts_itself_takes_no_side(rehearsal: Plan) -> None:
    said = with_checksums(rehearsal, "a", "a", "b")
    twice = [*said["gemm"].facts, Fact("gemm.checksum", "b", subject="cpu0")]
    said["gemm"] = dataclasses.replace(said["gemm"], facts=twice)
    assert runs.bad(runs.judged(rehearsal, said)) == [
        ("fact.failed", "gemm", "cpu0", "fail"),
        ("fact.disagrees", "gemm", "cpu1", "incomplete"),
        ("fact.disagrees", "gemm", "cpu2", "incomplete"),
    ]


def test_two_devices_that_disagree_are_both_incomplete() -> None:
    plan = runs.plan(runs.request(count=2))
    found = runs.bad(runs.judged(plan, with_checksums(plan, "a", "b")))
    assert found == [("fact.disagrees", "gemm", f"cpu{index}", "incomplete") for index in range(2)]


def test_the_minority_of_three_fails(rehearsal: Plan) -> None:
    found = runs.bad(runs.judged(rehearsal, with_checksums(rehearsal, "a", "b", "a")))
    assert found == [("fact.failed", "gemm", "cpu1", "fail")]


def test_three_that_all_differ_are_all_incomplete(rehearsal: Plan) -> None:
    found = runs.bad(runs.judged(rehearsal, with_checksums(rehearsal, "a", "b", "c")))
    assert found == [("fact.disagrees", "gemm", f"cpu{index}", "incomplete") for index in range(3)]


def test_a_device_that_says_nothing_takes_no_side(rehearsal: Plan) -> None:
    found = runs.bad(runs.judged(rehearsal, with_checksums(rehearsal, "a", "", "b")))
    assert sorted(found) == [
        ("fact.disagrees", "gemm", "cpu0", "incomplete"),
        ("fact.disagrees", "gemm", "cpu2", "incomplete"),
        ("fact.unobserved", "gemm", "cpu1", "incomplete"),
    ]


def test_agreement_with_nobody_is_not_judged() -> None:
    plan = runs.plan(runs.request(count=1))
    [one] = [f for f in runs.judged(plan) if f.about == "gemm.checksum"]
    assert (one.code, one.verdict) == ("fact.cohort", NOT_APPLICABLE)
    alone = runs.with_limit(plan, "gemm.checksum", agree="host")
    [one] = [f for f in runs.judged(alone) if f.about == "gemm.checksum"]
    assert (one.code, one.verdict) == ("fact.alone", NOT_APPLICABLE)


def test_what_the_cohort_must_share_the_devices_of_a_host_must_share(rehearsal: Plan) -> None:
    found = [f for f in runs.judged(rehearsal) if f.about == "gemm.checksum"]
    assert {f.verdict for f in found} == {PASS}
    assert all("the report compares the hosts" in f.why for f in found)
    assert runs.verdict(rehearsal, with_checksums(rehearsal, "a", "b", "a")) is FAIL


@pytest.mark.parametrize(("wanted", "verdict"), [("the same", PASS), ("another", FAIL), ("the sam", FAIL), ("", FAIL)])
def test_a_fact_is_judged_by_equality(rehearsal: Plan, wanted: str, verdict: Verdict) -> None:
    plan = runs.with_limit(rehearsal, "gemm.checksum", agree="", equals=wanted)
    assert runs.verdict(plan, runs.outcomes(rehearsal)) is verdict


def test_a_fact_that_was_not_observed_is_incomplete_also_where_it_is_informational(rehearsal: Plan) -> None:
    plan = runs.with_limit(rehearsal, "gemm.checksum", agree="", informational="a test")
    assert runs.verdict(plan) is PASS
    assert {code for code, *_ in runs.bad(runs.judged(plan, with_checksums(plan)))} == {"fact.unobserved"}


def test_an_unexpected_reboot_fails_every_profile(rehearsal: Plan) -> None:
    host = runs.record(boots=[Boot("boot-1", 1.0), Boot("boot-2", 2.0)])
    plan = dataclasses.replace(rehearsal, profiles=("training", "inference"))
    findings = runs.judged(plan, None, host)
    assert [f.code for f in findings if f.verdict is FAIL] == ["host.rebooted"]
    assert verdicts(plan, findings)["training"] is FAIL
    assert verdicts(plan, findings)["inference"] is FAIL


def test_the_agent_started_twice_in_one_boot_is_no_reboot(rehearsal: Plan) -> None:
    assert runs.verdict(rehearsal, None, runs.record(boots=[Boot("boot-1", 1.0), Boot("boot-1", 2.0)])) is PASS


def test_a_boot_that_nobody_saw_is_incomplete(rehearsal: Plan) -> None:
    found = runs.bad(runs.judged(rehearsal, None, runs.record(boots=[])))
    assert found == [("host.boot_unknown", "", "host", "incomplete")]


def changed_look(name: str, value: str) -> HostRecord:
    source, _, key = name.rpartition(".")
    sources = {**runs.look().sources}
    sources[source] = {**sources[source], key: value}
    return runs.record(identities=[runs.look(), runs.look(sources=sources)])


@pytest.mark.parametrize("name", [
    "cpu.microcode", "cpu.count", "dmi.product_uuid", "dmi.chassis_serial", "dmi.bios_version", "disk.nvme0n1.firmware",
    "nic.ens1.firmware",
])  # fmt: skip
def test_what_not_every_host_tells_may_not_change_either(rehearsal: Plan, name: str) -> None:
    source, _, key = name.rpartition(".")
    looks = [runs.look(), runs.look(), runs.look()]
    for at, value in ((1, "first"), (2, "second")):
        looks[at].sources.setdefault(source, {})[key] = value
    [one] = [f for f in runs.judged(rehearsal, None, runs.record(identities=looks)) if f.verdict is FAIL]
    about = f"identity.{source.partition('.')[0]}.firmware" if key == "firmware" else f"identity.{name}"
    assert (one.code, one.about, one.evidence) == ("identity.changed", about, "identity.json")
    assert "first" in one.why and "second" in one.why
    looks.pop()
    assert not runs.bad(runs.judged(rehearsal, None, runs.record(identities=looks))), "told once alone"


@pytest.mark.parametrize("name", ["os.kernel", "memory.total", "dmi.product_serial"])
def test_an_identity_that_changed_during_the_run_fails(rehearsal: Plan, name: str) -> None:
    [one] = [f for f in runs.judged(rehearsal, None, changed_look(name, "other")) if f.verdict is FAIL]
    assert (one.code, one.about) == ("identity.changed", f"identity.{name}")
    assert "other" in one.why


def test_an_identity_that_vanished_during_the_run_is_incomplete(bare_metal: Plan) -> None:
    said = runs.judged(bare_metal, None, changed_look("dmi.product_serial", ""))
    [one] = [f for f in said if f.verdict in (FAIL, INCOMPLETE)]
    assert (one.code, one.verdict) == ("identity.missing", INCOMPLETE)


def test_no_look_at_the_host_is_incomplete(bare_metal: Plan) -> None:
    found = runs.bad(runs.judged(bare_metal, None, runs.record(identities=[])))
    assert {code for code, *_ in found} == {"identity.missing"}
    assert len(found) == 6


SERIALS = ("dmi.product_serial", "dmi.board_serial")


@pytest.mark.parametrize(
    ("privileges", "environment", "code"),
    [
        ("root", "bare_metal", "identity.missing"),
        ("user", "bare_metal", "not_observable"),
        ("root", "vm", "not_observable"),
        ("root", "container", "not_observable"),
    ],
)
def test_a_serial_is_excused_only_where_it_cannot_be_seen(
    bare_metal: Plan, privileges: str, environment: str, code: str
) -> None:
    plan = dataclasses.replace(bare_metal, privileges=privileges, environment=environment)
    bare = runs.look(sources={name: values for name, values in runs.look().sources.items() if name != "dmi"})
    findings = runs.judged(plan, None, runs.record(identities=[bare, bare]))
    assert [f.code for f in findings if f.about.endswith("_serial")] == [code, code]
    assert fold(findings, "training") is (INCOMPLETE if code == "identity.missing" else PASS)


def test_what_every_host_must_tell_is_excused_nowhere(bare_metal: Plan) -> None:
    plan = dataclasses.replace(bare_metal, privileges="user", environment="container")
    assert runs.verdict(plan, None, changed_look("cpu.model", "")) is INCOMPLETE


@pytest.mark.parametrize(
    ("privileges", "environment", "code"),
    [
        ("root", "bare_metal", "kernel_log.unreadable"),
        ("root", "vm", "kernel_log.unreadable"),
        ("root", "container", "not_observable"),
        ("user", "bare_metal", "not_observable"),
    ],
)
def test_an_unreadable_kernel_log_is_never_silence(
    bare_metal: Plan, privileges: str, environment: str, code: str
) -> None:
    plan = dataclasses.replace(bare_metal, privileges=privileges, environment=environment)
    findings = runs.judged(plan, None, runs.record(kernel_log="/dev/kmsg: Operation not permitted"))
    [one] = [f for f in findings if "kernel_log" in f.code or f.about == "kernel_log"]
    assert (one.code, one.why) == (code, "/dev/kmsg: Operation not permitted")
    assert fold(findings, "training") is (PASS if code == "not_observable" else INCOMPLETE)


def test_a_kernel_log_that_lost_records_was_not_followed(bare_metal: Plan) -> None:
    host = runs.record(events=[Event("kernel_log.overrun", 1.0, "host", "overwritten before they were read")])
    assert runs.bad(runs.judged(bare_metal, None, host)) == [("kernel_log.unreadable", "", "host", "incomplete")]


def xids(plan: Plan, *told: tuple[str, str], at: float = 1.0, said: Any = None) -> list[tuple[str, str]]:
    events = [Event("kernel.xid", at, about, text) for about, text in told]
    found = [f for f in runs.judged(plan, said, runs.record(events=events)) if f.code.startswith("xid.")]
    assert all(about in f.why and text in f.why for f, (about, text) in zip(found, told, strict=True))
    return [(f.code, str(f.verdict)) for f in found]


@pytest.mark.parametrize(("text", "code", "verdict"), [
    ("Xid 79, GPU has fallen off the bus", "xid.reject", "fail"),
    ("Xid 48, DBE", "xid.reject", "fail"),
    ("Xid 63, Row Remapper", "xid.warn", "pass"),
    ("Xid 13, Graphics Exception", "xid.app", "incomplete"),
    ("Xid 106, test", "xid.info", "not_applicable"),
    ("Xid 99999, new", "xid.unknown", "incomplete"),
    ("Xid, without a number", "xid.unknown", "incomplete"),
])  # fmt: skip
def test_an_xid_is_judged_by_its_class_for_a_new_machine(bare_metal: Plan, text: str, code: str, verdict: str) -> None:
    assert xids(bare_metal, ("0000:17:00", text)) == [(code, verdict)]


def test_a_watched_xid_makes_a_pass_marginal(bare_metal: Plan) -> None:
    host = runs.record(events=[Event("kernel.xid", 1.0, "0000:17:00", "Xid 63, Row Remapper")])
    [one] = [f for f in runs.judged(bare_metal, None, host) if f.code == "xid.warn"]
    assert one.marginal and one.severity == "minor" and one.action


def test_an_xid_of_the_program_that_repeats_on_one_device_alone_is_that_devices(bare_metal: Plan) -> None:
    here, there = ("0000:17:00", "Xid 31, MMU Fault"), ("0000:2a:00", "Xid 31, MMU Fault")
    assert {code for code, _ in xids(bare_metal, here, here)} == {"xid.reject"}
    assert {code for code, _ in xids(bare_metal, here, here, there)} == {"xid.app"}


def test_what_our_own_kill_leaves_in_the_log_is_expected_there_and_nowhere_else(bare_metal: Plan) -> None:
    told = ("0000:17:00", "Xid 45, Preemptive Channel Removal")
    plan = runs.plan(runs.hardware(), steps=("idle", "resume"))
    said = runs.outcomes(plan)
    assert xids(plan, told, at=said["resume"].started + 1, said=said) == [("xid.info", "not_applicable")]
    assert xids(plan, told, at=said["resume"].started - 60, said=said) == [("xid.app", "incomplete")]


@pytest.mark.parametrize("name", ["foreign_load", "disk_free", "memory_available"])
def test_a_guard_that_says_nothing_of_the_hardware_leaves_its_step_unproven(bare_metal: Plan, name: str) -> None:
    said = runs.outcomes(bare_metal)
    trip = GuardTrip(name, "host", 0.4, f"{name} of host was 0.4")
    said["gemm"] = dataclasses.replace(said["gemm"], status=Status.ABORTED, why=trip.why, trips=[trip])
    codes = {(f.code, f.about, str(f.verdict)) for f in runs.judged(bare_metal, said) if f.step == "gemm"}
    assert {("guard.tripped", name, "incomplete"), ("step.aborted", "gemm", "incomplete")} <= codes
    assert str(runs.verdict(bare_metal, said)) == "incomplete"


def test_a_guard_that_tripped_fails(bare_metal: Plan) -> None:
    trips = [GuardTrip("temperature", "gpu3", 99.0, "99 C is above 98 C")]
    found = runs.bad(runs.judged(bare_metal, swap(bare_metal, "gemm", trips=trips)))
    assert found == [("guard.tripped", "gemm", "gpu3", "fail")]


def test_a_step_that_nothing_watched_is_not_proven(rehearsal: Plan) -> None:
    said = without(rehearsal, "idle", lambda one: getattr(one, "metric", "") == "samples")
    assert runs.bad(runs.judged(rehearsal, said)) == [("limit.unmeasured", "idle", "host", "incomplete")]


def some(
    verdict: Verdict, source: str = "limit", code: str = "limit.met", profiles: tuple[str, ...] = ("p",)
) -> Finding:
    return Finding(code, "a.b", verdict, "", source, profiles)


FINDINGS = st.lists(st.sampled_from(list(Verdict)).map(some), max_size=8)


def test_nothing_judged_is_never_a_pass() -> None:
    assert fold([], "p") is INCOMPLETE
    assert fold([some(NOT_APPLICABLE)], "p") is INCOMPLETE
    assert fold([some(PASS, source="plan", code="step.worked")], "p") is INCOMPLETE
    assert fold([some(PASS, profiles=("another",))], "p") is INCOMPLETE


def test_readings_that_are_only_recorded_are_never_a_pass(rehearsal: Plan) -> None:
    recorded = [Limit(one.about, informational="a test", when=one.when) for one in rehearsal.limits]
    assert runs.verdict(dataclasses.replace(rehearsal, limits=recorded)) is INCOMPLETE


@given(FINDINGS, st.randoms())
def test_the_worst_finding_wins_in_any_order(findings: list[Finding], random: Any) -> None:
    mixed = list(findings)
    random.shuffle(mixed)
    met = {f.verdict for f in findings}
    wanted = FAIL if FAIL in met else INCOMPLETE if INCOMPLETE in met else PASS if PASS in met else INCOMPLETE
    assert fold(mixed, "p") is wanted


@given(FINDINGS, FINDINGS)
def test_more_findings_never_make_a_failure_better(first: list[Finding], second: list[Finding]) -> None:
    order = [FAIL, INCOMPLETE, PASS]
    if fold(first, "p") is not INCOMPLETE:  # that may become a pass when the demand that was missing is met
        assert order.index(fold([*first, *second], "p")) <= order.index(fold(first, "p"))


def test_a_finding_enters_only_the_profiles_that_it_serves(rehearsal: Plan) -> None:
    both = runs.plan(runs.request(profiles=("training", "inference")))
    taken = runs.answers(both)
    said = runs.outcomes(both, taken)
    said["allreduce"] = dataclasses.replace(said["allreduce"], status=Status.ERRORED)
    found = verdicts(both, runs.judged(both, said))
    assert found == {"training": INCOMPLETE, "inference": PASS}


def test_a_finding_says_what_to_do_only_where_something_is_to_be_done(rehearsal: Plan) -> None:
    assert {f.action for f in runs.judged(rehearsal)} == {""}
    assert {f.severity for f in runs.judged(rehearsal)} == {""}
    failed = runs.judged(rehearsal, with_reading(rehearsal, "gemm", "wrong", 1.0, "cpu2"))
    assert [(f.severity, bool(f.action)) for f in failed if f.verdict is FAIL] == [("major", True)]
    lost = runs.judged(rehearsal, {})
    assert {(f.severity, bool(f.action)) for f in lost if f.verdict is INCOMPLETE} == {("minor", True)}


def test_every_demand_of_the_plan_has_its_finding(rehearsal: Plan) -> None:
    for said in (runs.outcomes(rehearsal), {}):
        found = {(f.about, f.step) for f in runs.judged(rehearsal, said)}
        assert found >= {(limit.about, step) for limit in rehearsal.limits for step in limit.when.steps}


def test_the_judgement_is_a_function_of_what_it_is_given(rehearsal: Plan) -> None:
    assert runs.judged(rehearsal) == runs.judged(rehearsal)


def test_a_limit_on_one_point_judges_that_point_only(rehearsal: Plan) -> None:
    only = Limit(
        "allreduce.wrong", "count", "a test", max=0.0,
        when=When(steps=("allreduce",), profiles=("training",), point=Point.of(mib=8)),
    )  # fmt: skip
    others = [one for one in rehearsal.limits if one.about != "allreduce.wrong"]
    plan = dataclasses.replace(rehearsal, limits=[*others, only])
    found = [f for f in runs.judged(plan) if f.about == "allreduce.wrong"]
    assert {f.point for f in found} == {Point.of(mib=8)}
    assert len(found) == 3


@pytest.mark.parametrize(("source", "values", "about"), [
    ("disk.nvme0n1", {"serial": "S1"}, "identity.disk"), ("dimm.A1", {"serial": "80CE01"}, "identity.dimm"),
    ("nic.ens1", {"permanent": "b8:3f:d2:aa:00:01", "pci": "0000:36:00.0"}, "identity.nic"),
    ("pci.0000:18:00.0", {"address": "0000:18:00.0", "device": "0x2330", "class": "0x030200"}, "identity.gpu"),
])  # fmt: skip
def test_a_part_that_is_gone_at_the_end_fails_the_host_and_is_named(
    bare_metal: Plan, source: str, values: dict[str, str], about: str
) -> None:
    start, end = runs.look(), runs.look()
    start.sources[source] = values
    found = runs.judged(bare_metal, host=runs.record(identities=[start, end]))
    [one] = [f for f in found if f.verdict is FAIL]
    assert (one.code, one.about, one.evidence) == ("identity.changed", about, "identity.json")
    assert "is gone" in one.why


def test_a_part_that_was_swapped_while_the_host_was_down_is_found_by_the_look_after_the_reboot(
    bare_metal: Plan,
) -> None:
    looks = [runs.look(), runs.look(), runs.look()]
    for look, serial in zip(looks, ("S1", "S9", "S9")):
        look.sources["disk.nvme0n1"] = {"serial": serial, "pci": "0000:46:00.0"}
    found = [f for f in runs.judged(bare_metal, host=runs.record(identities=looks)) if f.verdict is FAIL]
    assert [(f.about, f.why) for f in found] == [
        ("identity.disk", "changed during the run: S1 at 0000:46:00.0 was replaced by S9")
    ]
