"""One run's folder: paths come from the inventory, nobody expected is dropped, the journal holds what hosts say."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
import runs

from gpuburn import journal
from gpuburn.controller.run import Expected, Run
from gpuburn.plan import Plan
from gpuburn.strict import Refused


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return Run.of(tmp_path, runs.RUN)


def one(name: str, level: str = "smoke") -> Expected:
    return Expected(name, "rehearsal", level, "bare_metal", ["training"])


@pytest.mark.parametrize(
    "name",
    ["", "..", "../x", "20260101T000000Z-00000",
      "20260101T000000Z-000G", "20260101T000000Z-0000/..", "today", "20260101T000000Z-0000\n"],
)  # fmt: skip
def test_a_run_id_that_is_not_one_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(Refused, match="wanted is <UTC>-<4 hex>"):
        Run.of(tmp_path, name)


@pytest.mark.parametrize("name", ["", "..", "../node2", "a/b", "/etc", "a\0", "<b>", ".hidden"])
def test_a_name_never_becomes_a_path_out_of_the_folder(run: Run, name: str) -> None:
    for place in (run.host, run.incoming):
        with pytest.raises(Refused, match="host name"):
            place(name)


def test_places_are_within_the_run(run: Run) -> None:
    assert run.host("node1") == run.folder / "hosts" / "node1"
    assert run.incoming("node1") == run.folder / "incoming" / "node1.tar.gz"


def test_coming_back_adds_hosts_and_drops_none(run: Run) -> None:
    run.expect([one("a"), one("b")])
    run.expect([one("b"), one("c")])
    assert [(e.host, e.level) for e in run.expected()] == [("a", "smoke"), ("b", "smoke"), ("c", "smoke")]


def test_coming_back_with_another_demand_is_refused(run: Run) -> None:
    """What was ordered when a run began is what it decides about."""
    run.expect([one("a"), one("b")])
    said = r"^hosts.yml: host b: gpuburn_level was 'smoke'.*now says 'soak'; a changed inventory is a new run"
    with pytest.raises(Refused, match=said):
        run.expect([one("b", "soak")], "hosts.yml")


@pytest.mark.parametrize(("kind", "variable"), [("rehearsal", "processes"), ("hardware", "gpu_count")])
def test_another_number_of_devices_is_named_by_its_variable(run: Run, kind: str, variable: str) -> None:
    run.expect([dataclasses.replace(one("a"), kind=kind, count=2)])
    with pytest.raises(Refused, match=f"host a: gpuburn_{variable} was 2 "):
        run.expect([dataclasses.replace(one("a"), kind=kind, count=1)])


def test_a_run_that_is_not_there_says_where_to_look(run: Run) -> None:
    with pytest.raises(Refused, match="no such run"):
        run.expected()


def test_a_plan_is_read_strictly_and_absent_where_there_is_none(tmp_path: Path, rehearsal: Plan) -> None:
    run = runs.home(tmp_path, rehearsal)
    assert run.plan("node1") == rehearsal
    assert run.plan("node2") is None
    (run.host("node1") / "plan.json").write_bytes(b"{}")
    with pytest.raises(Refused, match=r"plan\.json: schema None"):
        run.plan("node1")


@pytest.mark.parametrize("words", ["a\0b", "\ud800", "x" * 10_000, "line\nbreak", "\u202eevil", "<script>"])
def test_whatever_a_host_says_the_journal_can_be_read_again(run: Run, words: str) -> None:
    run.note(1.0, "failed", "node1", why=words, number=7)
    run.note(2.0, "failed", "node1", why="next")
    entries = journal.read(run.journal)
    assert [entry.number for entry in entries] == [1, 2]
    assert len(entries[0].details["why"]) <= 500
    assert entries[0].details["number"] == "7"


def test_a_broken_journal_is_told_up_to_its_break(run: Run) -> None:
    assert (run.entries(), run.told()) == ([], [])
    for number in range(3):
        run.note(float(number), "phase", "node1", phase="running")
    lines = run.journal.read_bytes().splitlines(keepends=True)
    run.journal.write_bytes(b"".join([lines[0], lines[2]]))
    assert [entry.number for entry in run.told()] == [1]
    with pytest.raises(Refused, match="missing or changed"):
        run.entries()
