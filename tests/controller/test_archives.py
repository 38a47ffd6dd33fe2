"""Sealed files at home: none is replaced or removed, and the journal vouches for each and for the plan."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import runs

from gpuburn import strict
from gpuburn.controller import archives, reach
from gpuburn.controller.account import Account, give
from gpuburn.controller.judged import Judged
from gpuburn.controller.run import Run
from gpuburn.finding import Verdict
from gpuburn.measurement import Reading
from gpuburn.plan import Plan
from gpuburn.policy import Decision
from gpuburn.strict import Refused

NOW = runs.ISSUED + 60


@pytest.fixture
def run(tmp_path: Path, rehearsal: Plan) -> Run:
    return runs.home(tmp_path / "reports", rehearsal)


def fetched(run: Run, data: bytes) -> Path | None:
    run.arriving("node1").parent.mkdir(exist_ok=True)
    run.arriving("node1").write_bytes(data)
    return archives.file_away(run, "node1")


def sealed(tmp_path: Path, plan: Plan, wrong: float = 0.0) -> bytes:
    answers = runs.answers(plan)
    answers["gemm"].append(Reading("wrong", wrong, subject="cpu0", at=runs.ISSUED))
    folder = tmp_path / f"host{wrong}"
    runs.write(folder, plan, answers)
    return (folder / "sealed.tar.gz").read_bytes()


def the(run: Run) -> Account:
    [one] = give(run, NOW)
    return one


def test_every_different_file_has_a_place_of_its_own_and_the_same_one_has_one(run: Run) -> None:
    assert archives.file_away(run, "node1") is None
    assert fetched(run, b"first") == run.incoming("node1")
    assert fetched(run, b"first") is None
    assert fetched(run, b"second") == run.incoming("node1", 2)
    assert [fetched(run, one) for one in (b"second", b"first")] == [None, None]
    assert [path.read_bytes() for path in archives.of(run, "node1")] == [b"first", b"second"]
    assert not run.arriving("node1").exists()


def test_no_host_can_have_the_place_of_anothers_second_file(run: Run) -> None:
    assert fetched(run, b"first") and fetched(run, b"second")
    with pytest.raises(Refused, match="host name"):
        run.incoming("node1~2")


def test_there_is_an_end_to_what_a_host_may_send(run: Run) -> None:
    for number in range(archives.MOST):
        assert fetched(run, str(number).encode())
    with pytest.raises(Refused, match="7 different sealed files of this host are here; no more are taken"):
        fetched(run, b"one more")
    assert len(" ".join(archives.held(run, "node1").archives)) < 500, "a line of the journal holds them all"


def test_what_came_is_noted_with_the_digests_of_plan_and_archive(run: Run, tmp_path: Path, rehearsal: Plan) -> None:
    data = sealed(tmp_path, rehearsal)
    run.arriving("node1").parent.mkdir()
    run.arriving("node1").write_bytes(data)
    assert reach.collect(run, NOW) == {"node1": {"verdicts": {"training": "pass"}}}
    [entry] = run.entries()
    plan = (run.host("node1") / "plan.json").read_bytes()
    wanted = {"plan": strict.digest(plan), "archives": strict.digest(data), "finished": "yes"}
    assert entry.details.items() >= wanted.items()


def test_another_result_is_told_and_does_not_replace_the_first(run: Run, tmp_path: Path, rehearsal: Plan) -> None:
    first, second = sealed(tmp_path, rehearsal, 5.0), sealed(tmp_path, rehearsal)
    for data in (first, second):
        run.arriving("node1").parent.mkdir(exist_ok=True)
        run.arriving("node1").write_bytes(data)
        reach.collect(run, NOW)
        assert the(run).decision is Decision.TRIAL_FAILED
    assert (run.incoming("node1").read_bytes(), run.incoming("node1", 2).read_bytes()) == (first, second)
    assert any("another result came: node1~2.tar.gz" in one for one in the(run).trouble)


@pytest.fixture
def collected(run: Run, tmp_path: Path, rehearsal: Plan) -> Run:
    run.arriving("node1").parent.mkdir()
    run.arriving("node1").write_bytes(sealed(tmp_path, rehearsal, 5.0))
    reach.collect(run, NOW)
    return run


def better(run: Run, tmp_path: Path, plan: Plan) -> None:
    run.incoming("node1").write_bytes(sealed(tmp_path, plan))


def easier(run: Run, tmp_path: Path, plan: Plan) -> None:
    (run.host("node1") / "plan.json").write_bytes(strict.encode(runs.with_limit(plan, "gemm.wrong", max=9.0)))


TAMPERED: dict[str, tuple[Callable[[Run, Path, Plan], Any], str]] = {
    "another archive": (better, "node1.tar.gz was changed since line 1 of the journal took it in"),
    "no archive": (lambda run, _, __: run.incoming("node1").unlink(), "node1.tar.gz was lost since line 1"),
    "another plan": (easier, "plan.json was changed since line 1"),
    "no plan": (lambda run, _, __: (run.host("node1") / "plan.json").unlink(), "plan.json was lost since line 1"),
}


@pytest.mark.parametrize(("change", "says"), TAMPERED.values(), ids=TAMPERED)
def test_what_was_changed_after_it_came_is_refused_by_name(
    collected: Run, tmp_path: Path, rehearsal: Plan, change: Callable[[Run, Path, Plan], Any], says: str
) -> None:
    assert the(collected).decision is Decision.TRIAL_FAILED
    change(collected, tmp_path, rehearsal)
    for _ in range(2):  # to collect again does not make it good
        one = the(collected)
        assert (one.reached, one.decision) == ("refused", Decision.UNDECIDED)
        assert says in one.reason
        assert says in reach.collect(collected, NOW)["node1"]["refused"]


def test_what_was_kept_of_the_judgement_holds_for_the_same_plan_and_archives_only(
    collected: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken: list[str] = []
    take = reach.take

    def counted(run: Run, host: str) -> tuple[Judged | None, bytes]:
        taken.append(host)
        return take(run, host)

    monkeypatch.setattr(reach, "take", counted)
    entries = collected.by_host()["node1"]
    kept = reach.judged(collected, "node1", entries)
    assert kept and kept.verdicts == {"training": Verdict.FAIL} and not taken
    later = collected.incoming("node1", 2)
    later.write_bytes(b"something")
    assert reach.judged(collected, "node1", entries) and taken == ["node1"]
    later.unlink()
    (collected.host("node1") / "judged.json").write_text("{}")
    assert reach.judged(collected, "node1", entries) and taken == ["node1"] * 2


@pytest.mark.parametrize(
    ("came", "phase", "over"),
    [
        (None, "", False),
        (None, "running", False),
        (None, "vanished", False),
        (None, "finished", True),
        (b"garbage", "", False),
        ("part", "vanished", False),
        ("whole", "", True),
    ],
)
def test_a_run_that_is_over_is_known(
    run: Run, tmp_path: Path, rehearsal: Plan, came: Any, phase: str, over: bool
) -> None:
    folder = tmp_path / "host"
    if isinstance(came, str):
        runs.write(folder, rehearsal)
        if came == "part":
            (folder / "result.json").unlink()
            runs.seal(folder)
        came = (folder / "sealed.tar.gz").read_bytes()
    if came:
        fetched(run, came)
    if phase:
        run.note(NOW, "phase", "node1", phase=phase)
    assert archives.over(run, "node1", run.entries()) is over
    if came:
        reach.collect(run, NOW)
        assert archives.over(run, "node1", run.entries()) is over
