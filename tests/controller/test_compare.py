"""Comparing runs, deliveries and baselines: a ratio with its interval, or in words why there is none."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import fleets
import pytest
import runs

from gpuburn.controller import account, baseline_of_run, baselines
from gpuburn.controller.__main__ import main
from gpuburn.controller.compare import Row, compare, text
from gpuburn.controller.run import Run
from gpuburn.controller.sides import Side, side
from gpuburn.plan import Plan
from gpuburn.strict import Refused

FIRST, LATER, THIRD = "20260101T000000Z-0000", "20260202T000000Z-0001", "20260303T000000Z-0002"


def speed(times: float) -> fleets.Speed:
    return lambda host, device: times * (100.0 + 0.1 * ((7 * host + 3 * device) % 5))


def changed(plan: Plan, **step: Any) -> Plan:
    return dataclasses.replace(plan, steps=[dataclasses.replace(one, **step) for one in plan.steps])


def rows(a: Side, b: Side) -> dict[str, Row]:
    return {row.about: row for row in compare(a, b)}


@pytest.fixture
def reports(tmp_path: Path) -> Path:
    """Two runs of six hosts; the later one is 5 % faster, and one of its hosts failed."""
    fleets.run(tmp_path / "reports", 6, speed(1.0), id=FIRST)
    fleets.run(tmp_path / "reports", 6, speed(1.05), id=LATER, wrong=(5,))
    return tmp_path / "reports"


def test_the_ratio_of_medians_with_its_interval_and_what_it_means(reports: Path) -> None:
    a, b = side(FIRST, reports), side(LATER, reports)
    [row] = compare(a, b)
    assert (row.about, row.n, row.hosts, row.word) == ("gemm.tflops", (18, 18), (6, 6), "better")
    assert row.ratio and row.ratio.of == pytest.approx(1.05) and row.ratio.low and row.ratio.low > 1.04
    told = text(a, b, [row])
    assert f"A: {FIRST}: 6 hosts; kind rehearsal; level smoke" in told
    assert "of these 1 did not pass and are counted: node5" in told
    assert compare(a, a)[0].word == "same"


def test_a_part_of_a_run_can_be_compared(reports: Path) -> None:
    a, b = side(f"{FIRST}/node[0-3]", reports), side(FIRST, reports)
    [row] = compare(a, b)
    assert (row.hosts, row.word) == ((4, 6), "not enough hosts")
    assert "an interval needs 6 on either side" in text(a, b, [row])


def test_a_baseline_compares_as_the_run_that_it_was_made_of(reports: Path) -> None:
    run = Run.of(reports, FIRST)
    made, _ = baseline_of_run.made(run, account.give(run, runs.ISSUED), "good", "*", 1.0)
    baselines.save(reports, made)
    by_run, by_baseline = (compare(side(one, reports), side(LATER, reports)) for one in (FIRST, "baseline:good"))
    assert by_run == by_baseline


def test_a_baseline_that_kept_medians_only_has_no_interval(reports: Path) -> None:
    run = Run.of(reports, FIRST)
    made, _ = baseline_of_run.made(run, account.give(run, runs.ISSUED), "bare", "*", 1.0)
    bare = [dataclasses.replace(one, values={}) for one in made.entries]
    baselines.save(reports, dataclasses.replace(made, entries=bare))
    [row] = compare(side("baseline:bare", reports), side(LATER, reports))
    assert row.ratio and row.ratio.of == pytest.approx(1.05)
    assert (row.ratio.low, row.word, row.n) == (None, "no interval: one side kept medians only", (18, 18))


def test_a_delivery_is_all_its_runs_and_of_a_hosts_attempts_the_last_stands(tmp_path: Path) -> None:
    reports, plan = tmp_path / "reports", runs.plan(runs.request(delivery="lot-7"), steps=("gemm",))
    fleets.run(reports, 4, speed(1.0), of=plan, id=FIRST)
    fleets.run(reports, 2, speed(2.0), of=plan, id=LATER)
    fleets.run(reports, 3, speed(9.0), id=THIRD)
    one = side("delivery:lot-7", reports)
    [quantity] = one.quantities["gemm", "gemm.tflops", ""].values()
    assert {host: values[0] > 150 for host, values in quantity.values.items()} == {
        "node0": True, "node1": True, "node2": False, "node3": False,
    }  # fmt: skip
    assert one.told["run"] == {FIRST, LATER}


@pytest.mark.parametrize(
    ("step", "says"),
    [
        ({"params": {"size": 96}}, "parameter size was"),
        ({"threads": 3}, "threads was 1, is 3"),
        ({"env": {"OMP_PROC_BIND": "close"}}, "environment OMP_PROC_BIND was not set, is close"),
    ],
)
def test_what_was_measured_in_another_way_is_named_and_not_compared(tmp_path: Path, step: Any, says: str) -> None:
    reports, plan = tmp_path / "reports", runs.plan(steps=("gemm",))
    settled = {**plan.steps[0].params, **step["params"]} if "params" in step else None
    fleets.run(reports, 6, of=plan, id=FIRST)
    fleets.run(reports, 6, of=changed(plan, **{**step, **({"params": settled} if settled else {})}), id=LATER)
    [row] = compare(side(FIRST, reports), side(LATER, reports))
    assert row.why.startswith(says)
    assert row.ratio is None


def test_what_only_one_side_has_is_named(tmp_path: Path) -> None:
    reports = tmp_path / "reports"
    fleets.run(reports, 1, id=FIRST)
    fleets.run(reports, 1, of=runs.plan(steps=("gemm", "allreduce")), id=LATER)
    found = rows(side(FIRST, reports), side(LATER, reports))
    assert found["allreduce.busbw"].why == f"only in {LATER}"
    assert found["gemm.tflops"].why == ""


def test_steps_of_all_devices_together_are_compared_only_over_as_many(tmp_path: Path) -> None:
    reports = tmp_path / "reports"
    for id, count in ((FIRST, 3), (LATER, 2)):
        fleets.run(reports, 1, of=runs.plan(runs.request(count=count), steps=("gemm", "allreduce")), id=id)
    found = rows(side(FIRST, reports), side(LATER, reports))
    assert found["allreduce.busbw"].why == "devices of a host were 3, are 2"
    assert found["gemm.tflops"].why == ""


def test_another_unit_is_not_compared(reports: Path) -> None:
    a, b = side(FIRST, reports), side(LATER, reports)
    [ways] = b.quantities.values()
    for one in ways.values():
        one.unit = "GB/s"
    assert compare(a, b)[0].why == "unit was 'TFLOP/s', is 'GB/s'"


def test_kinds_are_never_compared_with_each_other(reports: Path) -> None:
    a, b = side(FIRST, reports), side(LATER, reports)
    b.told["kind"] = {"hardware"}
    with pytest.raises(Refused, match="are of kind rehearsal and hardware; wanted are two of one kind"):
        compare(a, b)


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("lot-7", "'lot-7': wanted is a run id, delivery:ID or baseline:NAME"),
        ("delivery:lot-8", "no run in .* is of this delivery"),
        ("delivery:", "no run in .* is of this delivery"),
        ("baseline:none", "unknown 'none'"),
        (f"{FIRST}/rack*", "no host with verified numbers"),
        ("20260909T000000Z-0000", "no such run"),
    ],
)
def test_a_side_that_is_nothing_is_refused(reports: Path, name: str, says: str) -> None:
    with pytest.raises(Refused, match=says):
        side(name, reports)


def call(*arguments: object) -> Any:
    with pytest.raises(SystemExit) as ended:
        main([str(one) for one in arguments])
    return ended.value.code


def test_the_command_line_compares_for_people_and_for_machines(
    reports: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call("compare", FIRST, LATER, "--reports", reports) == 0
    assert "1.0500" in capsys.readouterr().out
    texts = []
    for _ in range(2):
        assert call("compare", FIRST, LATER, "--reports", reports, "--json") == 0
        texts.append(capsys.readouterr().out)
    assert texts[0] == texts[1]
    document = json.loads(texts[0])
    assert document["compared"][0]["word"] == "better"
    assert document["b"]["not_passed"] == ["node5"]
    assert call("compare", FIRST, "x", "--reports", reports) == 3
    assert "wanted is a run id" in capsys.readouterr().err
