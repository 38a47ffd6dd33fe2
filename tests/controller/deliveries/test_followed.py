"""What was once seen to fail is not outrun: not by order of runs, names, deliveries, silence, causes or copies."""

from __future__ import annotations

import dataclasses
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import runs

from gpuburn import strict
from gpuburn.controller import account, replay
from gpuburn.controller.deliveries import acceptance, overview
from gpuburn.controller.run import Run
from gpuburn.strict import Refused
from tests.controller.deliveries import made
from tests.controller.deliveries.made import FIRST, FOURTH, LOT, NOW, SECOND, THIRD, reported, tried
from tests.controller.deliveries.test_anchored import accept, machine
from tests.controller.deliveries.test_delivery import decisions, gpuburn  # noqa: F401  (a fixture)

DAY = 86_400.0


def waived(serial: str) -> str:
    return json.dumps([{"id": "w1", "person": "P", "about": "gemm.tflops", "serials": [serial], "reason": "r",
                        "date": "2025-12-30", "expires": "2026-02-01"}])  # fmt: skip


def comes(run: Run, tmp: Path, host: str, says: str, at: float) -> None:
    """A host that never started is started after all, and sends its result home."""
    one = made.plan(run.id, host, policy=run.policy())
    (run.host(host) / "plan.json").write_bytes(strict.encode(one))
    run.note(at, "started", host)
    folder = tmp / "late" / run.id / host
    runs.write(folder, one, made.answers(one, says))
    runs.bring(run, host, folder)


def of(tmp: Path, lot: str = LOT, now: float = NOW) -> overview.Delivery:
    return overview.of(tmp / "reports", lot, now)


def test_a_failure_that_was_measured_last_decides_however_old_its_run(tmp_path: Path) -> None:
    first = tried(tmp_path, FIRST, {"a": "away"})
    for run in (SECOND, THIRD, FOURTH):
        reported(tried(tmp_path, run, {"a": "pass"}))
    comes(first, tmp_path, "a", "fail", NOW)
    reported(first, NOW + DAY)
    assert decisions(of(tmp_path, now=NOW + DAY)) == {"a": "rejected"}


def test_a_cause_that_was_recorded_before_the_failure_does_not_excuse_it(tmp_path: Path, gpuburn: Any) -> None:  # noqa: F811
    first = tried(tmp_path, FIRST, {"a": "away"})
    said = ("--run", FIRST, "--by", "P", "--reports", tmp_path / "reports")
    assert gpuburn("cause", "a", *said, "--reason", "the switch was down")[0] == 0
    comes(first, tmp_path, "a", "fail", first.began() + 60)
    reported(first)
    reported(tried(tmp_path, SECOND, {"a": "pass"}))
    assert decisions(of(tmp_path)) == {"a": "conditional"}
    assert gpuburn("cause", "a", *said, "--reason", "the riser")[0] == 0
    assert decisions(of(tmp_path)) == {"a": "accepted"}


def test_what_was_waived_or_held_follows_the_machine_too(tmp_path: Path) -> None:
    reported(tried(tmp_path, FIRST, {"a": "slow"}, waivers=waived("a-gpu1")))
    found = reported(tried(tmp_path, SECOND, {"a": "pass"}, delivery="lot-2"))
    assert str(found["a"].decision) == "conditional" and decisions(of(tmp_path, "lot-2")) == {"a": "conditional"}
    eight = {f"n{number}": "fail" for number in range(8)}
    reported(tried(tmp_path, THIRD, eight, delivery="lot-3"))
    reported(tried(tmp_path, FOURTH, dict.fromkeys(eight, "pass"), delivery="lot-4"))
    assert set(decisions(of(tmp_path, "lot-4")).values()) == {"conditional"}


def test_a_failure_that_nobody_reported_follows_its_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tried(tmp_path, FIRST, {"a": "fail"})
    monkeypatch.setattr(made, "serial", lambda host, device: "a-gpu1" if device == "gpu1" else f"{host}-{device}")
    assert str(reported(tried(tmp_path, SECOND, {"b": "pass"}))["b"].decision) == "conditional"
    assert decisions(of(tmp_path))["b"] == "conditional"


def test_a_healthy_neighbour_of_a_bad_device_is_not_accused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tried(tmp_path, FIRST, {"a": "fail"})
    monkeypatch.setattr(made, "serial", lambda host, device: "a-gpu0" if device == "gpu0" else f"{host}-{device}")
    reported(tried(tmp_path, SECOND, {"b": "pass"}))
    assert decisions(of(tmp_path))["b"] == "accepted"


def test_a_host_that_was_lost_under_load_does_not_start_clean_elsewhere(tmp_path: Path) -> None:
    run = tried(tmp_path, FIRST, {"a": "away"})
    at = run.began()
    run.note(at + 60, "started", "a")
    run.note(at + 70, "phase", "a", phase="running")
    for when in (100, 10 * DAY):
        run.note(at + when, "unreachable", "a", why="x")
    run.note(at + 10 * DAY, "watched", until=at + 9.9 * DAY)
    assert str(reported(run, NOW + 10 * DAY)["a"].decision) == "rejected"
    found = reported(tried(tmp_path, SECOND, {"a": "pass"}, delivery="lot-2"), NOW + 11 * DAY)
    assert str(found["a"].decision) == "conditional"
    assert decisions(of(tmp_path, "lot-2", NOW + 11 * DAY)) == {"a": "conditional"}


@pytest.mark.parametrize("spoil", [
    lambda book: book.unlink(), lambda book: book.write_bytes(book.read_bytes().replace(b'"event"', b' "event"', 1)),
])  # fmt: skip
def test_a_journal_that_does_not_tell_holds_every_delivery(tmp_path: Path, spoil: Any) -> None:
    first = tried(tmp_path, FIRST, {"a": "fail"})
    reported(first)
    spoil(first.journal)
    found = reported(tried(tmp_path, SECOND, {"b": "pass"}, delivery="lot-2"))
    assert any(one.startswith(f"run {FIRST}: its journal ") for one in found["b"].trouble)
    with pytest.raises(Refused, match="may name hosts that failed; put it back; nothing is accepted"):
        acceptance.accept(tmp_path / "reports", of(tmp_path, "lot-2"), "A", "PO", NOW)


def test_the_same_machine_is_not_accepted_in_two_deliveries(tmp_path: Path) -> None:
    reported(tried(tmp_path, FIRST, {"a": "pass"}))
    accept(tmp_path / "reports")
    reported(tried(tmp_path, SECOND, {"a": "pass"}, delivery="lot-2"))
    with pytest.raises(Refused, match=f"acceptance-001 of delivery {LOT} lists its gpu0"):
        acceptance.accept(tmp_path / "reports", of(tmp_path, "lot-2"), "A", "PO", NOW)


def test_a_host_that_was_taken_out_of_the_list_is_missed(tmp_path: Path) -> None:
    run = tried(tmp_path, FIRST, {"a": "fail", "b": "pass"})
    reported(run)
    path = run.folder / "expected.json"
    whole = path.read_bytes()
    runs.edit(path, lambda listed: listed.remove(next(one for one in listed if one["host"] == "a")))
    (run.folder / "attempts.json").unlink()
    with pytest.raises(Refused, match=r"expected\.json: is not the list that the journal names; put it back"):
        account.give(run, NOW)
    assert any("put it back" in one for one in of(tmp_path).unreadable)
    path.write_bytes(whole)
    assert decisions(of(tmp_path)) == {"a": "rejected", "b": "accepted"}


def test_a_copied_run_still_knows_what_its_hosts_failed_in(tmp_path: Path) -> None:
    reported(tried(tmp_path, FIRST, {"a": "fail"}, delivery=""))
    run = tried(tmp_path, SECOND, {"a": "pass"}, delivery="")
    reported(run)
    shutil.copytree(run.folder, tmp_path / "copy" / run.id)
    same = replay.replay(Run.of(tmp_path / "copy", run.id), replay.Instead())
    assert [str(one.decision) for one in same.accounts] == ["conditional"]


def test_a_part_that_was_swapped_and_swapped_back_is_listed_again_and_frees_the_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reports = tmp_path / "reports"
    for run, says in ((FIRST, "pass"), (SECOND, "pass swapped"), (THIRD, "pass")):
        reported(tried(tmp_path, run, {"a": says}))
        assert [one.host for one in accept(reports).accepted] == ["a"]
    monkeypatch.setattr(made, "serial", lambda host, device: "a-gpu1-new" if device == "gpu1" else f"{host}-{device}")
    reported(tried(tmp_path, FOURTH, {"b": "pass"}))
    assert [one.host for one in accept(reports).accepted] == ["b"]


def test_only_a_person_who_accepts_lifts_what_a_person_held(tmp_path: Path, gpuburn: Any) -> None:  # noqa: F811
    reported(tried(tmp_path, FIRST, {"a": "pass"}))
    said = ("--run", FIRST, "--by", "P", "--reason", "dented", "--reports", tmp_path / "reports")
    for word in ("rejected", "trial passed"):
        assert gpuburn("decide", "a", *said, "--as", word)[0] == 0
    with pytest.raises(Refused, match="a: P decided trial passed: dented"):
        accept(tmp_path / "reports")


def test_a_machine_under_another_name_keeps_what_was_waived(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reported(tried(tmp_path, FIRST, {"a": "slow"}, waivers=waived("a-gpu1")))
    machine(monkeypatch, b="a")
    reported(tried(tmp_path, SECOND, {"b": "pass"}))
    assert decisions(of(tmp_path))["b"] == "conditional"


def test_the_list_is_the_journals_also_after_hosts_were_added(tmp_path: Path) -> None:
    run = tried(tmp_path, FIRST, {"a": "pass"})
    more = dataclasses.replace(runs.expected(made.plan(FIRST, "a", policy=run.policy())), host="b")
    run.expect([more])
    with pytest.raises(Refused, match="put it back"):
        run.expected_as_noted()
    run.note(NOW, "expected", expected=run.expected_digest())
    assert [one.host for one in run.expected_as_noted()] == ["a", "b"]
