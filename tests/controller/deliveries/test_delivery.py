"""A delivery over its runs: what the second knows of the first, who stands how, who is accepted with which serials."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
import runs

from gpuburn import strict
from gpuburn.controller.__main__ import main
from gpuburn.controller.deliveries import acceptance, history, kept, overview, words
from gpuburn.controller.run import Run
from gpuburn.journal import GENESIS
from gpuburn.strict import Refused
from tests.controller.deliveries import made
from tests.controller.deliveries.made import FIRST, FOURTH, LOT, NOW, SECOND, THIRD, reported, tried


@pytest.fixture
def gpuburn(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Any:
    """Call the program as the shell does; (exit status, output, errors)."""

    def call(*arguments: object) -> tuple[Any, str, str]:
        monkeypatch.setattr("sys.stdin", io.StringIO("{}"))
        with pytest.raises(SystemExit) as ended:
            main([str(one) for one in arguments])
        said = capsys.readouterr()
        return ended.value.code, said.out, said.err

    return call


def decisions(delivery: overview.Delivery) -> dict[str, str]:
    return {one.host: str(one.decision) for one in delivery.hosts}


def test_the_second_run_knows_that_the_first_failed(tmp_path: Path) -> None:
    first = reported(tried(tmp_path, FIRST, {"a": "pass", "b": "fail"}))
    assert {host: str(one.decision) for host, one in first.items()} == {"a": "accepted", "b": "rejected"}
    second = reported(tried(tmp_path, SECOND, {"a": "pass", "b": "pass"}))
    assert {host: str(one.decision) for host, one in second.items()} == {"a": "accepted", "b": "conditional"}
    assert "nobody has recorded" in second["b"].reason
    [condition] = second["b"].by_profile["training"].conditions
    assert (condition.owner, condition.due) == ("the vendor", "2026-02-01")
    page = (Run.of(tmp_path / "reports", SECOND).host("b") / "index.html").read_text()
    assert "2 of delivery lot-1" in page and "superseded by attempt 2" in page and FIRST in page
    document = json.loads((tmp_path / "reports" / SECOND / "report.json").read_text())
    [b] = [one for one in document["hosts"] if one["host"] == "b"]
    assert (b["attempt"], b["attempts"][0]["decision"], b["attempts"][1]["note"]) == (2, "rejected", "decides")


def test_a_run_without_a_delivery_judges_no_other_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tried(tmp_path, FIRST, {"a": "fail"}, delivery="")
    second = tried(tmp_path, SECOND, {"a": "pass"}, delivery="")
    monkeypatch.setattr(history, "runs", lambda *_: pytest.fail("read"))
    monkeypatch.setattr(history, "load", lambda *_: pytest.fail("read"))
    reported(second)
    assert not (second.folder / kept.FILE).exists()


def test_another_delivery_and_a_later_run_say_nothing_of_this_one(tmp_path: Path) -> None:
    tried(tmp_path, FIRST, {"a": "fail"}, delivery="lot-2")
    second = tried(tmp_path, SECOND, {"a": "pass"})
    tried(tmp_path, THIRD, {"a": "fail"})
    assert str(reported(second)["a"].decision) == "accepted"


def test_a_host_in_two_deliveries_has_a_history_in_each(tmp_path: Path) -> None:
    first = tried(tmp_path, FIRST, {"a": "fail", "b": "pass"})
    (first.folder / "expected.json").unlink()
    plans = [made.plan(FIRST, host, delivery=lot, policy=first.policy()) for host, lot in (("a", "lot-2"), ("b", LOT))]
    first.expect([runs.expected(one) for one in plans])
    for one in plans:
        (first.host(one.host) / "plan.json").write_bytes(strict.encode(one))
        runs.write(tmp_path / one.host, one, made.answers(one, "fail"))
        runs.bring(first, one.host, tmp_path / one.host)
    first.note(NOW, "expected", expected=first.expected_digest())
    found = reported(tried(tmp_path, SECOND, {"a": "pass", "b": "pass"}))
    assert {host: str(one.decision) for host, one in found.items()} == {"a": "conditional", "b": "conditional"}
    assert found["a"].history and len(found["a"].history.lines) == 1, "its own history has one attempt"
    assert f"failed in run {FIRST}, which belongs to delivery lot-2" in found["a"].reason
    assert found["b"].history and len(found["b"].history.lines) == 2


def test_a_recorded_cause_or_two_further_full_passes_explain_a_fail(tmp_path: Path, gpuburn: Any) -> None:
    reported(tried(tmp_path, FIRST, {"a": "fail", "b": "fail"}))
    second = tried(tmp_path, SECOND, {"a": "pass", "b": "pass"})
    where = ("--reports", tmp_path / "reports")
    assert gpuburn("cause", "a", "--run", FIRST, "--by", "V. Endor", "--reason", "riser reseated", *where)[0] == 0
    found = reported(second)
    assert {host: str(one.decision) for host, one in found.items()} == {"a": "accepted", "b": "conditional"}
    assert found["a"].history and found["a"].history.lines[0].attempt.cause == "riser reseated (V. Endor)"
    reported(tried(tmp_path, THIRD, {"b": "pass"}))
    assert str(reported(tried(tmp_path, FOURTH, {"b": "pass"}))["b"].decision) == "accepted"
    delivery = overview.of(tmp_path / "reports", LOT, NOW)
    assert decisions(delivery) == {"a": "accepted", "b": "accepted"}
    assert (delivery.good, delivery.first_pass, delivery.attempts) == (2, 0, 6)


def test_a_swapped_part_voids_the_earlier_pass(tmp_path: Path) -> None:
    reported(tried(tmp_path, FIRST, {"a": "pass", "b": "pass"}))
    reported(tried(tmp_path, SECOND, {"a": "swapped away", "b": "swapped"}))
    delivery = overview.of(tmp_path / "reports", LOT, NOW)
    [b] = [one for one in delivery.hosts if one.host == "b"]
    assert b.lines[0].note.startswith("void: in attempt 2, gpu1 serial was b-gpu1, is b-gpu1-new")
    assert b.decides == 2 and b.lines[1].changed[0] == "part: gpu1 serial was b-gpu1, is b-gpu1-new"


def test_laxer_criteria_never_supersede(tmp_path: Path) -> None:
    reported(tried(tmp_path, FIRST, {"a": "fail"}))
    reported(tried(tmp_path, SECOND, {"a": "pass"}, level="quick"))
    delivery = overview.of(tmp_path / "reports", LOT, NOW)
    assert decisions(delivery) == {"a": "rejected"}
    assert delivery.hosts[0].lines[1].note == "never supersedes, its criteria are laxer: level was standard, is quick"


def test_what_was_kept_is_what_is_judged_again_and_only_as_long_as_nothing_happens(tmp_path: Path) -> None:
    first = tried(tmp_path, FIRST, {"a": "pass", "b": "fail", "c": "away"})
    accounts = reported(first)
    said = history.of_accounts(first, accounts.values())
    loaded = history.load(first, NOW, lambda *_: pytest.fail("judged again"))
    assert loaded.by_host == said
    lines = len(first.entries())
    reported(first)
    assert len(first.entries()) == lines, "the same report is not noted twice"
    first.note(NOW, "phase", "c", phase="running")
    again: list[Any] = []
    history.load(first, NOW, lambda *_: again.append(1) or [])  # type: ignore[func-returns-value]
    assert again


@pytest.mark.parametrize("change", ["digest", "version", "gone"])
def test_attempts_that_are_not_what_the_journal_says_are_judged_again(tmp_path: Path, change: str) -> None:
    first = tried(tmp_path, FIRST, {"a": "fail"})
    reported(first)
    file = first.folder / kept.FILE
    if change == "digest":
        file.write_bytes(file.read_bytes().replace(b'"fail"', b'"pass"'))
    elif change == "version":
        file.write_bytes(
            file.read_bytes().replace(b'"version":', b'"version":"0", "was":').replace(b'"fail"', b'"pass"')
        )
        first.note(NOW, kept.EVENT, sha256=strict.digest(file.read_bytes()))
    else:
        file.unlink()
    assert decisions(overview.of(tmp_path / "reports", LOT, NOW)) == {"a": "rejected"}


def test_a_host_that_may_still_come_home_is_not_kept(tmp_path: Path) -> None:
    first = tried(tmp_path, FIRST, {"a": "away"})
    first.note(NOW, "phase", "a", phase="running")
    deadline = first.plan("a").deadline  # type: ignore[union-attr]
    reported(first, deadline - 1)
    assert not (first.folder / kept.FILE).exists()
    assert decisions(overview.of(tmp_path / "reports", LOT, deadline - 1)) == {"a": "undecided"}
    first.note(deadline, "watched", until=deadline)
    assert decisions(overview.of(tmp_path / "reports", LOT, deadline + 1)) == {"a": "rejected"}


def test_a_run_that_cannot_be_read_is_told_and_nothing_is_accepted(tmp_path: Path, gpuburn: Any) -> None:
    first = tried(tmp_path, FIRST, {"a": "fail"})
    second = tried(tmp_path, SECOND, {"a": "pass"})
    (first.folder / "expected.json").write_text('[{"delivery": "lot-1", "host": ]')
    assert any("cannot be read" in line for line in reported(second)["a"].trouble)
    where = ("--reports", tmp_path / "reports")
    status, out, _ = gpuburn("delivery", "show", LOT, *where)
    assert status == 2 and f"run {FIRST} cannot be read" in out
    status, _, err = gpuburn("delivery", "accept", LOT, "--by", "A", "--reason", "PO 17", *where)
    assert status == 3 and "nothing is accepted" in err


def test_show_and_list_tell_the_whole_delivery(tmp_path: Path, gpuburn: Any) -> None:
    reported(tried(tmp_path, FIRST, {"a": "pass", "b": "fail", "c": "away"}))
    reported(tried(tmp_path, SECOND, {"b": "pass"}))
    where = ("--reports", tmp_path / "reports")
    assert gpuburn("delivery", "list", *where)[1] == f"{LOT:32} 2 run(s), 3 host(s)\n"
    status, out, _ = gpuburn("delivery", "show", LOT, *where)
    assert status == 2
    assert "yield 2 of 3, 66.7%" in out and "first-pass yield 1 of 3, 33.3%" in out and "4 attempts" in out
    assert "c: untested: nothing ran on the host" in out
    assert "b: attempt 1 failed (step gemm gpu1: gemm.wrong: 1 count; needs x <= 0 count): no cause is recorded" in out
    assert (
        "the cause of the earlier failure is recorded, or two further full runs pass (the vendor, until 2026-02-01)"
        in out
    )
    status, out, _ = gpuburn("delivery", "show", LOT, "--json", *where)
    document = json.loads(out)
    assert (document["good"], document["first_pass"], document["hosts_total"]) == (2, 1, 3)
    assert [one["host"] for one in document["hosts"]] == ["c", "b", "a"]


@pytest.mark.parametrize(
    ("hosts", "status"),
    [
        ({"a": "pass"}, 0),
        ({"a": "pass", "b": "fail"}, 1),
        ({"a": "pass", "b": "away"}, 2),
        ({"a": "fail", "b": "away"}, 1),
    ],
)
def test_the_exit_status_is_that_of_the_decisions(
    tmp_path: Path, gpuburn: Any, hosts: dict[str, str], status: int
) -> None:
    reported(tried(tmp_path, FIRST, hosts))
    assert gpuburn("delivery", "show", LOT, "--reports", tmp_path / "reports")[0] == status


@pytest.mark.parametrize("name", ["../x", "", ".", "a/b", "lot-9"])
def test_a_delivery_that_is_none_is_refused(tmp_path: Path, gpuburn: Any, name: str) -> None:
    reported(tried(tmp_path, FIRST, {"a": "pass"}))
    for command in (("show",), ("accept", "--by", "A. Person", "--reason", "PO 17")):
        status, out, err = gpuburn("delivery", command[0], name, *command[1:], "--reports", tmp_path / "reports")
        assert (status, out, err.count("\n")) == (3, "", 1)
    assert not (tmp_path / "reports" / "deliveries").exists()


def test_acceptances_list_serials_once_and_chain(tmp_path: Path, gpuburn: Any) -> None:
    reported(tried(tmp_path, FIRST, {"a": "pass", "b": "fail", "c": "away", "d": "fail"}))
    where = ("--reports", tmp_path / "reports")
    accept = ("delivery", "accept", LOT, "--by", "A. Person", "--reason", "PO 17", *where)
    assert gpuburn(*accept)[0] == 0
    [first] = acceptance.read(tmp_path / "reports", LOT)
    assert ([one.host for one in first.accepted], first.conditional, first.previous) == (["a"], [], GENESIS)
    assert {"a-gpu0", "a-gpu1", "a-gpu0-uuid"} <= set(first.accepted[0].parts.values())
    assert any(name.startswith("host ") for name in first.accepted[0].parts)
    assert sorted(first.held) == ["b", "c", "d"] and "gemm.wrong" in first.held["b"]
    status, _, err = gpuburn(*accept)
    assert status == 3 and "no host is newly acceptable" in err

    reported(tried(tmp_path, SECOND, {"b": "pass", "c": "pass"}))
    assert gpuburn(*accept)[0] == 0
    first, second = acceptance.read(tmp_path / "reports", LOT)
    assert ([one.host for one in second.accepted], [one.host for one in second.conditional]) == (["c"], ["b"])
    assert second.conditional[0].conditions and second.number == 2
    assert gpuburn(*accept)[0] == 3, "what is still conditional is not new"
    place = tmp_path / "reports" / "deliveries" / LOT
    assert second.previous == strict.digest((place / "acceptance-001.json").read_bytes())
    page = (place / "acceptance-002.html").read_text()
    assert "addendum 2" in page and "c-gpu1" in page and "Accepted on a condition" in page and "a-gpu1" not in page

    for run in (THIRD, FOURTH):  # two further passes: what was conditional is accepted, by an addendum
        reported(tried(tmp_path, run, {"b": "pass"}))
    assert gpuburn(*accept)[0] == 0
    third = acceptance.read(tmp_path / "reports", LOT)[2]
    assert ([one.host for one in third.accepted], third.conditional) == (["b"], [])


def test_an_acceptance_that_was_changed_or_taken_away_is_found(tmp_path: Path) -> None:
    reports = tmp_path / "reports"
    reported(tried(tmp_path, FIRST, {"a": "pass", "b": "away"}))
    acceptance.accept(reports, overview.of(reports, LOT, NOW), "A", "PO 17", NOW)
    reported(tried(tmp_path, SECOND, {"b": "pass"}))
    acceptance.accept(reports, overview.of(reports, LOT, NOW), "A", "PO 17", NOW)
    first = reports / "deliveries" / LOT / "acceptance-001.json"
    data = first.read_bytes()
    first.write_bytes(data.replace(b"a-gpu1", b"a-gpu7"))
    with pytest.raises(Refused, match=r"acceptance-001\.json: was changed after it was written"):
        acceptance.read(reports, LOT)
    first.unlink()
    with pytest.raises(Refused, match=r"acceptance-002\.json: an acceptance before it is missing or changed"):
        acceptance.read(reports, LOT)


def test_what_an_acceptance_lists_and_a_later_run_rejects_is_told(tmp_path: Path, gpuburn: Any) -> None:
    reports = tmp_path / "reports"
    reported(tried(tmp_path, FIRST, {"a": "pass", "b": "pass"}))
    acceptance.accept(reports, overview.of(reports, LOT, NOW), "A", "PO 17", NOW)
    reported(tried(tmp_path, SECOND, {"a": "fail", "b": "swapped"}))
    out = gpuburn("delivery", "show", LOT, "--reports", reports)[1]
    assert "a: acceptance-001 lists it; it is rejected now" in out
    assert "b: acceptance-001 lists it with other parts than it has now" in out
    made_now, _ = acceptance.accept(reports, overview.of(reports, LOT, NOW), "A", "PO 17", NOW)
    assert [one.host for one in made_now.accepted] == ["b"], "new parts are newly accepted"


def test_a_person_who_decided_against_a_host_holds_its_acceptance(tmp_path: Path, gpuburn: Any) -> None:
    reports = tmp_path / "reports"
    reported(tried(tmp_path, FIRST, {"a": "pass", "b": "pass"}))
    said = ("--as", "rejected", "--by", "B. Uyer", "--reason", "dented", "--reports", reports)
    assert gpuburn("decide", "a", "--run", FIRST, *said)[0] == 0
    delivery = overview.of(reports, LOT, NOW)
    assert decisions(delivery) == {"a": "accepted", "b": "accepted"}, "beside the policy's decision, never over it"
    one, _ = acceptance.accept(reports, delivery, "A", "PO 17", NOW)
    assert one.held == {"a": "B. Uyer decided rejected: dented"}
    assert "B. Uyer decided rejected: dented" in words.shown(delivery, {}, {})
