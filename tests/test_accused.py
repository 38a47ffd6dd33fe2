"""At the end of the step in which a GPU fails the vendor's report is begun; at what is no board's fault it is not."""

from __future__ import annotations

from pathlib import Path

import pytest
import runs

from gpuburn import run_folder, strict
from gpuburn.agent import run as supervisor
from gpuburn.finding import Verdict, finding
from gpuburn.measurement import Fact, Reading
from gpuburn.plan import Plan, Step
from gpuburn.probe import Taken

STEPS = ("gpu_health", "idle", "gemm", "gpu_health_after")


@pytest.fixture
def plan() -> Plan:
    return runs.plan(runs.hardware(count=2, privileges="user"), steps=STEPS)


def reports(plan: Plan, folder: Path, monkeypatch: pytest.MonkeyPatch, until: str, *changed: Taken) -> list[str]:
    """Why reports were begun in a run whose last step so far is `until`, with these readings and facts in it."""
    taken = runs.answers(plan)
    mine = {(getattr(one, "metric", "") or getattr(one, "name", ""), one.subject) for one in changed}
    taken[until] = [
        one for one in taken[until] if (getattr(one, "metric", "") or getattr(one, "name", ""), one.subject) not in mine
    ] + list(changed)
    folder.mkdir()
    (folder / "plan.json").write_bytes(strict.encode(plan))
    one = supervisor.Run(folder, folder / "no-script")
    monkeypatch.setattr(supervisor, "carry_out", lambda of, step, *others: runs.outcome(of, step, taken[step.name]))
    for step in plan.steps[: 1 + plan.steps.index(_named(plan, until))]:
        one._step(step)
    events = run_folder.read_events(folder / "events.jsonl")
    one.kernel_log.close()
    return [event.text for event in events if event.code == "bug_report.started"]


def _named(plan: Plan, name: str) -> Step:
    step = plan.step(name)
    assert step is not None
    return step


@pytest.mark.parametrize(("until", "changed", "why"), [
    ("gemm", Reading("uncorrected", 2.0, subject="gpu1"), "telemetry.uncorrected of gpu1 in step gemm"),
    ("gemm", Reading("remapped", 1.0, subject="gpu1"), "telemetry.remapped of gpu1 in step gemm"),
    ("gemm", Reading("lost", 1.0, subject="gpu0"), "telemetry.lost of gpu0 in step gemm"),
    ("idle", Reading("hw_slowdown", 3.0, subject="gpu0"), "telemetry.hw_slowdown of gpu0 in step idle"),
    ("gpu_health", Reading("remap_failure", 1.0, subject="gpu0"), "gpu_health.remap_failure of gpu0"),
    ("gpu_health_after", Reading("ecc_uncorrected_total", 9.0, subject="gpu1"),
     "gpu_health.ecc_uncorrected_total of gpu1 in step gpu_health_after"),
])  # fmt: skip
def test_a_gpu_that_fails_starts_the_report_at_the_end_of_its_step(
    plan: Plan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, until: str, changed: Taken, why: str
) -> None:
    [said] = reports(plan, tmp_path / "run", monkeypatch, until, changed)
    assert said.startswith(f"because of {why}")


def test_a_gpu_that_falls_silent_between_two_steps_starts_it(
    plan: Plan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = runs.answers

    def silent(of: Plan) -> dict[str, list[Taken]]:
        taken = answers(of)
        names = {*run_folder.probes_of(_named(of, "gemm"))[1].metrics}
        taken["gemm"] = [
            one for one in taken["gemm"] if one.subject != "gpu1" or getattr(one, "metric", "") not in names
        ]
        return taken

    monkeypatch.setattr(runs, "answers", silent)
    [said] = reports(plan, tmp_path / "run", monkeypatch, "gemm")
    assert said.startswith("because of telemetry.lost of gpu1 in step gemm: told its sensors in step ")


@pytest.mark.parametrize("changed", [
    (), (Reading("foreign", 1.0, subject="gpu1"),), (Fact("mig", "on", subject="gpu1"),),
    (Reading("silent", 1.0, subject="host"),),
])  # fmt: skip
def test_what_is_no_boards_fault_starts_none(
    plan: Plan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changed: tuple[Taken, ...]
) -> None:
    where = "gpu_health" if changed and isinstance(changed[0], Fact) else "gemm"
    assert reports(plan, tmp_path / "run", monkeypatch, where, *changed) == []


def test_every_quantity_that_accuses_is_one_that_exists() -> None:
    from gpuburn.accused import ABOUT, accused
    from gpuburn.plan import Device
    from gpuburn.probe import discover
    from gpuburn.telemetry import TELEMETRY

    known = {f"telemetry.{name}" for name in TELEMETRY.metrics}
    known |= {f"gpu_health.{name}" for name in discover()["gpu_health"].promises}
    assert known >= ABOUT
    told = finding("limit.failed", "telemetry.lost", Verdict.FAIL, "x", "limit", ("training",), subject="cpu0")
    assert not list(accused([told], [Device("cpu0", "cpu")]))
