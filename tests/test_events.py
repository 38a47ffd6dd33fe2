"""What happened beside the work: each kind with the finding that it must yield, told twice, and told of whom."""

from __future__ import annotations

import dataclasses

import pytest
import runs

from gpuburn import events, judgement, kernel
from gpuburn.attribution import Attribution, address, same
from gpuburn.finding import Finding, Verdict
from gpuburn.identity import Event
from gpuburn.plan import Plan
from gpuburn.verdict import fold

GPU, BRIDGE = "0000:17:00.0", "0000:00:1b.2"
XID79 = "Xid 79, pid=1, GPU has fallen off the bus."
GEMM = runs.ISSUED + 1.0


@pytest.fixture
def plan() -> Plan:
    """A host with one GPU at GPU's address, and another elsewhere."""
    one = runs.plan(runs.hardware(count=2), steps=("idle", "gemm"))
    places = ("0000:17:00.0", "0000:2A:00.0")
    devices = [dataclasses.replace(device, pci=at) for device, at in zip(one.devices, places, strict=True)]
    return dataclasses.replace(one, devices=devices)


def told(plan: Plan, *happened: Event) -> list[Finding]:
    """The findings about events, of a host whose step gemm ran from GEMM to GEMM + 10 and idle long before."""
    said = runs.outcomes(plan)
    said["idle"] = dataclasses.replace(said["idle"], started=GEMM - 100, seconds=10.0)
    said["gemm"] = dataclasses.replace(said["gemm"], started=GEMM, seconds=10.0)
    found = runs.judged(plan, said, runs.record(events=list(happened)))
    return [one for one in found if one.source == "event" and one.code.partition(".")[0] in ("event", "xid")]


def event(kind: str, about: str = "host", text: str = "as the kernel said", at: float = GEMM + 1) -> Event:
    return Event(f"kernel.{kind}", at, about, text)


def ending(kind: kernel.Kind) -> tuple[str, Verdict, bool]:
    return {
        "reject": ("event.reject", Verdict.FAIL, False), "disturbed": ("event.disturbed", Verdict.INCOMPLETE, False),
        "warn": ("event.warn", Verdict.PASS, True), "unknown": ("event.unknown", Verdict.PASS, True),
        "count": ("event.corrected", Verdict.PASS, False), "info": ("event.info", Verdict.NOT_APPLICABLE, False),
    }[kind.rule]  # fmt: skip


@pytest.mark.parametrize("name", [name for name, one in kernel.load().items() if one.rule not in ("xid", "detail")])
def test_each_kind_is_one_finding_by_its_class(plan: Plan, name: str) -> None:
    [one] = told(plan, event(name))
    kind = kernel.load()[name]
    assert (one.code, one.verdict, one.marginal) == ending(kind)
    assert one.about == f"kernel.{name}" and kind.doc in one.why and "as the kernel said" in one.why
    assert one.evidence == "events.jsonl" and one.profiles == plan.profiles


@pytest.mark.parametrize("name", [
    "pcie_fatal", "mce_uncorrected", "edac_uncorrected", "off_bus", "init_failed", "sxid_fatal", "pcie_contained",
])  # fmt: skip
def test_hardware_that_failed_fails_the_host_and_asks_for_a_report(plan: Plan, name: str) -> None:
    found = told(plan, event(name))
    assert [one.verdict for one in found] == [Verdict.FAIL] and found[0].severity == "critical" and found[0].action
    assert events.failing(event(name))


@pytest.mark.parametrize("name", ["oom", "hung_task", "lockup", "pcie_nonfatal", "sxid", "critical"])
def test_what_may_have_disturbed_the_step_proves_nothing(plan: Plan, name: str) -> None:
    found = told(plan, event(name))
    assert [one.verdict for one in found] == [Verdict.INCOMPLETE] and not events.failing(event(name))


def test_a_link_that_flaps_makes_a_pass_marginal_and_is_counted(plan: Plan) -> None:
    [one] = told(plan, *[event("link_down", BRIDGE, at=GEMM + n) for n in range(5)])
    assert one.marginal and one.verdict is Verdict.PASS and "5 times" in one.why and f"PCI {BRIDGE}" in one.why


@pytest.mark.parametrize(("count", "code"), [(1, "event.corrected"), (480, "event.corrected"), (481, "event.warn")])
def test_corrected_errors_of_one_part_are_a_warning_above_their_bound(plan: Plan, count: int, code: str) -> None:
    [one] = told(plan, *[event("pcie_corrected", GPU)] * count)
    assert one.code == code and one.marginal == (code == "event.warn") and "480" in one.why


@pytest.mark.parametrize(("times", "code"), [(10, "event.corrected"), (11, "event.warn")])
def test_one_line_may_tell_of_many_corrected_errors(plan: Plan, times: int, code: str) -> None:
    text = f"EDAC MC0: {times} CE memory read error on DIMM_A1 (channel:1)"
    [one] = told(plan, event("edac_corrected", "DIMM_A1", text))
    assert one.code == code and "DIMM_A1" in one.why


def test_corrected_errors_of_two_parts_or_two_steps_are_not_added_up(plan: Plan) -> None:
    many = [event("pcie_corrected", about, at=at) for about in (GPU, BRIDGE) for at in (GEMM + 1, GEMM - 95)] * 300
    assert {one.code for one in told(plan, *many)} == {"event.corrected"} and len(told(plan, *many)) == 4


@pytest.mark.parametrize(("at", "step", "words"), [
    (GEMM, "gemm", "during step gemm"), (GEMM + 10, "gemm", "during step gemm"),
    (GEMM - 95, "idle", "during step idle"),
    (GEMM - 1, "", "between steps"), (GEMM + 11, "", "between steps"),
])  # fmt: skip
def test_a_finding_names_the_step_during_which_it_happened(plan: Plan, at: float, step: str, words: str) -> None:
    for one in told(plan, event("oom", at=at), Event("kernel.xid", at, "0000:17:00", XID79)):
        assert one.step == step and words in one.why


@pytest.mark.parametrize(("about", "subject"), [
    ("0000:17:00", "gpu0"), ("0000:17:00.0", "gpu0"), ("00000000:17:00.0", "gpu0"), ("0000:2a:00", "gpu1"),
    (BRIDGE, "host"), ("0001:17:00.0", "host"), ("host", "host"), ("DIMM_A1", "host"), ("17:00.0", "host"),
])  # fmt: skip
def test_a_finding_names_the_planned_device_at_that_address_and_no_other(plan: Plan, about: str, subject: str) -> None:
    found = told(plan, event("pcie_fatal", about), Event("kernel.xid", GEMM, about, XID79))
    assert [one.subject for one in found] == [subject, subject]


def test_a_device_whose_address_the_plan_does_not_know_is_not_guessed(plan: Plan) -> None:
    blind = dataclasses.replace(plan, devices=[dataclasses.replace(one, pci="") for one in plan.devices])
    assert [one.subject for one in told(blind, event("pcie_fatal", GPU))] == ["host"]


def xid(text: str = XID79, at: float = GEMM + 1, about: str = "0000:17:00") -> Event:
    return Event("kernel.xid", at, about, text)


def nvml(number: int = 79, at: float = GEMM + 1, about: str = GPU) -> Event:
    return Event("nvml.xid", at, about, f"Xid {number}, told by NVML")


@pytest.mark.parametrize(("other", "count"), [
    (nvml(), 1), (nvml(at=GEMM + 6), 1), (nvml(at=GEMM - 4), 1), (nvml(at=GEMM + 6.1), 2), (nvml(48), 2),
    (nvml(about="0000:2a:00.0"), 2), (event("off_bus", GPU), 1), (event("off_bus", GPU, at=GEMM + 6.1), 2),
    (event("off_bus", "0000:2a:00.0"), 2), (event("off_bus", "host"), 2),
    (Event("nvml.dbe", GEMM + 1, GPU, "an uncorrected memory error"), 2),
])  # fmt: skip
def test_what_is_told_twice_of_one_device_and_moment_is_one_finding(plan: Plan, other: Event, count: int) -> None:
    for happened in ((xid(), other), (other, xid())):
        found = told(plan, *happened)
        assert len(found) == count and all(one.verdict is Verdict.FAIL for one in found)


def test_two_xids_of_the_kernel_and_two_of_nvml_are_two(plan: Plan) -> None:
    assert len(told(plan, xid(), xid(at=GEMM + 2), nvml(), nvml(at=GEMM + 2))) == 2
    assert len(told(plan, xid(), nvml(), nvml(at=GEMM + 2))) == 2, "one of the kernel's speaks for one of NVML's"


def test_an_xid_that_only_nvml_told_is_judged_by_its_number(plan: Plan) -> None:
    [one] = told(plan, nvml(79))
    assert (one.code, one.subject, one.evidence) == ("xid.reject", "gpu0", "steps/gemm/nvml_events.jsonl")
    assert [one.evidence for one in told(plan, nvml(79, at=GEMM - 1))] == ["events.jsonl"]
    assert [one.code for one in told(plan, nvml(63))] == ["xid.warn"]
    assert [one.code for one in told(plan, nvml(31), xid("Xid 31, MMU Fault", at=GEMM + 8))] == ["xid.reject"] * 2


def test_a_double_bit_error_and_its_xid_are_one_finding(plan: Plan) -> None:
    dbe = Event("nvml.dbe", GEMM + 1, GPU, "an uncorrected memory error")
    assert [one.code for one in told(plan, dbe)] == ["event.reject"]
    assert [one.code for one in told(plan, dbe, xid("Xid 48, DBE"))] == ["xid.reject"]
    assert [one.code for one in told(plan, dbe, nvml(48))] == ["xid.reject"]


@pytest.mark.parametrize(("code", "verdict"), [
    ("nvml.absent", Verdict.NOT_APPLICABLE), ("nvml.lost", Verdict.INCOMPLETE), ("nvml.unreadable", Verdict.INCOMPLETE),
    ("kernel.more", Verdict.NOT_APPLICABLE), ("nvml.more", Verdict.NOT_APPLICABLE), ("kernel.lost", Verdict.INCOMPLETE),
])  # fmt: skip
def test_what_could_not_be_heard_is_shown(plan: Plan, code: str, verdict: Verdict) -> None:
    [one] = told(plan, Event(code, GEMM, "host", "why"))
    assert one.verdict is verdict and "why" in one.why and one.about == code


def test_corrected_errors_that_are_too_many_to_be_listed_are_a_warning(plan: Plan) -> None:
    """Which step they belong to can no longer be told, so that their bound of one step cannot be applied."""
    [one] = told(plan, Event("kernel.more", GEMM, "kernel.pcie_corrected", "2000 in all of 0000:17:00.0"))
    assert one.code == "event.warn" and one.marginal


@pytest.mark.parametrize("code", ["step.interrupted", "bug_report.kept", "kernel.no_such_kind", "another"])
def test_what_is_no_event_of_the_hardware_is_no_finding_here(plan: Plan, code: str) -> None:
    assert told(plan, Event(code, GEMM, "host", "x")) == [] and events.rule(code) is None


def test_a_flood_of_one_kind_is_one_finding(plan: Plan) -> None:
    [one] = told(plan, *[event("hung_task", text=f"task {n}") for n in range(1000)])
    assert "1000 times, first: task 0" in one.why


def test_the_events_of_a_simulated_run_are_findings_all_the_same(plan: Plan) -> None:
    simulated = dataclasses.replace(plan, kind="simulated")
    assert [one.verdict for one in told(simulated, event("pcie_fatal", GPU))] == [Verdict.FAIL]


def test_a_kernel_error_that_nobody_knows_is_shown_and_does_not_make_the_profile_incomplete(plan: Plan) -> None:
    found = runs.judged(plan, None, runs.record(events=[event("error", text="frob lost")]))
    assert fold(found, plan.profiles[0]) is Verdict.PASS
    assert [one.why for one in found if one.code == "event.unknown" and one.marginal and "frob lost" in one.why]


@pytest.mark.parametrize(("text", "wanted"), [
    ("0000:18:00.0", (0, 0x18, 0)), ("PCI:0000:18:00", (0, 0x18, 0)), ("10003:00:1F.7", (0x10003, 0, 0x1F)),
    ("0000:18:00.8", None), ("18:00.0", None), ("gpu0", None), ("", None), ("0000:18:00.0 and more", None),
])  # fmt: skip
def test_an_address_is_read_however_it_is_written(text: str, wanted: tuple[int, int, int] | None) -> None:
    assert address(text) == wanted


def test_two_unknown_names_are_the_same_part_only_when_they_are_equal() -> None:
    assert same("host", "host") and not same("host", "eth0") and same("00000000:18:00.0", "0000:18:00")


def test_a_step_window_is_found_in_no_outcome_of_nothing(plan: Plan) -> None:
    assert Attribution(plan, []).step(event("oom")) == ""


def test_a_change_of_a_kind_changes_what_the_criteria_are(monkeypatch: pytest.MonkeyPatch) -> None:
    before = judgement.digest.__wrapped__()
    kinds = dict(kernel.load())
    kinds["oom"] = dataclasses.replace(kinds["oom"], rule="info")
    monkeypatch.setattr("gpuburn.kernel.load", lambda: kinds)
    assert judgement.digest.__wrapped__() != before


@pytest.mark.parametrize(("numbers", "code"), [
    ((63,), "xid.warn"), ((63, 63), "xid.reject"), ((92,), "xid.warn"), ((92, 92), "xid.reject"),
    ((39,), "xid.warn"), ((39, 40), "xid.reject"), ((32, 32, 32), "xid.warn"), ((63, 92), "xid.warn"),
])  # fmt: skip
def test_what_a_new_machine_may_show_once_it_may_not_repeat_on_one_device(
    plan: Plan, numbers: tuple[int, ...], code: str
) -> None:
    events = [Event("kernel.xid", GEMM + n * 20, GPU, f"Xid {one}, pid=1") for n, one in enumerate(numbers)]
    found = told(plan, *events)
    assert {one.code for one in found} == {code} and len(found) == len(numbers)
    assert all(("times on this device" in one.why) == (code == "xid.reject") for one in found)


def test_two_devices_do_not_repeat_each_other_and_nvml_does_not_repeat_the_kernel(plan: Plan) -> None:
    both = [Event("kernel.xid", GEMM, about, "Xid 63, pid=1") for about in (GPU, "0000:2a:00.0")]
    again = Event("nvml.xid", GEMM + 1, GPU, "Xid 63, told by NVML")
    assert [one.code for one in told(plan, *both, again)] == ["xid.warn"] * 2
