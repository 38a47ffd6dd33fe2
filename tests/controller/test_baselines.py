"""Baselines: made of hosts that passed, never overwritten, of one SKU; they judge what has no reference number."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import fleets
import pytest
import runs

from gpuburn import baseline as words, strict
from gpuburn.controller import account, baseline_of_run, baselines, preflight
from gpuburn.controller.__main__ import main
from gpuburn.controller.run import Run
from gpuburn.measurement import NOWHERE
from gpuburn.strict import Refused
from tests.controller.deliveries import made

LATER = "20260202T000000Z-0001"
TRIAL = {
    "gpuburn_profiles": ["training"], "gpuburn_kind": "rehearsal", "gpuburn_level": "smoke", "gpuburn_become": False,
}  # fmt: skip
SEEN: dict[str, Any] = {
    "python": "3.12.3", "os": "Ubuntu 24.04", "architecture": "x86_64", "free_disk_gib": 100.0, "memory_gib": 64.0,
    "time": 1000.0, "uid": 0, "systemd": True,
}  # fmt: skip


def speed(host: int, device: int) -> float:
    return 100.0 + 10 * host + device


def save(run: Run, name: str = "good", hosts: str = "*") -> words.Baseline:
    found, _ = baseline_of_run.made(run, account.give(run, runs.ISSUED), name, hosts, 7.0)
    baselines.save(run.folder.parent, found)
    return found


def call(*arguments: object) -> Any:
    with pytest.raises(SystemExit) as ended:
        main([str(one) for one in arguments])
    return ended.value.code


def test_a_baseline_is_the_median_over_the_devices_of_hosts_that_passed(tmp_path: Path) -> None:
    run = fleets.run(tmp_path / "reports", 4, speed, wrong=(3,))
    made, left_out = baseline_of_run.made(run, account.give(run, runs.ISSUED), "good", "*", 7.0)
    assert made.hosts == ["node0", "node1", "node2"]
    assert list(left_out) == ["node3"]
    assert "gemm.wrong" in left_out["node3"]
    one = made.entry("gemm", "gemm.tflops", NOWHERE)
    assert one is not None
    assert (one.median, one.devices, one.unit, one.better) == (111.0, 9, "TFLOP/s", "higher")
    assert one.values == {f"node{h}": [speed(h, d) for d in range(3)] for h in range(3)}
    assert one.spread == pytest.approx(1.4826 * 9 / 111)
    assert (made.run, made.kind, made.level, made.count, made.saved) == (runs.RUN, "rehearsal", "smoke", 3, 7.0)
    assert [step.name for step in made.steps] == ["gemm"]


def test_a_baseline_is_read_back_as_it_was_saved_and_is_never_overwritten(tmp_path: Path) -> None:
    run = fleets.run(tmp_path / "reports", 2, speed)
    made = save(run)
    assert baselines.load(tmp_path / "reports", "good") == made
    with pytest.raises(Refused, match=r"good\.json: exists already, and a baseline is never overwritten"):
        save(run)
    with pytest.raises(Refused, match="unknown 'goot'; did you mean 'good'"):
        baselines.load(tmp_path / "reports", "goot")


@pytest.mark.parametrize("name", ["../x", "a/b", "", ".", "a b", "x" * 61, "-rf"])
def test_a_baseline_has_a_plain_name(tmp_path: Path, name: str) -> None:
    with pytest.raises(Refused, match="wanted is a plain name"):
        baselines.load(tmp_path, name)


def test_nothing_passed_means_no_baseline(tmp_path: Path) -> None:
    run = fleets.run(tmp_path / "reports", 1, speed, wrong=(0,))
    with pytest.raises(Refused, match=r"no host passed, .*; node0: step gemm cpu0: gemm\.wrong"):
        save(run)
    with pytest.raises(Refused, match="no host matches --hosts 'rack"):
        save(run, hosts="rack*")


def test_a_run_of_two_skus_makes_one_baseline_for_each(tmp_path: Path) -> None:
    asked = runs.hardware(count=2, level="standard")
    plans = {sku: runs.plan(dataclasses.replace(asked, sku=sku), steps=("gemm",)) for sku in ("h100-pcie", "h200-sxm")}
    run = Run.of(tmp_path / "reports", runs.RUN)
    for index, (sku, plan) in enumerate(plans.items()):
        one = dataclasses.replace(plan, host=f"{sku}-node{index}")
        run.expect([runs.expected(one)])
        run.host(one.host).mkdir(parents=True)
        (run.host(one.host) / "plan.json").write_bytes(strict.encode(one))
        runs.write(tmp_path / one.host, one, fleets.answers(one, 0, lambda h, d: 9999.0, False))
        runs.bring(run, one.host, tmp_path / one.host)
    with pytest.raises(
        Refused, match="sku is h100-pcie and h200-sxm; one baseline for each: choose hosts with --hosts"
    ):
        save(run)
    assert save(run, "h200", "h200*").sku == "h200-sxm"


def test_a_file_that_is_no_baseline_or_bears_another_name_is_refused(tmp_path: Path) -> None:
    run = fleets.run(tmp_path / "reports", 1, speed)
    save(run)
    path = words.named(tmp_path / "reports", "good")
    path.with_name("other.json").write_bytes(path.read_bytes())
    with pytest.raises(Refused, match="is baseline 'good'; a baseline keeps the name"):
        baselines.load(tmp_path / "reports", "other")
    path.write_text('{"schema": "gpuburn/plan/1"}')
    with pytest.raises(Refused, match="not a baseline; wanted is schema 'gpuburn/baseline/1'"):
        baselines.load(tmp_path / "reports", "good")


def test_a_baseline_of_an_older_version_is_still_read(tmp_path: Path) -> None:
    entry = {
        "step": "gemm", "about": "gemm.tflops", "unit": "TFLOP/s", "point": {}, "median": 1.0, "devices": 3,
        "method": "0" * 16,
    }  # fmt: skip
    old = {
        "schema": words.SCHEMA, "name": "old", "run": runs.RUN, "sku": "", "kind": "rehearsal", "level": "smoke",
        "saved": 1.0, "entries": [entry],
    }  # fmt: skip
    words.named(tmp_path, "old").parent.mkdir()
    words.named(tmp_path, "old").write_text(json.dumps(old))
    assert baselines.load(tmp_path, "old").entries[0].values == {}


def hosts(**changed: Any) -> list[preflight.Host]:
    return preflight.expect({"node1": {**TRIAL, "gpuburn_baseline": "good", **changed}}, "hosts.yml")


@pytest.fixture
def reports(tmp_path: Path) -> Path:
    """Reports with a run, its baseline, and a later run that is to begin."""
    whole = runs.plan(steps=("gemm", "allreduce"))
    save(fleets.run(tmp_path / "reports", 2, lambda h, d: 100.0, of=whole), hosts="node0")
    return tmp_path / "reports"


def test_what_has_no_reference_number_is_judged_by_the_baseline_and_the_plan_says_so(reports: Path) -> None:
    run = Run.of(reports, LATER)
    preflight.plan(run, hosts(), {"node1": json.dumps(SEEN)}, 1000.0, write=True)
    plan = run.plan("node1")
    assert plan is not None
    [one] = [x for x in plan.limits if (x.about, x.when.steps) == ("gemm.tflops", ("gemm",))]
    assert (one.min, one.warn_below, one.source, one.confidence) == (95.0, 97.0, "baseline", "high")
    assert one.reference and one.reference.name == "baseline good"
    assert baselines.load(reports, "good").digest in " ".join(plan.notes)
    other = [limit for limit in plan.limits if limit.about == "train.tokens"]
    assert other and all("baseline good has no number of it" in limit.informational for limit in other)


def test_a_baseline_that_is_missing_or_of_something_else_is_refused_before_anything_runs(reports: Path) -> None:
    real = {"gpuburn_kind": "hardware", "gpuburn_sku": "h200-sxm", "gpuburn_gpu_count": 8, "gpuburn_become": True}
    for changed, says in (
        ({"gpuburn_baseline": "goot"}, "did you mean 'good'"),
        (real, "baseline good is of rehearsal, this host is hardware h200-sxm"),
    ):
        with pytest.raises(Refused, match=f"^hosts.yml: host node1: gpuburn_baseline: .*{says}"):
            preflight.judging(Run.of(reports, LATER), hosts(**changed), "hosts.yml")


def test_a_run_is_not_judged_by_a_baseline_that_was_made_of_it(reports: Path) -> None:
    with pytest.raises(Refused, match=f"gpuburn_baseline: baseline good was made of run {runs.RUN} itself"):
        preflight.judging(Run.of(reports, runs.RUN), hosts(), "hosts.yml")


def test_a_host_is_not_judged_by_its_own_numbers(reports: Path) -> None:
    run = Run.of(reports, LATER)
    of_us = preflight.expect({"node0": {**TRIAL, "gpuburn_baseline": "good"}}, "hosts.yml")
    preflight.plan(run, of_us, {"node0": json.dumps(SEEN)}, 1000.0, write=True)
    plan = run.plan("node0")
    assert plan is not None
    [one] = [x for x in plan.limits if (x.about, x.when.steps) == ("gemm.tflops", ("gemm",))]
    assert one.uncalibrated and f"baseline good is of this very host, in run {runs.RUN}" in one.informational


def test_a_device_is_not_judged_by_its_own_numbers_under_another_name(tmp_path: Path) -> None:
    first = made.tried(tmp_path, made.FIRST, {"a": "pass", "c": "pass"})
    save(first, hosts="a")
    assert "a-gpu1-uuid" in baselines.load(first.folder.parent, "good").serials
    second = made.tried(tmp_path, made.SECOND, {"b": "pass"})
    ways = account.ways(second, made.NOW)
    ways = [dataclasses.replace(one, expected=dataclasses.replace(one.expected, baseline="good")) for one in ways]
    assert not list(baselines.circular(second, ways))
    [one], _ = account.settle(second, ways, now=made.NOW)
    assert str(one.decision) == "accepted"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(made, "serial", lambda host, device: f"a-{device}")
        third = made.tried(tmp_path, made.THIRD, {"b": "pass"})
    ways = account.ways(third, made.NOW)
    ways = [dataclasses.replace(one, expected=dataclasses.replace(one.expected, baseline="good")) for one in ways]
    [one], _ = account.settle(third, ways, now=made.NOW)
    assert str(one.decision) == "undecided"
    assert "a-gpu0 is among the devices that baseline good was made of" in one.reason
    words.named(third.folder.parent, "good").write_bytes(b"{")
    [one], _ = account.settle(third, ways, now=made.NOW)
    assert "nothing tells whether the host is judged by itself" in one.reason


def test_a_run_keeps_its_baseline_and_coming_back_with_another_is_refused(reports: Path) -> None:
    run, source = Run.of(reports, LATER), words.named(reports, "good")
    baselines.keep(run, ["good", ""], 5.0)
    [entry] = run.entries()
    assert entry.details == {"name": "good", "sha256": baselines.load(reports, "good").digest}
    baselines.keep(run, ["good"], 6.0)
    assert len(run.entries()) == 1
    text = source.read_text()
    source.write_text(text.replace('"median": 100.0', '"median": 90.0'))
    with pytest.raises(Refused, match=r"is not the baseline that run .* began with; another one is a new run"):
        baselines.keep(run, ["good"], 7.0)
    source.unlink()  # the run has its own copy
    baselines.keep(run, ["good"], 8.0)
    assert baselines.chosen(run, "good").run == runs.RUN
    kept = words.named(run.folder, "good")
    kept.write_text(text.replace('"median": 100.0', '"median": 90.0'))
    with pytest.raises(Refused, match="is not the baseline that run"):
        baselines.keep(run, ["good"], 9.0)


def test_the_command_line_saves_lists_and_shows(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fleets.run(tmp_path / "reports", 3, speed, wrong=(2,))
    assert call("baseline", "save", runs.RUN, "good", "--reports", tmp_path / "reports") == 0
    told = capsys.readouterr()
    assert "6 devices on 2 hosts" in told.out
    assert told.err.startswith("left out: node2: step gemm cpu0")
    assert call("baseline", "list", "--reports", tmp_path / "reports") == 0
    assert "good" in capsys.readouterr().out
    assert call("baseline", "show", "good", "--reports", tmp_path / "reports") == 0
    assert "gemm.tflops" in capsys.readouterr().out
    assert call("baseline", "save", runs.RUN, "good", "--reports", tmp_path / "reports") == 3
    assert "never overwritten" in capsys.readouterr().err
