"""What is left out is missed: a run of the delivery whose folder is gone, a failure in a run that belongs to none."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from gpuburn.controller.deliveries import acceptance, elsewhere, knew, overview
from gpuburn.controller.run import Run
from gpuburn.strict import Refused
from tests.controller.deliveries import made
from tests.controller.deliveries.made import FIRST, LOT, NOW, SECOND, THIRD, reported, tried
from tests.controller.deliveries.test_delivery import decisions, gpuburn  # noqa: F401  (a fixture)


def gone(run: Run) -> None:
    shutil.rmtree(run.folder)


def test_a_run_that_is_gone_is_missed_and_what_failed_in_it_stays_unexplained(tmp_path: Path, gpuburn: Any) -> None:  # noqa: F811
    reports = tmp_path / "reports"
    first = tried(tmp_path, FIRST, {"a": "fail", "b": "pass", "c": "away", "d": "fail"})
    reported(first)
    second = tried(tmp_path, SECOND, {"a": "pass", "b": "pass", "c": "pass"})
    reported(second)
    gone(first)
    why = f"it was rejected in run {FIRST}, whose folder is gone"
    for found in (reported(second), reported(tried(tmp_path, THIRD, {"a": "pass", "b": "pass"}))):
        assert (str(found["a"].decision), str(found["b"].decision)) == ("conditional", "accepted")
        assert (
            found["a"].reason.endswith(f"; {why}") and f"run {FIRST} of the delivery is gone" in found["b"].trouble[0]
        )
    assert why in (second.host("a") / "index.html").read_text()
    delivery = overview.of(reports, LOT, NOW)
    assert decisions(delivery) == {"a": "conditional", "b": "accepted", "c": "accepted"}
    assert (delivery.good, delivery.first_pass) == (3, 2), "what failed at first did not pass at once"
    [item] = [one for one in overview.items(delivery) if not one.host]
    assert item.what.startswith(
        f"run {FIRST} of the delivery is gone (a rejected, d rejected, c untested), and a later"
    )
    with pytest.raises(Refused, match=r"is gone .* nothing is accepted"):
        acceptance.accept(reports, delivery, "A", "PO 17", NOW)
    assert gpuburn("delivery", "show", LOT, "--reports", reports)[0] == 2


def test_a_run_that_came_back_is_missed_no_longer(tmp_path: Path) -> None:
    first = tried(tmp_path, FIRST, {"a": "pass"})
    reported(first)
    reported(tried(tmp_path, SECOND, {"a": "pass"}))
    first.folder.rename(tmp_path / "aside")
    assert overview.of(tmp_path / "reports", LOT, NOW).unreadable
    (tmp_path / "aside").rename(first.folder)
    assert not overview.of(tmp_path / "reports", LOT, NOW).unreadable


def test_what_a_run_knew_is_noted_once_and_its_last_word_counts(tmp_path: Path) -> None:
    reported(tried(tmp_path, FIRST, {"a": "fail", "b": "pass"}))
    second = tried(tmp_path, SECOND, {"a": "pass", "z": "pass"}, delivery="lot-2")
    reported(second)
    assert not knew.read(second.entries()), "another delivery"
    third = tried(tmp_path, THIRD, {"b": "pass"})
    reported(third)
    assert knew.read(third.entries()) == {(LOT, FIRST): {"a": "rejected"}}
    lines = len(third.entries())
    reported(third)
    assert len(third.entries()) == lines
    knew.note(third, {(LOT, FIRST): {"a": "untested"}}, NOW)
    assert knew.read(third.entries()) == {(LOT, FIRST): {"a": "untested"}}
    many = {f"{'n' * 90}{number:05}": "rejected" for number in range(1000)}
    knew.note(third, {(LOT, SECOND): many}, NOW)
    assert knew.read(third.entries())[(LOT, SECOND)] == many


def test_a_failure_in_a_run_of_no_delivery_is_told_and_stays_unexplained(tmp_path: Path, gpuburn: Any) -> None:  # noqa: F811
    first = tried(tmp_path, FIRST, {"a": "fail", "b": "pass"}, delivery="")
    reported(first)
    second = tried(tmp_path, SECOND, {"a": "pass", "b": "pass"}, delivery="")
    found = reported(second)
    assert (str(found["a"].decision), str(found["b"].decision)) == ("conditional", "accepted")
    why = f"it failed in run {FIRST}, which belongs to no delivery"
    assert found["a"].reason.endswith(why) and why in (second.host("a") / "index.html").read_text()
    lines = len(first.entries())
    reported(first)
    assert len(first.entries()) == lines, "noted once"
    said = ("--by", "V. Endor", "--reason", "riser reseated", "--reports", tmp_path / "reports")
    assert gpuburn("cause", "a", "--run", FIRST, *said)[0] == 0
    assert str(reported(second)["a"].decision) == "accepted"


def test_the_same_serial_under_another_name_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reported(tried(tmp_path, FIRST, {"a": "fail"}, delivery=""))
    monkeypatch.setattr(made, "serial", lambda host, device: f"a-{device}")
    found = reported(tried(tmp_path, SECOND, {"b": "pass"}, delivery=""))
    assert str(found["b"].decision) == "conditional"
    assert f"a host with the same serial failed in run {FIRST}, which" in found["b"].reason


def test_of_journals_without_a_failure_no_line_is_parsed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reported(tried(tmp_path, FIRST, {"a": "pass"}, delivery=""))
    third = tried(tmp_path, THIRD, {"a": "pass"}, delivery="")
    monkeypatch.setattr(elsewhere, "_add", lambda *_: pytest.fail("parsed"))
    assert str(reported(third)["a"].decision) == "accepted"


def test_more_hosts_than_one_line_of_the_journal_holds(tmp_path: Path) -> None:
    hosts = {f"n{number:02}": "fail" for number in range(6)}
    first = tried(tmp_path, FIRST, hosts, delivery="")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(elsewhere, "AT_ONCE", 4)
        reported(first)
    assert [len(one.details) for one in first.entries() if one.event == elsewhere.EVENT] == [4, 2]
    assert set(elsewhere.failures(tmp_path / "reports").by_host) == set(hosts)
