"""Waivers in a run: what failed stays failed, in red, with its person; nothing else is waived, nor in silence."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from gpuburn import strict, waiver
from gpuburn.controller import waived, whole_run
from gpuburn.controller.account import Account
from gpuburn.controller.named import Part
from gpuburn.controller.reach import Way
from gpuburn.controller.run import POLICY, WAIVERS, Expected, Run
from gpuburn.finding import Verdict
from gpuburn.policy import Decision
from gpuburn.strict import Refused
from gpuburn.waiver import Waiver
from tests.controller.deliveries.made import FIRST, NOW, SECOND, lenient, reported, tried
from tests.controller.deliveries.test_delivery import gpuburn  # noqa: F401  (a fixture)

SLOW = Waiver("W-1", "A. Person", "gemm.tflops", ("a-gpu1",), "agreed <b>in mail 7</b>", "2026-01-01", "2026-01-15")


def run_with(tmp_path: Path, hosts: dict[str, str], *waivers: Waiver, **changed: Any) -> tuple[Run, dict[str, Account]]:
    run = tried(tmp_path, FIRST, hosts, waiver.dump(waivers), **changed)
    return run, reported(run)


def other(**changed: Any) -> Waiver:
    return dataclasses.replace(SLOW, **changed)


def test_a_waived_fail_stays_a_fail_and_the_decision_is_conditional(tmp_path: Path) -> None:
    _, found = run_with(tmp_path, {"a": "slow", "b": "slow"}, SLOW)
    a, b = found["a"], found["b"]
    assert (a.decision, b.decision) == (Decision.CONDITIONAL, Decision.REJECTED)
    assert a.reason == "a failed demand was waived by a named person (W-1 by A. Person, until 2026-01-15)"
    [condition] = a.by_profile["training"].conditions
    assert condition.due == "2026-01-15", "due when the waiver expires, before the policy's thirty days"
    [(finding, used)] = a.waived
    assert (finding.about, finding.subject, finding.verdict, used) == ("gemm.tflops", "gpu1", Verdict.FAIL, SLOW)
    assert finding in a.findings()


def test_every_waiver_that_is_used_is_shown_in_red_with_its_person(tmp_path: Path) -> None:
    run, _ = run_with(tmp_path, {"a": "slow"}, SLOW)
    for page in (run.folder / "index.html", run.host("a") / "index.html"):
        text = page.read_text()
        assert '<tr class="fail">' in text and '<h2 class="fail">Waive' in text
        for said in ("W-1", "A. Person", "agreed &lt;b&gt;in mail 7&lt;/b&gt;", "2026-01-15"):
            assert said in text
    document = json.loads((run.folder / "report.json").read_text())
    [told] = document["waivers"]
    assert (told["id"], told["person"], told["state"], told["hosts"]) == ("W-1", "A. Person", "used", ["a"])
    [host] = document["hosts"]
    assert host["waived"][0]["person"] == "A. Person" and host["waived"][0]["subject"] == "gpu1"
    [failed] = [one for one in host["findings"] if one["verdict"] == "fail"]
    assert failed["waived"].startswith("W-1 by A. Person, until 2026-01-15")
    assert "fail" in (run.folder / "findings.csv").read_text()


@pytest.mark.parametrize(
    ("host", "wrong", "state", "why"),
    [
        ("slow", {"expires": "2026-01-01", "date": "2025-01-01"}, "used", ""),
        ("slow", {"expires": "2025-12-31", "date": "2025-01-01"}, "refused", "expired on 2025-12-31; the run is of"),
        ("slow", {"date": "2026-01-02"}, "refused", "not valid before 2026-01-02"),
        ("slow", {"serials": ("b-gpu1",)}, "unused", "a gpu1: failed on a part whose serial is not among the waiver's"),
        ("slow", {"serials": ("a-gpu0",)}, "unused", "a gpu1: failed on a part"),
        ("slow", {"serials": ("a-gpu1-uuid",)}, "used", ""),
        ("slow", {"code": "fleet.peer"}, "unused", "its code is limit.failed, waived is fleet.peer"),
        ("slow", {"code": "limit.failed"}, "used", ""),
        ("slow", {"about": "gemm.wrong"}, "unused", "nothing failed about gemm.wrong"),
        ("pass", {}, "unused", "nothing failed about gemm.tflops"),
        ("pass", {"serials": ("z",)}, "unused", "nothing failed about gemm.tflops; none of its serials is in this run"),
        ("away", {}, "unused", "nothing failed about gemm.tflops; none of its serials is in this run"),
    ],
)  # fmt: skip
def test_a_waiver_that_does_not_hold_or_fit_waives_nothing_and_is_listed(
    tmp_path: Path, host: str, wrong: dict[str, Any], state: str, why: str
) -> None:
    run, found = run_with(tmp_path, {"a": host}, other(**wrong))
    [told] = waived.told(waived.book(run), list(found.values()))
    assert told.state == state and why in told.why
    if host == "slow":
        assert (found["a"].decision is Decision.CONDITIONAL) is (state == "used")
    assert told.state in (run.folder / "index.html").read_text()


def test_what_is_missing_is_not_waived(tmp_path: Path) -> None:
    every = [other(id=f"W-{about}", about=about, serials=("a-gpu1", "b-gpu1")) for about in sorted(waiver.abouts())]
    run, found = run_with(tmp_path, {"a": "mute", "b": "away"}, *every)
    assert (found["a"].decision, found["b"].decision) == (Decision.UNDECIDED, Decision.UNTESTED)
    assert not found["a"].waived
    why = {one.waiver.id: one.why for one in waived.told(waived.book(run), list(found.values()))}
    assert why["W-gemm.tflops"] == "a gpu1: is incomplete; only what failed can be waived"


def test_one_waiver_does_not_hide_another_fail(tmp_path: Path) -> None:
    _, found = run_with(tmp_path, {"a": "slow fail"}, SLOW)
    assert found["a"].decision is Decision.REJECTED
    assert found["a"].reason == "step gemm gpu1: gemm.wrong: 1 count; needs x <= 0 count"
    assert len(found["a"].waived) == 1


def test_a_policy_that_knows_no_waiver_rejects_or_accepts_by_its_own_rows_only(tmp_path: Path) -> None:
    _, found = run_with(tmp_path, {"a": "slow"}, SLOW, level="quick")
    assert found["a"].decision is Decision.TRIAL_PASSED, (
        "quick may reject, never accept; nothing was accepted by a waiver"
    )


def test_a_file_of_waivers_that_was_changed_after_the_start_waives_nothing(tmp_path: Path) -> None:
    run = tried(tmp_path, FIRST, {"a": "slow"}, waiver.dump([SLOW]))
    run.note(NOW, "expected", waivers=waiver.digest([SLOW]))
    assert reported(run)["a"].decision is Decision.CONDITIONAL
    (run.folder / WAIVERS).write_text(waiver.dump([other(reason="another")]))
    assert reported(run)["a"].decision is Decision.REJECTED
    assert "is not the one that run" in (run.folder / "index.html").read_text()
    (run.folder / WAIVERS).write_text("nonsense: [")
    assert reported(run)["a"].decision is Decision.REJECTED


def test_a_file_of_waivers_that_came_after_a_start_without_any_waives_nothing(tmp_path: Path) -> None:
    run = tried(tmp_path, FIRST, {"a": "slow"})
    run.note(NOW, "expected", **whole_run.Given(run.policy(), []).digests())
    (run.folder / WAIVERS).write_text(waiver.dump([SLOW]))
    assert reported(run)["a"].decision is Decision.REJECTED
    assert f"no waiver is applied: {WAIVERS} came later" in (run.folder / "index.html").read_text()


def test_a_policy_that_came_after_a_start_by_the_packages_own_judges_nobody(tmp_path: Path) -> None:
    run = tried(tmp_path, FIRST, {"a": "pass"}, strictly=True)
    run.note(NOW, "expected", **whole_run.Given(run.policy(), []).digests())
    (run.folder / POLICY).write_text(lenient())
    with pytest.raises(Refused, match="put the policy back that it began with"):
        reported(run)


def test_an_older_journal_that_names_no_waivers_began_without_any(tmp_path: Path) -> None:
    run = tried(tmp_path, FIRST, {"a": "slow"})
    run.note(NOW, "expected", policy=run.policy().digest)
    (run.folder / WAIVERS).write_text(waiver.dump([SLOW]))
    assert reported(run)["a"].decision is Decision.REJECTED


def test_waivers_that_were_taken_away_after_the_start_are_told(tmp_path: Path) -> None:
    run = tried(tmp_path, FIRST, {"a": "slow"}, waiver.dump([SLOW]))
    run.note(NOW, "expected", waivers=waiver.digest([SLOW]))
    (run.folder / WAIVERS).unlink()
    assert "is not the one that run" in waived.book(run).trouble


def test_a_chassis_names_no_host_since_it_may_hold_several() -> None:
    parts = [Part("host", kind, kind) for kind in ("serial", "board", "chassis", "boot")]
    way = Way(Expected("a", "hardware", "standard", "bare_metal", []), "judged",
              judged=SimpleNamespace(parts=parts))  # type: ignore[arg-type]  # fmt: skip
    assert waived.serials(way, "host") == {"serial", "board"}


def test_generate_lists_the_serials_of_what_fails_and_says_how_many(tmp_path: Path, gpuburn: Any) -> None:  # noqa: F811
    tried(tmp_path, FIRST, {"a": "slow", "b": "slow", "c": "pass", "d": "fail"})
    call = ("waiver", "generate", FIRST, "--about", "gemm.tflops", "--by", "A. Person", "--reason", "mail 7",
            "--expires", "2999-12-31", "--reports", tmp_path / "reports")  # fmt: skip
    status, out, err = gpuburn(*call)
    assert status == 0 and "2 serial(s), 2 part(s) that fail gemm.tflops" in err
    (tmp_path / "w.yml").write_text(out)
    [one] = waiver.load(tmp_path / "w.yml")
    assert (one.serials, one.person, one.about) == (("a-gpu1", "b-gpu1"), "A. Person", "gemm.tflops")
    assert gpuburn(*call, "--host", "b*", "--id", "W-b", "--out", tmp_path / "w.yml")[0] == 0
    assert [(w.id, w.serials) for w in waiver.load(tmp_path / "w.yml")][1] == ("W-b", ("b-gpu1",))
    status, out, _ = gpuburn("waiver", "check", tmp_path / "w.yml")
    assert status == 0 and "W-b" in out and "1 serial(s)  A. Person" in out
    status, _, err = gpuburn(*call, "--id", "W-b", "--out", tmp_path / "w.yml")
    assert status == 3 and "there twice" in err


@pytest.mark.parametrize(
    ("more", "says"),
    [
        (("--about", "gemm.tflop"), "did you mean 'gemm.tflops'"),
        (("--about", "memory_bandwidth.reads"), "--about"),
        (("--host", "nobody"), "nothing fails gemm.tflops there"),
        (("--rack", "r9"), "nothing fails gemm.tflops there"),
        (("--code", "fleet.peer"), "nothing fails gemm.tflops there"),
        (("--by", " "), "'person' is empty"),
        (("--reason", ""), "'reason' is empty"),
        (("--expires", "2001-01-01"), "wanted is a day after its date"),
        (("--expires", "soon"), "wanted is a day such as"),
    ],
)
def test_a_waiver_that_would_be_refused_is_not_generated(
    tmp_path: Path, gpuburn: Any, more: tuple[str, ...], says: str  # noqa: F811
) -> None:  # fmt: skip
    tried(tmp_path, FIRST, {"a": "slow"})
    call = {"--about": "gemm.tflops", "--by": "A", "--reason": "x", "--expires": "2999-12-31", **dict([more])}
    status, out, err = gpuburn("waiver", "generate", FIRST, *(part for pair in call.items() for part in pair),
                               "--reports", tmp_path / "reports")  # fmt: skip
    assert (status, out) == (3, "") and says in err and err.count("\n") == 1


def test_a_generated_waiver_serves_the_next_run(tmp_path: Path, gpuburn: Any) -> None:  # noqa: F811
    reported(tried(tmp_path, FIRST, {"a": "slow"}))
    made = waiver.dump([other(date="2026-01-02")])
    found = reported(tried(tmp_path, SECOND, {"a": "slow"}, made))
    assert found["a"].decision is Decision.CONDITIONAL
    owed = [c.condition for c in found["a"].by_profile["training"].conditions]
    assert len(owed) == 2, "what was waived is owed, and the cause of the first failure is, too"
    document = json.loads((tmp_path / "reports" / SECOND / "report.json").read_text())
    assert document["hosts"][0]["attempt"] == 2


def test_a_run_without_waivers_says_so_in_its_document_alone(tmp_path: Path) -> None:
    run = tried(tmp_path, FIRST, {"a": "pass"})
    reported(run)
    assert json.loads((run.folder / "report.json").read_text())["waivers"] == []
    assert "Waivers" not in (run.folder / "index.html").read_text()
    assert strict.digest(b"")


def test_a_pair_has_the_serials_of_both_its_devices(tmp_path: Path) -> None:
    judged = SimpleNamespace(parts=[Part(f"gpu{number}", "serial", f"s{number}") for number in range(3)])
    way = SimpleNamespace(judged=judged)
    assert waived.serials(way, "gpu0>gpu2") == {"s0", "s2"}  # type: ignore[arg-type]
    assert waived.serials(way, "gpu1") == {"s1"}  # type: ignore[arg-type]
