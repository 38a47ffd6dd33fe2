"""What the comparison of hosts adds: peers, cohorts, facts, versions, duplicates, decay, the breaker, proof."""

from __future__ import annotations

import dataclasses
import random
from typing import Any

import pytest
import runs

from gpuburn.controller import breaking
from gpuburn.controller.account import Account, settle
from gpuburn.controller.analysis import Analysis, analyse, proofs
from gpuburn.controller.judged import SCHEMA, Judged, Referred, Trend
from gpuburn.controller.named import Part, Said
from gpuburn.controller.reach import Way
from gpuburn.controller.run import Expected, Run
from gpuburn.controller.series import Series, Table, What
from gpuburn.finding import Finding, Verdict, finding
from gpuburn.journal import Entry
from gpuburn.policy import Decay, Decision, load
from gpuburn.strict import Refused

POLICY = load()
GPUS = 8
NEAR = random.Random(3)


def series(values: list[float], **changed: Any) -> Series:
    settled: dict[str, Any] = {
        "step": "gemm", "about": "gemm.tflops", "unit": "TFLOP/s", "better": "higher", "point": "", "method": "m",
        "subjects": tuple(f"gpu{i}" for i in range(len(values))), "profiles": ("training",),
    }  # fmt: skip
    return Series(What(**{**settled, **changed}), values, [0.004] * len(values), [100] * len(values))


def good() -> list[float]:
    return [700 * (1 + NEAR.gauss(0, 0.004)) for _ in range(GPUS)]


def host(name: str, kind: str = "hardware", rack: str = "a", **changed: Any) -> Way:
    demanded = {"kind": kind, "sku": "h100-sxm5-80gb"}
    settled: dict[str, Any] = {
        "schema": SCHEMA, "host": name, "version": "0", "criteria": "c", "finished": True, "refused": [],
        "verdicts": {"training": Verdict.PASS}, "marks": {"training": []}, "findings": [], "parts": [], "versions": [],
        "facts": [], "cohort": "h100", "series": Table.of([series(good())]), "met": ["training"], "demanded": demanded,
    }  # fmt: skip
    one = Judged(**{**settled, **changed})
    return Way(Expected(name, kind, "standard", "bare_metal", ["training"], rack=rack), "judged", one)


def fleet(count: int = 8, **changed: Any) -> list[Way]:
    return [host(f"n{i}", **changed) for i in range(count)]


def added(analysis: Analysis) -> dict[str, list[tuple[str, str, str]]]:
    return {name: [(f.code, f.subject, str(f.verdict)) for f in found] for name, found in analysis.findings.items()}


def test_a_healthy_fleet_adds_no_finding() -> None:
    assert added(analyse(fleet(), POLICY)) == {}


def slow(name: str = "slow", **changed: Any) -> Way:
    values = good()
    values[5] = 700 * 0.95
    return host(name, series=Table.of([series(values)]), **changed)


@pytest.mark.parametrize(
    ("leads", "verdict", "marginal"),
    [("inform", "not_applicable", False), ("warn", "pass", True), ("fail", "fail", False)],
)
def test_a_slow_device_is_told_as_the_policy_says(leads: Any, verdict: str, marginal: bool) -> None:
    policy = dataclasses.replace(POLICY, peers=leads)
    [one] = analyse([*fleet(), slow()], policy).findings["slow"]
    assert (one.code, one.subject, str(one.verdict), one.marginal) == ("fleet.peer", "gpu5", verdict, marginal)
    assert one.profiles == ("training",) and one.step == "gemm"


def test_a_rehearsal_is_told_of_its_outliers_and_not_judged_by_them() -> None:
    [one] = analyse([*fleet(kind="rehearsal"), slow(kind="rehearsal")], POLICY).findings["slow"]
    assert one.verdict is Verdict.NOT_APPLICABLE and not one.marginal


def test_a_bad_rack_explains_its_devices_and_is_named() -> None:
    bad = [host(f"b{i}", rack="bad", series=Table.of([series([v * 0.94 for v in good()])])) for i in range(2)]
    analysis = analyse([*fleet(12), *bad], POLICY)
    assert any(one.code == "fleet.position" and "rack bad" in one.text for one in analysis.statements)
    found = [f for name in ("b0", "b1") for f in analysis.findings[name]]
    assert found and all("the whole rack bad is off" in f.why for f in found)


def test_a_fleet_that_is_slow_alike_is_named_against_its_reference_and_no_single_device() -> None:
    reference = [Referred("gemm.tflops", "gemm", "", "h100 gemm_bf16", 800.0, 0.92)]
    analysis = analyse(fleet(references=reference), POLICY)
    assert {code for found in added(analysis).values() for code, _, _ in found} == {"fleet.cohort_slow"}
    assert len(analysis.findings) == 8
    assert analysis.statements[0].code == "fleet.cohort_slow"
    assert added(analyse(fleet(references=[dataclasses.replace(reference[0], value=740.0)]), POLICY)) == {}


def test_a_reference_is_of_its_own_step_and_of_its_own_cohort_alone() -> None:
    """FP8 is twice as fast as BF16, and another SKU has other numbers: neither makes the other slow."""
    steps = {"gemm": 700.0, "gemm_fp8": 1400.0}
    references = [Referred("gemm.tflops", step, "", "h100", value, 0.92) for step, value in steps.items()]
    measured = [series([value * (1 + NEAR.gauss(0, 0.004)) for _ in range(GPUS)], step=step)
                for step, value in steps.items()]  # fmt: skip
    larger = host("b", references=[dataclasses.replace(references[0], value=1400.0)], cohort="b200",
                  series=Table.of([series([value * 2 for value in good()])]))  # fmt: skip
    healthy = fleet(series=Table.of(measured), references=references)
    assert added(analyse([*healthy, larger], POLICY)) == {}
    slow = [dataclasses.replace(references[0], value=800.0), references[1]]
    found = analyse([*fleet(series=Table.of(measured), references=slow), larger], POLICY).findings
    assert {(name, one.code, one.step) for name, many in found.items() for one in many} == {
        (f"n{number}", "fleet.cohort_slow", "gemm") for number in range(8)
    }


def test_hosts_that_measured_otherwise_are_not_peers() -> None:
    other = host("other", series=Table.of([series([v * 0.5 for v in good()], method="other")]))
    analysis = analyse([*fleet(), other], POLICY)
    assert "other" not in analysis.findings or added(analysis)["other"] == []


def said(value: str, subject: str = "gpu0") -> list[Said]:
    return [Said("gemm.checksum", subject, value, "gemm", "", ["training"])]


def test_the_odd_one_out_of_a_cohort_fails_and_without_a_majority_nothing_is_proven() -> None:
    three = [host("n0", facts=said("a")), host("n1", facts=said("a")), host("n2", facts=said("b"))]
    assert added(analyse(three, POLICY)) == {"n2": [("fleet.odd_fact", "gpu0", "fail")]}
    assert added(analyse(three[1:], POLICY)) == {
        name: [("fleet.facts_disagree", "gpu0", "incomplete")] for name in ("n1", "n2")
    }
    assert added(analyse(three[2:], POLICY)) == {}
    elsewhere = [*three[:2], host("n2", facts=said("b"), cohort="another driver")]
    assert added(analyse(elsewhere, POLICY)) == {}


def test_firmware_unlike_the_others_is_told() -> None:
    hosts = [host(f"n{i}", versions=[Said("vbios", "gpu0", "96.00" if i else "95.00")]) for i in range(4)]
    assert added(analyse(hosts, POLICY)) == {"n0": [("fleet.odd_version", "gpu0", "pass")]}


def test_a_host_with_other_links_than_its_fleet_is_told() -> None:
    hosts = [
        host(f"n{i}", versions=[Said("infiniband links", "host", f"{8 if i else 7} of 8 ports")]) for i in range(4)
    ]
    assert added(analyse(hosts, POLICY)) == {"n0": [("fleet.odd_version", "host", "pass")]}


def test_a_serial_on_two_hosts_proves_neither() -> None:
    hosts = [host(f"n{i}", parts=[Part("gpu0", "serial", "S1" if i < 2 else f"T{i}")]) for i in range(4)]
    assert added(analyse(hosts, POLICY)) == {name: [("fleet.duplicate", "gpu0", "fail")] for name in ("n0", "n1")}


def test_one_machine_under_two_names_is_found_by_its_boot() -> None:
    hosts = [host(name, parts=[Part("host", "boot", "b-1")]) for name in ("n0", "n1")]
    assert {name: code for name, [(code, _, _)] in added(analyse(hosts, POLICY)).items()} == dict.fromkeys(
        ("n0", "n1"), "fleet.duplicate"
    )


@pytest.mark.parametrize(("change", "told"), [(0.009, 0), (0.01, 1), (0.2, 1)])
def test_a_loss_over_the_soak_is_told_from_the_policys_share_on(change: float, told: int) -> None:
    trend = Trend("gemm", "gemm.tflops", "gpu1", "", ["training"], change, 7.5, "why")
    found = added(analyse([host("n0", trends=[trend])], dataclasses.replace(POLICY, decay=Decay(0.01, "fail"))))
    assert found == ({"n0": [("fleet.decay", "gpu1", "fail")]} if told else {})


def failed(about: str = "gemm.wrong") -> list[Finding]:
    return [finding("limit.failed", about, Verdict.FAIL, "3", "limit", ("training",), step="gemm", subject="gpu0")]


def broken(count: int, of: int) -> list[Way]:
    bad = {"findings": failed(), "verdicts": {"training": Verdict.FAIL}}
    return [host(f"n{i:02}", **(bad if i < count else {})) for i in range(of)]


@pytest.mark.parametrize(("count", "of", "trips"), [(4, 8, True), (3, 8, False), (7, 7, False), (8, 16, True)])
def test_so_many_failures_of_one_check_suspect_the_test(count: int, of: int, trips: bool) -> None:
    analysis = analyse(broken(count, of), POLICY)
    assert bool(analysis.tripped) == trips
    said = [one for one in analysis.statements if one.code == "breaker"]
    assert len(said) == trips
    assert all("suspect the test, the image or the fabric" in one.text for one in said)


def test_what_tripped_rejects_nobody_until_a_named_person_releases_it(tmp_path: Any) -> None:
    run = Run.of(tmp_path, runs.RUN)
    went = broken(6, 8)

    def decisions() -> dict[str, int]:
        accounts, analysis = settle(run, went)
        breaking.note(run, analysis.tripped, 1.0)
        found: dict[str, int] = {}
        for one in accounts:
            found[str(one.decision)] = found.get(str(one.decision), 0) + 1
        return found

    assert decisions() == {"undecided": 6, "accepted": 2}
    assert decisions() == {"undecided": 6, "accepted": 2}
    assert [entry.event for entry in run.entries()] == ["breaker.tripped"]
    for by, reason, wish in (
        ("", "x", "--by is empty"), ("Ada", " ", "--reason is empty"), ("Ada\nEve", "x", "--by: wanted is one line"),
        ("Ada", "x\x1b[2K", "--reason: wanted is one line"),
    ):  # fmt: skip
        with pytest.raises(Refused, match=wish):
            breaking.release(run, by, reason, 2.0)
    assert "gpuburn breaker release" in breaking.hold(run, [])
    assert breaking.release(run, "Ada", "the image is good", 2.0) == [("limit.failed", "gemm.wrong", "gemm")]
    assert decisions() == {"rejected": 6, "accepted": 2}
    assert breaking.hold(run, []) == ""
    with pytest.raises(Refused, match="no breaker is tripped"):
        breaking.release(run, "Ada", "again", 3.0)


def test_another_run_of_the_delivery_is_held_and_one_of_another_is_not(tmp_path: Any) -> None:
    first, second = (Run.of(tmp_path, f"20260101T00000{i}Z-0000") for i in (0, 1))
    first.expect([Expected("n0", "hardware", "standard", "bare_metal", ["training"], delivery="PO-1")])
    breaking.note(first, analyse(broken(6, 8), POLICY).tripped, 1.0)
    assert first.id in breaking.hold(second, ["PO-1"])
    assert breaking.hold(second, ["PO-2"]) == breaking.hold(second, [""]) == ""


def test_what_no_failure_proves_is_said() -> None:
    texts = [one.text for one in proofs([("training", Decision.ACCEPTED)] * 32)]
    assert texts == ["training: 0 of 32 failed still allows 8.9 % defects (95 % confidence)"]


def test_who_fails_by_its_peers_or_goes_away_counts_as_failed_and_who_is_undecided_does_not(tmp_path: Any) -> None:
    lost = Way(Expected("lost", "hardware", "standard", "bare_metal", ["training"]), "lost")
    away = Way(Expected("away", "hardware", "standard", "bare_metal", ["training"]), "never_reached")
    odd = [host(f"n{i}", facts=said("b" if i == 0 else "a")) for i in range(4)]
    _, analysis = settle(Run.of(tmp_path, runs.RUN), [*odd, lost, away])
    [told] = [one.text for one in analysis.statements if one.code == "proof"]
    assert told.startswith("training: 2 of 5 failed: between ")


def test_a_host_without_a_judgement_takes_no_part() -> None:
    lost = Way(Expected("lost", "hardware", "standard", "bare_metal", ["training"]), "lost")
    refused = dataclasses.replace(slow(), reached="refused")
    assert added(analyse([*fleet(), lost, refused], POLICY)) == {}
    assert analyse([], POLICY) == analyse([lost], POLICY) == Analysis()


def test_the_order_of_hosts_changes_nothing() -> None:
    hosts = [*fleet(12), slow(), *broken(3, 4)]
    shuffled = hosts[:]
    random.Random(1).shuffle(shuffled)
    first, second = analyse(hosts, POLICY), analyse(shuffled, POLICY)
    assert added(first) == added(second)
    assert set(first.statements) == set(second.statements)


def test_a_marginal_peer_makes_an_accepted_host_conditional(tmp_path: Any) -> None:
    accounts, _ = settle(Run.of(tmp_path, runs.RUN), [*fleet(), slow()])
    worst: Account = next(one for one in accounts if one.expected.host == "slow")
    assert str(worst.decision) == "conditional"
    assert [c.condition for c in worst.by_profile["training"].conditions] == ["a re-test of what was marginal passes"]


def test_entries_of_the_journal_release_only_their_own_check() -> None:
    tripped = analyse(broken(6, 8), POLICY).tripped
    other = Entry(1, 0.0, "breaker.released", "", "", {"code": "limit.failed", "about": "other", "step": "gemm"})
    assert breaking.held([other], tripped) == {("limit.failed", "gemm.wrong", "gemm")}


def test_what_started_goes_on_and_what_did_not_is_held(tmp_path: Any) -> None:
    run = Run.of(tmp_path, runs.RUN)
    run.expect([Expected(name, "hardware", "standard", "bare_metal", ["training"], delivery="PO-1")
                for name in ("old", "new")])  # fmt: skip
    run.note(1.0, "started", "old")
    breaking.Hold(run).check("new", "PO-1")
    breaking.note(run, analyse(broken(6, 8), POLICY).tripped, 2.0)
    held = breaking.Hold(run)
    held.check("old", "PO-1")
    with pytest.raises(Refused, match=r"held: too many hosts .* gpuburn breaker release"):
        held.check("new", "PO-1")
