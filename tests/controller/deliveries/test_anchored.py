"""What a delivery holds on to: its acceptances and journals, parts that wander, failures elsewhere, people's words."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gpuburn.controller.deliveries import acceptance, elsewhere, overview
from gpuburn.controller.run import Run
from gpuburn.strict import Refused
from tests.controller.deliveries import made
from tests.controller.deliveries.made import FIRST, LOT, NOW, SECOND, THIRD, reported, tried
from tests.controller.deliveries.test_delivery import decisions, gpuburn  # noqa: F401  (a fixture)


def accept(reports: Path, at: float = NOW) -> acceptance.Acceptance:
    return acceptance.accept(reports, overview.of(reports, LOT, NOW), "A", "PO 17", at)[0]


def machine(monkeypatch: pytest.MonkeyPatch, **names: str) -> None:
    """These hosts are from now on the machine that was another: {host: whose serials it has}."""
    monkeypatch.setattr(made, "serial", lambda host, device: f"{names.get(host, host)}-{device}")


@pytest.mark.parametrize(("change", "says"), [
    (lambda path: path.write_bytes(path.read_bytes().replace(b"a-gpu1", b"a-gpu7")), "001.json: was changed after"),
    (lambda path: path.unlink(), "001.json: is missing; a run's journal says that it was written"),
])  # fmt: skip
def test_the_last_acceptance_that_was_changed_or_taken_away_is_found(tmp_path: Path, change: Any, says: str) -> None:
    reports = tmp_path / "reports"
    run = tried(tmp_path, FIRST, {"a": "pass"})
    reported(run)
    accept(reports)
    assert [host.host for host in acceptance.read(reports, LOT)[0].accepted] == ["a"]
    lines = len(run.entries())
    reported(run)
    assert len(run.entries()) == lines, "what is accepted is no reason to judge the run again"
    change(reports / "deliveries" / LOT / "acceptance-001.json")
    with pytest.raises(Refused, match=says):
        acceptance.read(reports, LOT)
    with pytest.raises(Refused, match=says):
        accept(reports)


@pytest.mark.parametrize("change", [lambda journal: journal.unlink(), lambda journal: journal.write_bytes(b"")])
def test_nothing_is_accepted_while_a_journal_is_missing(tmp_path: Path, gpuburn: Any, change: Any) -> None:  # noqa: F811
    reports = tmp_path / "reports"
    run = tried(tmp_path, FIRST, {"a": "pass"})
    reported(run)
    whole = run.journal.read_bytes()
    change(run.journal)
    with pytest.raises(Refused, match=f"run {FIRST}: journal.jsonl .*put its journal back; nothing is accepted"):
        accept(reports)
    assert gpuburn("delivery", "show", LOT, "--reports", reports)[0] == 2
    run.journal.write_bytes(whole)
    assert [one.host for one in accept(reports).accepted] == ["a"]


def test_a_broken_journal_holds_the_delivery(tmp_path: Path) -> None:
    run = tried(tmp_path, FIRST, {"a": "pass"})
    reported(run)
    run.journal.write_bytes(run.journal.read_bytes().replace(b'"event":"', b'"event":"x', 1))
    with pytest.raises(Refused, match="put its journal back"):
        accept(tmp_path / "reports")


def test_a_part_that_moved_is_where_it_was_seen_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """gpu1 of a is seen in b, later: b has it, a waits until it is tested anew, then both are free."""
    reports = tmp_path / "reports"
    reported(tried(tmp_path, FIRST, {"a": "pass", "b": "away"}))
    monkeypatch.setattr(made, "serial", lambda host, device: "a-gpu1" if device == "gpu1" else f"{host}-{device}")
    reported(tried(tmp_path, SECOND, {"b": "pass"}))
    delivery = overview.of(reports, LOT, NOW)
    assert set(delivery.doubled) == {"a"}
    assert delivery.doubled["a"].endswith(f"a-gpu1 was also seen in b, in run {SECOND}")
    first = accept(reports)
    assert [one.host for one in first.accepted] == ["b"] and list(first.held) == ["a"]
    monkeypatch.undo()
    monkeypatch.setattr(
        made, "serial", lambda host, device: f"new-{device}" if device == "gpu1" else f"{host}-{device}"
    )
    reported(tried(tmp_path, THIRD, {"a": "pass"}))
    assert not overview.of(reports, LOT, NOW).doubled
    assert [one.host for one in accept(reports).accepted] == ["a"]


def test_one_part_in_two_hosts_of_one_run_belongs_to_neither(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    machine(monkeypatch, b="a")
    reported(tried(tmp_path, FIRST, {"a": "pass", "b": "pass"}))
    assert set(overview.of(tmp_path / "reports", LOT, NOW).doubled) == {"a", "b"}


def test_a_part_that_is_accepted_in_one_host_is_not_accepted_again_in_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reports = tmp_path / "reports"
    reported(tried(tmp_path, FIRST, {"a": "pass", "b": "away"}))
    assert [one.host for one in accept(reports).accepted] == ["a"]
    machine(monkeypatch, b="a")
    reported(tried(tmp_path, SECOND, {"b": "pass"}))
    with pytest.raises(Refused, match=r"b: acceptance-001 lists its gpu0 .* as part of a, which was not accepted anew"):
        accept(reports)


def test_a_failure_under_another_name_is_not_left_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reports = tmp_path / "reports"
    reported(tried(tmp_path, FIRST, {"a": "fail"}))
    machine(monkeypatch, b="a")
    second = tried(tmp_path, SECOND, {"b": "pass"})
    why = f"a host with the same serial failed in run {FIRST}, which belongs to delivery {LOT}"
    assert str(reported(second)["b"].decision) == "conditional"
    delivery = overview.of(reports, LOT, NOW)
    assert decisions(delivery)["b"] == "conditional" and delivery.first_pass == 0
    assert next(one for one in delivery.hosts if one.host == "b").reason.startswith(why)


def test_a_failure_in_another_delivery_follows_the_machine(tmp_path: Path, gpuburn: Any) -> None:  # noqa: F811
    reported(tried(tmp_path, FIRST, {"a": "fail", "b": "pass"}, delivery="lot-0"))
    second = tried(tmp_path, SECOND, {"a": "pass", "b": "pass"})
    found = reported(second)
    assert (str(found["a"].decision), str(found["b"].decision)) == ("conditional", "accepted")
    assert f"it failed in run {FIRST}, which belongs to delivery lot-0" in found["a"].reason
    said = ("--by", "V. Endor", "--reason", "GPU 1 replaced", "--reports", tmp_path / "reports")
    assert gpuburn("cause", "a", "--run", FIRST, *said)[0] == 0
    assert decisions(overview.of(tmp_path / "reports", LOT, NOW))["a"] == "accepted"


def test_a_device_that_was_not_at_fault_is_not_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """gpu1 of a failed; gpu0 of a, now in b of another delivery, did not."""
    reported(tried(tmp_path, FIRST, {"a": "fail"}, delivery="lot-0"))
    monkeypatch.setattr(made, "serial", lambda host, device: "a-gpu0" if device == "gpu0" else f"other-{device}")
    found = reported(tried(tmp_path, SECOND, {"b": "pass"}))
    assert str(found["b"].decision) == "accepted"
    failures = elsewhere.failures(tmp_path / "reports")
    assert {serial for serial in failures.by_serial if "gpu0" in serial} == set()
    assert {"a-gpu1", "a-gpu1-uuid"} <= set(failures.by_serial)


def test_what_a_person_decided_in_an_earlier_run_holds_until_a_person_says_otherwise(
    tmp_path: Path, gpuburn: Any  # noqa: F811
) -> None:  # fmt: skip
    reports = tmp_path / "reports"
    reported(tried(tmp_path, FIRST, {"a": "pass"}))
    said = ("--by", "B. Uyer", "--reports", reports)
    assert gpuburn("decide", "a", "--run", FIRST, "--as", "rejected", "--reason", "dented", *said)[0] == 0
    reported(tried(tmp_path, SECOND, {"a": "pass"}))
    with pytest.raises(Refused, match=r"a: B\. Uyer decided rejected: dented"):
        accept(reports)
    assert gpuburn("decide", "a", "--run", SECOND, "--as", "accepted", "--reason", "new case", *said)[0] == 0
    assert [one.host for one in accept(reports).accepted] == ["a"]
    assert len(overview.of(reports, LOT, NOW).people["a"]) == 2, "both are kept"


def test_waivers_and_policy_without_the_journals_word(tmp_path: Path) -> None:
    """Without the journal no waiver counts, and the policy is the one that the plans name, or none."""
    run = tried(tmp_path, FIRST, {"a": "pass"})
    run.journal.unlink()
    assert run.policy_as_begun().digest == run.policy().digest
    (run.folder / "policy.yml").unlink()
    with pytest.raises(Refused, match="put the policy back that it began with"):
        Run.of(tmp_path / "reports", FIRST).policy_as_begun()
