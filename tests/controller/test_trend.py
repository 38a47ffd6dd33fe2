"""How a long step went over its time is read from its evidence; a short step has no trend."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
import runs

from gpuburn import run_folder
from gpuburn.controller.collect import Collected
from gpuburn.controller.trend import SHORTEST, trends
from gpuburn.finding import Verdict
from gpuburn.measurement import Reading
from gpuburn.plan import Plan

HOURS = 3.0


def went(tmp_path: Path, plan: Plan, seconds: float, lost: float) -> dict[str, float]:
    """A gemm step of so many seconds, at the end of which one device has lost this share; {device: its change}."""
    answers = runs.answers(plan)
    device = plan.devices[1].name
    many = [
        Reading("tflops", 700 * (1 - (lost * at / seconds if one.name == device else 0)), subject=one.name,
                at=runs.ISSUED + at)
        for one in plan.devices
        for at in range(0, int(seconds), 30)
    ]  # fmt: skip
    answers["gemm"] = [one for one in answers["gemm"] if getattr(one, "metric", "") != "tflops"] + many
    runs.write(tmp_path, plan, answers, fared=lambda one: dataclasses.replace(one, seconds=seconds))
    said = run_folder.outcomes(tmp_path, plan)
    collected = Collected(plan, said, [], {"training": Verdict.PASS})
    return {one.subject: one.change for one in trends(tmp_path, collected) if one.about == "gemm.tflops"}


def test_a_device_that_slows_down_has_a_trend_and_its_neighbours_have_none(tmp_path: Path, rehearsal: Plan) -> None:
    found = went(tmp_path / "run", rehearsal, HOURS * 3600, 0.06)
    assert found[rehearsal.devices[1].name] == pytest.approx(0.05, abs=0.01)  # of what is left after the warm-up
    assert found[rehearsal.devices[0].name] == pytest.approx(0.0, abs=1e-9)


def test_a_short_step_has_no_trend(tmp_path: Path, rehearsal: Plan) -> None:
    assert went(tmp_path / "run", rehearsal, SHORTEST - 60, 0.5) == {}


def test_the_turns_of_a_rotation_are_one_step_and_lose_together(tmp_path: Path, rehearsal: Plan) -> None:
    gemm = rehearsal.step("gemm")
    assert gemm is not None
    turns = [gemm, *(dataclasses.replace(gemm, name=f"gemm-r{number}") for number in range(2, 9))]
    limits = [one for one in rehearsal.limits if one.when.steps == ("gemm",)]
    plan = dataclasses.replace(rehearsal, steps=turns, limits=limits)
    answers, starts = runs.answers(plan), {}
    for number, step in enumerate(turns):
        starts[step.name] = runs.ISSUED + number * 3600.0
        answers[step.name] = [
            *(one for one in answers[step.name] if getattr(one, "metric", "") != "tflops"),
            *(Reading("tflops", 700.0 * (1 - 0.01 * number * (one.name == "cpu1")), subject=one.name,
                      at=starts[step.name] + at) for one in plan.devices for at in range(0, 600, 60)),
        ]  # fmt: skip
    runs.write(tmp_path, plan, answers,
               fared=lambda one: dataclasses.replace(one, seconds=600.0, started=starts[one.step]))  # fmt: skip
    said = run_folder.outcomes(tmp_path, plan)
    collected = Collected(plan, said, [], {"training": Verdict.PASS})
    found = {one.subject: one for one in trends(tmp_path, collected) if one.about == "gemm.tflops"}
    assert {one.step for one in found.values()} == {"gemm"}
    assert found["cpu1"].change == pytest.approx(0.06, abs=0.01) and found["cpu0"].change == pytest.approx(0, abs=1e-9)
