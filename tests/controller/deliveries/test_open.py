"""What keeps a host whose attempt passed from being accepted: a breaker, an incomplete attempt, a waived failure."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gpuburn import waiver
from gpuburn.controller.deliveries import acceptance, overview
from gpuburn.strict import Refused
from gpuburn.waiver import Waiver
from tests.controller.deliveries.made import FIRST, LOT, NOW, SECOND, THIRD, reported, tried
from tests.controller.deliveries.test_delivery import decisions, gpuburn  # noqa: F401  (a fixture)

EIGHT = {f"n{number}": "pass" for number in range(8)}


def test_what_an_open_breaker_holds_is_not_acceptable_by_an_earlier_pass(tmp_path: Path, gpuburn: Any) -> None:  # noqa: F811
    reported(tried(tmp_path, FIRST, EIGHT))
    second = tried(tmp_path, SECOND, dict.fromkeys(EIGHT, "fail"))
    where = ("--reports", tmp_path / "reports")
    accept = ("delivery", "accept", LOT, "--by", "A", "--reason", "PO 17", *where)
    for tell in (lambda: None, lambda: reported(second)):  # before its report is written, and after
        tell()
        status, out, _ = gpuburn("delivery", "show", LOT, *where)
        assert status == 2 and "8 undecided" in out and "yield 0 of 8" in out
        assert f"the delivery: the breaker of run {SECOND} is open" in out and "gpuburn breaker release" in out
        assert "n0: undecided: attempt 2 failed by a check that is held" in out
        status, _, err = gpuburn(*accept)
        assert status == 3 and f"the breaker of run {SECOND} is open; nothing is accepted until a named person" in err
        assert err.count("\n") == 1
    assert gpuburn("breaker", "release", SECOND, "--by", "A. Person", "--reason", "image cleared", *where)[0] == 0
    out = gpuburn("delivery", "show", LOT, *where)[1]
    assert "8 rejected" in out and "is open" not in out


def test_a_re_test_settles_what_a_breaker_held(tmp_path: Path) -> None:
    for run, says in ((FIRST, "pass"), (SECOND, "fail")):
        reported(tried(tmp_path, run, dict.fromkeys(EIGHT, says)))
    reported(tried(tmp_path, THIRD, {"n0": "pass"}))
    delivery = overview.of(tmp_path / "reports", LOT, NOW)
    assert decisions(delivery)["n0"] == "conditional" and decisions(delivery)["n1"] == "undecided"
    assert any(one.what.startswith(f"the breaker of run {SECOND} is open") for one in overview.items(delivery))


def test_an_incomplete_attempt_after_a_pass_is_open_and_held_until_its_cause_is_recorded(
    tmp_path: Path,
    gpuburn: Any,  # noqa: F811
) -> None:
    reports = tmp_path / "reports"
    reported(tried(tmp_path, FIRST, {"a": "pass", "b": "pass", "c": "pass"}))
    reported(tried(tmp_path, SECOND, {"a": "mute", "b": "away"}))
    delivery = overview.of(reports, LOT, NOW)
    assert decisions(delivery) == {"a": "accepted", "b": "accepted", "c": "accepted"}
    told = {one.host: one.what for one in overview.items(delivery)}
    assert sorted(told) == ["a", "b"] and told["a"].startswith("attempt 2, after the one that decides, is undecided (")
    one, _ = acceptance.accept(reports, delivery, "A", "PO 17", NOW)
    assert [host.host for host in one.accepted] == ["c"] and one.held == told
    said = ("--by", "A. Person", "--reason", "the rack lost power", "--reports", reports)
    assert gpuburn("cause", "a", "--run", SECOND, *said)[0] == 0
    assert gpuburn("cause", "c", "--run", FIRST, *said)[0] == 3, "it passed"
    reported(tried(tmp_path, THIRD, {"b": "pass"}))
    one, _ = acceptance.accept(reports, overview.of(reports, LOT, NOW), "A", "PO 17", NOW)
    assert sorted(host.host for host in one.accepted) == ["a", "b"] and not one.held


def test_a_waived_failure_that_a_pass_follows_is_still_to_be_explained(tmp_path: Path, gpuburn: Any) -> None:  # noqa: F811
    slow = Waiver("W-1", "A. Person", "gemm.tflops", ("b-gpu1",), "mail 7", "2025-01-01", "2027-01-15")
    first = reported(tried(tmp_path, FIRST, {"b": "slow"}, waiver.dump([slow])))
    assert str(first["b"].decision) == "conditional" and first["b"].history
    second = tried(tmp_path, SECOND, {"b": "pass"})
    assert str(reported(second)["b"].decision) == "conditional"
    told = [one.what for one in overview.items(overview.of(tmp_path / "reports", LOT, NOW))]
    assert any(one.startswith("attempt 1 failed and was waived (") for one in told)
    said = ("--by", "V. Endor", "--reason", "fan replaced", "--reports", tmp_path / "reports")
    assert gpuburn("cause", "b", "--run", FIRST, *said)[0] == 0
    assert str(reported(second)["b"].decision) == "accepted"


@pytest.mark.parametrize(
    ("by", "reason", "wish"),
    [
        *((by, "PO 17", "--by") for by in ("", " ", "two\nlines", "x" * 500)),
        *(("A", reason, "--reason") for reason in ("", " ", "two\nlines", "\x1b[2K", "x" * 500)),
    ],
)
def test_an_acceptance_has_a_person_and_a_reason(tmp_path: Path, by: str, reason: str, wish: str) -> None:
    reported(tried(tmp_path, FIRST, {"a": "pass"}))
    with pytest.raises(Refused, match=wish):
        acceptance.accept(tmp_path / "reports", overview.of(tmp_path / "reports", LOT, NOW), by, reason, NOW)
