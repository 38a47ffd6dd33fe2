"""The account: every expected host has one row, whatever happened to it, and the row says how far it came."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
import runs

from gpuburn.agent.seal import seal
from gpuburn.controller.account import Account, give, summary, told
from gpuburn.controller.run import Expected, Run
from gpuburn.decision import Decided
from gpuburn.finding import Verdict
from gpuburn.measurement import Reading
from gpuburn.outcome import Status
from gpuburn.plan import Plan
from gpuburn.policy import Decision

NOW = runs.ISSUED + 60


def of_host(plan: Plan, name: str, **changed: Any) -> Plan:
    return dataclasses.replace(plan, host=name, **changed)


def answered(tmp_path: Path, run: Run, plan: Plan, wrong: float = 0.0) -> Path:
    """A host works, and its sealed file comes home."""
    answers = runs.answers(plan)
    if wrong:
        answers["gemm"].append(Reading("wrong", wrong, subject=plan.devices[1].name, at=runs.ISSUED))
    folder = tmp_path / "hosts" / plan.host
    runs.write(folder, plan, answers)
    runs.bring(run, plan.host, folder)
    return folder


def the(run: Run, now: float = NOW) -> Account:
    [one] = give(run, now)
    return one


def test_a_host_that_passed_passed(tmp_path: Path, rehearsal: Plan) -> None:
    run = runs.home(tmp_path / "reports", rehearsal)
    answered(tmp_path, run, rehearsal)
    one = the(run)
    assert (one.reached, one.decision, one.reason) == ("judged", Decision.TRIAL_PASSED, "a rehearsal accepts nothing")
    assert one.by_profile == {"training": Decided(Decision.TRIAL_PASSED, "a rehearsal accepts nothing")}


def test_a_host_that_failed_names_step_device_quantity_and_how_many_more(tmp_path: Path, rehearsal: Plan) -> None:
    run = runs.home(tmp_path / "reports", rehearsal)
    answered(tmp_path, run, rehearsal, wrong=3.0)
    one = the(run)
    assert (one.reached, one.decision) == ("judged", Decision.TRIAL_FAILED)
    assert one.reason == "step gemm cpu1: gemm.wrong: 3 count; needs x <= 0 count"


def test_a_failure_is_named_before_what_is_incomplete(tmp_path: Path, rehearsal: Plan) -> None:
    run = runs.home(tmp_path / "reports", rehearsal)
    answers = runs.answers(rehearsal)
    answers["idle"] = []
    answers["allreduce"].append(
        Reading("wrong", 1.0, runs.answers(rehearsal)["allreduce"][0].point, "cpu2", runs.ISSUED)
    )  # type: ignore[union-attr]
    runs.write(tmp_path / "node1", rehearsal, answers)
    runs.bring(run, "node1", tmp_path / "node1")
    one = the(run)
    assert one.reason.startswith("step allreduce cpu2 mib=")
    assert "more)" in one.reason
    verdicts = [finding.verdict for finding in one.findings()]
    order = [Verdict.FAIL, Verdict.INCOMPLETE, Verdict.PASS, Verdict.NOT_APPLICABLE]
    assert verdicts == sorted(verdicts, key=order.index)


def test_hardware_that_failed_is_rejected_and_a_pass_without_reference_numbers_is_conditional(tmp_path: Path) -> None:
    asked = runs.hardware(count=2, level="standard")
    good, bad = (of_host(runs.plan(asked), name) for name in ("good", "bad"))
    run = runs.home(tmp_path / "reports", good, bad)
    answered(tmp_path, run, good)
    answered(tmp_path, run, bad, wrong=1.0)
    assert [(one.expected.host, str(one.decision)) for one in give(run, NOW)] == [
        ("bad", "rejected"),
        ("good", "conditional"),
    ]


def phases(run: Run, host: str, *names: str) -> None:
    for index, name in enumerate(names):
        run.note(runs.ISSUED + index, "phase", host, phase=name)


def watched(run: Run, plan: Plan, after: float = 0.5) -> None:
    """The controller waited until the deadline, and a little more."""
    run.note(plan.deadline + after, "watched", until=plan.deadline + after)


@pytest.mark.parametrize(
    ("seen", "late", "reached", "decision"),
    [
        ((), False, "not_started", "untested"),
        (("absent",), False, "not_started", "untested"),
        (("starting",), False, "uncollected", "undecided"),
        (("running",), False, "uncollected", "undecided"),
        (("running",), True, "lost", "rejected"),
        (("running", "vanished"), False, "vanished", "undecided"),
        (("running", "vanished"), True, "vanished", "undecided"),
        (("running", "stalled"), True, "lost", "rejected"),
        (("running", "finished"), False, "uncollected", "undecided"),
        (("running", "finished"), True, "uncollected", "undecided"),
    ],
)
def test_how_far_a_host_came_without_a_result(
    tmp_path: Path, bare_metal: Plan, seen: tuple[str, ...], late: bool, reached: str, decision: str
) -> None:
    run = runs.home(tmp_path, bare_metal)
    phases(run, "node1", *seen)
    if late:
        watched(run, bare_metal)
    one = the(run, bare_metal.deadline + (1 if late else 0))
    assert (one.reached, str(one.decision)) == (reached, decision)
    assert not one.decision.good
    assert one.reason


def test_a_host_that_was_never_reached_is_untested_and_says_how_it_was_lost(tmp_path: Path) -> None:
    run = Run.of(tmp_path, runs.RUN)
    run.expect([Expected("node1", "hardware", "standard", "bare_metal", ["training", "inference"])])
    run.note(1.0, "unreachable", "node1", task="Look at the host", why="No route to host")
    one = the(run)
    assert (one.reached, one.decision) == ("never_reached", Decision.UNTESTED)
    assert one.reason.endswith("(Look at the host: No route to host)")
    assert set(one.by_profile) == {"training", "inference"}


def test_a_host_that_was_refused_is_untested_and_says_why(tmp_path: Path) -> None:
    run = Run.of(tmp_path, runs.RUN)
    run.expect([Expected("node1", "hardware", "standard", "bare_metal", ["training"])])
    run.note(1.0, "refused", "node1", why="its GPUs are in use")
    one = the(run)
    assert (one.reached, one.decision) == ("not_started", Decision.UNTESTED)
    assert "its GPUs are in use" in one.reason


def test_a_host_that_went_away_after_its_plan_was_sent_is_not_called_never_reached(
    tmp_path: Path, bare_metal: Plan
) -> None:
    run = runs.home(tmp_path, bare_metal)
    run.note(1.0, "unreachable", "node1", task="Start", why="timed out")
    assert the(run).reached == "not_started"


def test_a_refused_result_is_undecided_and_says_what_does_not_hold(tmp_path: Path, bare_metal: Plan) -> None:
    run = runs.home(tmp_path / "reports", bare_metal)
    folder = answered(tmp_path, run, bare_metal)
    runs.edit(folder / "result.json", lambda document: document.update(nonce="0" * 32))
    seal(folder)
    runs.bring(run, "node1", folder)
    one = the(run)
    assert (one.reached, one.decision) == ("refused", Decision.UNDECIDED)
    assert one.reason.startswith("result refused: result.json: nonce is")


@pytest.mark.parametrize(
    ("wrong", "seen", "reached", "decision"),
    [
        (1.0, ("running",), "judged", "rejected"),
        (0.0, ("running",), "uncollected", "undecided"),
        (0.0, ("running", "vanished"), "vanished", "undecided"),
        (0.0, (), "judged", "undecided"),
    ],
)
def test_without_a_result_the_evidence_still_counts_against_a_host(
    tmp_path: Path, bare_metal: Plan, wrong: float, seen: tuple[str, ...], reached: str, decision: str
) -> None:
    run = runs.home(tmp_path / "reports", bare_metal)
    folder = answered(tmp_path, run, bare_metal, wrong)
    (folder / "result.json").unlink()
    seal(folder)
    runs.bring(run, "node1", folder)
    phases(run, "node1", *seen)
    one = the(run)
    assert (one.reached, str(one.decision)) == (reached, decision)


def test_a_profile_that_the_plan_does_not_have_is_undecided(tmp_path: Path, rehearsal: Plan) -> None:
    run = runs.home(tmp_path / "reports", rehearsal)
    (run.folder / "expected.json").unlink()
    run.expect([runs.expected(rehearsal, profiles=["training", "inference"])])
    answered(tmp_path, run, rehearsal)
    one = the(run)
    assert one.reached == "refused"
    assert {decided.decision for decided in one.by_profile.values()} == {Decision.UNDECIDED}
    assert "profiles is ['training']" in one.reason


def test_a_host_of_whom_nothing_was_demanded_is_untested(tmp_path: Path) -> None:
    run = Run.of(tmp_path, runs.RUN)
    run.expect([Expected("node1", "hardware", "standard", "bare_metal", [])])
    one = the(run)
    assert (one.decision, one.reason) == (Decision.UNTESTED, "nothing was demanded of it")


def test_every_expected_host_has_one_row_whatever_happened(tmp_path: Path, bare_metal: Plan) -> None:
    names = ["good", "bad", "cut", "forged", "garbage", "lost", "refused", "unread", "away", "quiet"]
    plans = [of_host(bare_metal, name) for name in names if name not in ("refused", "away")]
    run = runs.home(tmp_path / "reports", *plans)
    run.expect([dataclasses.replace(runs.expected(bare_metal), host=name) for name in ("refused", "away")])
    by_name = {plan.host: plan for plan in plans}
    answered(tmp_path, run, by_name["good"])
    answered(tmp_path, run, by_name["bad"], wrong=1.0)
    answered(tmp_path, run, by_name["unread"])
    (run.host("unread") / "plan.json").write_bytes(b"\x00")
    for name, change in (("cut", {"ended_as": "aborted"}), ("forged", {"host": "good"})):
        folder = answered(tmp_path, run, by_name[name])
        runs.edit(folder / "result.json", lambda document, change=change: document.update(change))
        seal(folder)
        runs.bring(run, name, folder)
    run.incoming("garbage").write_bytes(b"garbage")
    phases(run, "lost", "running", "vanished")
    run.note(9.0, "refused", "refused", why="in use")
    run.note(9.0, "unreachable", "away", why="no route")
    found = {one.expected.host: (one.reached, str(one.decision)) for one in give(run, NOW)}
    assert found == {
        "good": ("judged", "trial passed"),
        "bad": ("judged", "rejected"),
        "cut": ("judged", "trial passed"),
        "forged": ("refused", "undecided"),
        "garbage": ("refused", "undecided"),
        "lost": ("vanished", "undecided"),
        "refused": ("not_started", "untested"),
        "unread": ("refused", "undecided"),
        "away": ("never_reached", "untested"),
        "quiet": ("not_started", "untested"),
    }


@pytest.mark.parametrize("count", [1, 4])
def test_hosts_that_are_all_lost_are_all_accounted_for(tmp_path: Path, bare_metal: Plan, count: int) -> None:
    run = runs.home(tmp_path, *(of_host(bare_metal, f"node{index}") for index in range(count)))
    for index in range(count):
        phases(run, f"node{index}", "running")
    watched(run, bare_metal)
    accounts = give(run, bare_metal.deadline + 1)
    assert summary(accounts) == {"rejected": count}
    assert len({one.expected.host for one in accounts}) == count
    assert not any(one["good"] for one in json.loads(told(accounts)).values())


def test_one_hosts_trouble_is_not_told_of_another(tmp_path: Path, bare_metal: Plan) -> None:
    run = runs.home(tmp_path, of_host(bare_metal, "a"), of_host(bare_metal, "b"))
    phases(run, "a", "running", "vanished")
    run.note(5.0, "failed", "a", task="Wait", why="gone")
    found = {one.expected.host: one for one in give(run, NOW)}
    assert found["a"].trouble == ["Wait: gone"]
    assert (found["b"].trouble, found["b"].reached) == ([], "not_started")


def test_a_broken_journal_still_leaves_an_account(tmp_path: Path, rehearsal: Plan) -> None:
    run = runs.home(tmp_path / "reports", rehearsal)
    answered(tmp_path, run, rehearsal)
    phases(run, "node1", "running", "finished")
    run.journal.write_bytes(b"garbage\n" + run.journal.read_bytes())
    assert the(run).decision is Decision.TRIAL_PASSED


def test_the_worst_comes_first_and_then_the_rack(tmp_path: Path) -> None:
    lost = of_host(runs.plan(runs.hardware(count=2)), "z")
    run = runs.home(tmp_path, lost)
    run.expect([
        Expected(name, "hardware", "standard", "bare_metal", ["training"], rack=rack)
        for name, rack in (("c", "r1"), ("a", "r2"), ("b", "r1"))
    ])  # fmt: skip
    phases(run, "z", "running")
    watched(run, lost)
    assert [one.expected.host for one in give(run, lost.deadline + 1)] == ["z", "b", "c", "a"]


def test_what_the_last_task_reads_says_good_only_of_the_good(tmp_path: Path, rehearsal: Plan) -> None:
    good, bad = of_host(rehearsal, "good"), of_host(rehearsal, "bad")
    run = runs.home(tmp_path / "reports", good, bad)
    answered(tmp_path, run, good)
    answered(tmp_path, run, bad, wrong=1.0)
    found = json.loads(told(give(run, NOW)))
    assert {name: (one["decision"], one["good"]) for name, one in found.items()} == {
        "good": ("trial passed", True),
        "bad": ("trial failed", False),
    }
    assert "gemm.wrong" in found["bad"]["reason"]


def test_a_run_that_was_stopped_is_undecided(tmp_path: Path, rehearsal: Plan) -> None:
    run = runs.home(tmp_path / "reports", rehearsal)
    runs.write(
        tmp_path / "node1", rehearsal,
        fared=lambda one: dataclasses.replace(one, status=Status.ABORTED, why="stopped on request"),
    )  # fmt: skip
    runs.bring(run, "node1", tmp_path / "node1")
    one = the(run)
    assert one.decision is Decision.UNDECIDED
    assert "stopped on request" in one.reason
