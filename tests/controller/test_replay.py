"""Judging again: the same verdicts from the same evidence anywhere, other limits flip hosts and say which and why."""

from __future__ import annotations

import dataclasses
import json
import shutil
from pathlib import Path
from typing import Any

import fleets
import pytest
import runs
import yaml
from hypothesis import given, settings, strategies as st

from gpuburn import strict
from gpuburn.controller import account, baseline_of_run, baselines, replay
from gpuburn.controller.__main__ import main
from gpuburn.controller.run import Run
from gpuburn.replan import Instead
from gpuburn.strict import Refused

SAME = Instead()


def speed(host: int, device: int) -> float:
    return 100.0 + 10 * host + device


def tree(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def said(done: replay.Replay) -> dict[str, tuple[str, str]]:
    return {one.expected.host: (str(one.decision), one.reason) for one in done.accounts}


def site(**fields: Any) -> Instead:
    return Instead({"gemm.tflops": {"unit": "TFLOP/s", "because": "what if", **fields}}, "what.yml")


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Four hosts: three passed, the last has a wrong product."""
    return fleets.run(tmp_path / "reports", 4, speed, wrong=(3,))


def test_the_same_decisions_as_the_report(run: Run) -> None:
    report = {one.expected.host: (str(one.decision), one.reason) for one in account.give(run, replay.moment(run))}
    assert said(replay.replay(run, SAME)) == report
    assert {decision for decision, _ in report.values()} == {"trial passed", "trial failed"}


def test_nothing_is_written_and_every_copy_says_the_same_bytes(run: Run, tmp_path: Path) -> None:
    before = tree(run.folder)
    first = strict.encode(replay.document(replay.replay(run, SAME), SAME))
    assert tree(run.folder) == before
    shutil.copytree(run.folder, tmp_path / "elsewhere" / run.id)
    shutil.rmtree(run.folder)
    copied = Run.of(tmp_path / "elsewhere", run.id)
    assert strict.encode(replay.document(replay.replay(copied, SAME), SAME)) == first


def test_a_refused_result_says_the_same_bytes_in_every_folder(run: Run, tmp_path: Path) -> None:
    run.incoming("node1").write_bytes(b"no archive")
    (run.host("node2") / "plan.json").write_text("{}")
    texts = []
    for place in ("one", "two"):
        shutil.copytree(run.folder, tmp_path / place / run.id)
        done = replay.replay(Run.of(tmp_path / place, run.id), SAME)
        texts.append(strict.encode(replay.document(done, SAME)))
    assert texts[0] == texts[1]
    assert str(tmp_path).encode() not in texts[0]
    hosts = {one["host"]: one["decision"] for one in json.loads(texts[0])["hosts"]}
    assert (hosts["node1"], hosts["node2"]) == ("undecided", "undecided")


def test_what_lies_unpacked_or_kept_beside_the_sealed_evidence_is_not_believed(run: Run) -> None:
    truth = said(replay.replay(run, SAME))
    for one in account.give(run, runs.ISSUED):
        (run.host(one.expected.host) / "judged.json").write_text("{}")
        shutil.rmtree(run.host(one.expected.host) / "run")
    assert said(replay.replay(run, SAME)) == truth


def test_a_host_that_went_away_is_judged_at_the_moment_of_the_last_line_of_the_journal(tmp_path: Path) -> None:
    plan = runs.plan(steps=("gemm",))
    run = runs.home(tmp_path, plan)
    run.note(runs.ISSUED, "started", plan.host)
    assert replay.replay(run, SAME).accounts[0].reached == "uncollected"
    run.note(plan.deadline + 1, "watched", until=plan.deadline)
    assert replay.replay(run, SAME).accounts[0].reached == "lost"


def test_a_tighter_limit_flips_the_hosts_that_miss_it_and_no_other(run: Run) -> None:
    done = replay.replay(run, site(min=111.5))
    assert {host: decision for host, (decision, _) in said(done).items()} == {
        "node0": "trial failed", "node1": "trial failed", "node2": "trial passed", "node3": "trial failed",
    }  # fmt: skip
    assert {host: str(one.decision) for host, one in done.before.items()} == {
        "node0": "trial passed", "node1": "trial passed", "node2": "trial passed", "node3": "trial failed",
    }  # fmt: skip
    flips = {(c.subject, c.before, c.now) for c in done.changes["node1"]}
    assert flips == {("cpu0", "not judged", "fail"), ("cpu1", "not judged", "fail"),
                     ("cpu2", "not judged", "pass")}  # fmt: skip
    assert all(c.about == "gemm.tflops" for many in done.changes.values() for c in many)
    told = replay.text(done, site(min=111.5))
    assert "4 of 4 hosts end otherwise" in told
    assert "node1: trial passed -> trial failed; training pass -> fail" in told
    assert "gemm cpu0 gemm.tflops: not judged -> fail: 110 TFLOP/s; needs 111.5 <= x TFLOP/s" in told


def test_a_limit_that_is_lifted_lets_a_failed_host_pass(run: Run) -> None:
    lifted = Instead({"gemm.wrong": {"informational": "what if", "because": "what if"}}, "what.yml")
    done = replay.replay(run, lifted)
    assert said(done)["node3"][0] == "trial passed"
    assert [(c.subject, c.before, c.now) for c in done.changes["node3"] if c.before == "fail"] == [
        ("cpu0", "fail", "not judged")
    ]


def test_a_baseline_judges_what_had_no_reference_number(run: Run) -> None:
    made, _ = baseline_of_run.made(run, account.give(run, runs.ISSUED), "good", "node2", 1.0)
    other = dataclasses.replace(made, run="20260101T000000Z-0001", hosts=["node9"], serials=["S9"])
    baselines.save(run.folder.parent, other)
    done = replay.replay(run, replay.instead(run, None, "good", None))
    # The median is 121: below 114.95 fails, below 117.37 is marginal.
    assert {host: decision for host, (decision, _) in said(done).items()} == {
        "node0": "trial failed", "node1": "trial failed", "node2": "trial passed", "node3": "trial failed",
    }  # fmt: skip
    assert {(c.before, c.now) for c in done.changes["node2"]} == {("not judged", "pass")}


def test_a_run_is_not_judged_by_a_baseline_of_itself_nor_a_host_by_its_own(run: Run) -> None:
    made, _ = baseline_of_run.made(run, account.give(run, runs.ISSUED), "good", "node2", 1.0)
    baselines.save(run.folder.parent, made)
    with pytest.raises(Refused, match=f"^--baseline: baseline good was made of run {run.id} itself; wanted is"):
        replay.instead(run, None, "good", None)
    with pytest.raises(Refused, match="was made of run"):
        replay.replay(run, Instead(baseline=made))
    done = replay.replay(run, Instead(baseline=dataclasses.replace(made, run="20260101T000000Z-0001")))
    assert said(done)["node1"][0] == "trial failed" and done.changes["node2"] == []


def test_another_policy_decides_otherwise_from_the_same_verdicts(run: Run, tmp_path: Path) -> None:
    from gpuburn.policy import FILE

    other = tmp_path / "policy.yml"
    text = yaml.safe_load(FILE.read_text())
    row = {"decision": "undecided", "verdicts": ["pass"], "kinds": ["rehearsal"], "because": "we look at it together"}
    text["rows"].insert(0, row)
    other.write_text(yaml.safe_dump(text))
    same = said(replay.replay(run, SAME))
    [passed, *_] = [host for host, (decision, _) in same.items() if decision == "trial passed"]
    done = replay.replay(run, replay.instead(run, None, "", other))
    assert said(done)[passed][0] == "undecided" and said(done)["node3"] == same["node3"]
    assert done.changes[passed] == []


@settings(max_examples=10)
@given(st.floats(90, 140), st.floats(90, 140))
def test_tightening_a_limit_never_improves_a_host(
    tmp_path_factory: pytest.TempPathFactory, one: float, other: float
) -> None:
    run = CACHE.get("run") or CACHE.setdefault("run", fleets.run(tmp_path_factory.mktemp("r") / "reports", 2, speed))
    loose, tight = (replay.replay(run, site(min=bound)) for bound in sorted((one, other)))
    for host, (decision, _) in said(tight).items():
        assert decision == "trial failed" or said(loose)[host][0] == "trial passed"


CACHE: dict[str, Run] = {}


def call(*arguments: object) -> Any:
    with pytest.raises(SystemExit) as ended:
        main([str(one) for one in arguments])
    return ended.value.code


def test_the_command_line_prints_the_same_twice_and_its_status_is_that_of_the_decisions(
    run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    where = ("--reports", run.folder.parent)
    texts = []
    for _ in range(2):
        assert call("judge", run.id, *where, "--json") == 1
        texts.append(capsys.readouterr().out)
    assert texts[0] == texts[1]
    assert json.loads(texts[0])["decisions"] == {"trial passed": 3, "trial failed": 1}
    what = tmp_path / "what.yml"
    what.write_text("gemm.wrong: {informational: what if, because: what if}\n")
    assert call("judge", run.id, *where, "--limits", what) == 0
    assert "hosts end otherwise" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("gemm.tflop: {min: 1, unit: TFLOP/s, because: r}", "unknown 'tflop'; did you mean 'tflops'"),
        ("gemm.tflops: {min: 1, unit: TFLOP/s}", "what.yml: gemm.tflops: a limit needs a reason"),
        ("gemm.tflops: 600", "what.yml: gemm.tflops: wanted is a mapping"),
        ("gemm.tflops: {min: 1, unit: GB/s, because: r}", "is measured in 'TFLOP/s', limited in 'GB/s'"),
        ("- 1", "what.yml: wanted is a mapping of probe.metric to a limit"),
        ("{", "what.yml: not YAML"),
        ("a: 1\na: 2", "written twice"),
        (None, "what.yml: not a file"),
    ],
)
def test_limits_with_a_mistake_are_refused_in_one_line(
    run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str | None, says: str
) -> None:
    what = tmp_path / "what.yml"
    if text is not None:
        what.write_text(text)
    assert call("judge", run.id, "--reports", run.folder.parent, "--limits", what) == 3
    told = capsys.readouterr()
    assert says in told.err
    assert len(told.err.splitlines()) == 1
    assert told.out == ""


def test_limits_are_read_in_the_shape_that_plan_takes(tmp_path: Path) -> None:
    entry = {"min": 620, "unit": "TFLOP/s", "because": "annex B"}
    bare, named, twice = (tmp_path / name for name in ("bare.yml", "named.yml", "twice.yml"))
    bare.write_text(yaml.safe_dump({"gemm.tflops": entry}))
    named.write_text(yaml.safe_dump({"gpuburn_limits_annex": {"gemm.tflops": entry}}))
    twice.write_text(
        yaml.safe_dump({"gpuburn_limits_a": {"gemm.tflops": entry}, "gpuburn_limits_b": {"gemm.tflops": entry}})
    )
    assert replay._limits(bare) == replay._limits(named) == {"gemm.tflops": entry}
    with pytest.raises(Refused, match=r"gemm\.tflops is limited under two names"):
        replay._limits(twice)
    with pytest.raises(Refused, match="not a file"):
        replay._limits(tmp_path)
