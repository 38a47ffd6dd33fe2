"""The run folder: what its files say, read the same on host and controller, and nothing taken from elsewhere."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
import runs

from gpuburn import evidence, run_folder, strict
from gpuburn.identity import Event, HostRecord
from gpuburn.measurement import Reading, Work
from gpuburn.plan import Plan
from gpuburn.strict import Refused


@pytest.fixture
def folder(tmp_path: Path, rehearsal: Plan) -> Path:
    runs.write(tmp_path / "run", rehearsal)
    return tmp_path / "run"


def amounts(folder: Path, plan: Plan, name: str) -> object:
    step = plan.step(name)
    assert step is not None
    return run_folder.amounts(folder, plan, step, runs.outcome(plan, step, []))


def test_the_outcomes_come_in_the_order_of_the_plan(folder: Path, rehearsal: Plan) -> None:
    found = run_folder.outcomes(folder, rehearsal)
    assert [one.step for one in found] == [step.name for step in rehearsal.steps]
    assert found == list(runs.outcomes(rehearsal).values())


def test_a_step_without_an_outcome_has_none(folder: Path, rehearsal: Plan) -> None:
    (folder / "steps" / "gemm" / "outcome.json").unlink()
    assert [one.step for one in run_folder.outcomes(folder, rehearsal)] == ["idle", "allreduce"]


def test_an_outcome_of_another_step_is_refused(folder: Path, rehearsal: Plan) -> None:
    other = (folder / "steps" / "idle" / "outcome.json").read_bytes()
    (folder / "steps" / "gemm" / "outcome.json").write_bytes(other)
    with pytest.raises(Refused, match=r"steps/gemm/outcome\.json: is about step 'idle'"):
        run_folder.outcomes(folder, rehearsal)


def test_an_outcome_that_is_a_link_is_refused(folder: Path, rehearsal: Plan) -> None:
    (folder / "steps" / "gemm" / "outcome.json").unlink()
    (folder / "steps" / "gemm" / "outcome.json").symlink_to(folder / "steps" / "idle" / "outcome.json")
    with pytest.raises(Refused, match="not a regular file"):
        run_folder.outcomes(folder, rehearsal)


def test_numbers_are_made_from_the_lines_and_not_from_the_outcome(folder: Path, rehearsal: Plan) -> None:
    step = rehearsal.step("gemm")
    assert step is not None
    whole = runs.outcomes(rehearsal)["gemm"]
    bragging = dataclasses.replace(
        whole,
        measurements=[dataclasses.replace(one, value=9e9) for one in whole.measurements],
        facts=[],
        subjects=[dataclasses.replace(one, work=Work(10**9)) for one in whole.subjects],
    )
    assert run_folder.amounts(folder, rehearsal, step, bragging) == whole


def test_work_that_no_line_proves_is_none(folder: Path, rehearsal: Plan) -> None:
    step = rehearsal.step("gemm")
    assert step is not None
    for path in (folder / "steps" / "gemm").glob("readings.*.jsonl"):
        path.unlink()
    again = run_folder.amounts(folder, rehearsal, step, runs.outcomes(rehearsal)["gemm"])
    assert {(one.work.iterations, one.work.bytes, one.work.joules) for one in again.subjects} == {(0, 0, 0.0)}


def test_a_worker_cannot_speak_for_the_sampler_nor_the_sampler_for_a_worker(folder: Path, rehearsal: Plan) -> None:
    worker, sampler = folder / "steps/gemm/readings.cpu0.jsonl", folder / "steps/gemm/telemetry.jsonl"
    kept = worker.read_bytes()
    worker.write_bytes(kept + evidence.dump(Reading("samples", 1.0, subject="host")))
    with pytest.raises(Refused, match="evidence of 'samples'"):
        amounts(folder, rehearsal, "gemm")
    worker.write_bytes(kept)
    sampler.write_bytes(evidence.dump(Reading("wrong", 0.0, subject="cpu0")))
    with pytest.raises(Refused, match="evidence of 'wrong'"):
        amounts(folder, rehearsal, "gemm")


def test_the_sampler_proves_no_work(folder: Path, rehearsal: Plan) -> None:
    (folder / "steps/gemm/readings.cpu0.jsonl").unlink()
    with (folder / "steps/gemm/telemetry.jsonl").open("ab") as file:
        file.write(evidence.dump(Work(99, subject="cpu0")))
    again = amounts(folder, rehearsal, "gemm")
    assert again.subjects[0].work.iterations == 0  # type: ignore[attr-defined]


def test_a_line_about_a_device_that_was_not_planned_is_refused(folder: Path, rehearsal: Plan) -> None:
    with (folder / "steps/gemm/readings.cpu0.jsonl").open("ab") as file:
        file.write(evidence.dump(Reading("wrong", 0.0, subject="cpu7")))
    with pytest.raises(Refused, match="about 'cpu7'"):
        amounts(folder, rehearsal, "gemm")


def test_the_record_of_the_host_is_in_its_files(folder: Path) -> None:
    record = run_folder.record(folder)
    assert [boot.boot_id for boot in record.boots] == ["boot-1"]
    assert (record.kernel_log, record.events, len(record.identities)) == ("read", [], 2)


def test_an_empty_folder_records_nothing_and_says_so(tmp_path: Path) -> None:
    assert run_folder.record(tmp_path) == HostRecord()
    assert run_folder.record(tmp_path).kernel_log == "not read"


def events(folder: Path, *codes: tuple[str, str]) -> HostRecord:
    lines = [strict.line(Event(code, 1.0, "host", text)) for code, text in codes]
    (folder / "events.jsonl").write_bytes(b"".join(lines))
    return run_folder.record(folder)


def test_a_kernel_log_that_was_once_lost_was_not_read(tmp_path: Path) -> None:
    lost, read = (run_folder.KERNEL_LOG_LOST, "no permission"), (run_folder.KERNEL_LOG_READ, "to the end")
    assert events(tmp_path, lost, read).kernel_log == "no permission"
    assert events(tmp_path, read, lost).kernel_log == "no permission"
    assert events(tmp_path, read).kernel_log == "read"
    assert events(tmp_path).kernel_log == "not read"


def test_what_happened_is_kept_in_order(tmp_path: Path) -> None:
    record = events(
        tmp_path, (run_folder.BOOT, "b1"), ("kernel.xid", "Xid 79"), (run_folder.BOOT, "b2"), ("other", "x")
    )
    assert [boot.boot_id for boot in record.boots] == ["b1", "b2"]
    assert [event.code for event in record.events] == ["kernel.xid", "other"]


def test_an_event_that_a_crash_cut_short_is_left_out_and_a_broken_one_refused(tmp_path: Path) -> None:
    events(tmp_path, ("a", "x"), ("b", "y"))
    whole = (tmp_path / "events.jsonl").read_bytes()
    (tmp_path / "events.jsonl").write_bytes(whole[:-3])
    assert [event.code for event in run_folder.record(tmp_path).events] == ["a"]
    (tmp_path / "events.jsonl").write_bytes(b"garbage\n" + whole)
    with pytest.raises(Refused, match=r"events\.jsonl:1"):
        run_folder.record(tmp_path)


@pytest.mark.parametrize("text", ["{}", "[1]", "[{}]", '[{"taken": 1}]', '[{"taken": NaN, "boot_id": "a"}]'])
def test_an_identity_that_is_not_one_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "identity.json").write_text(text)
    with pytest.raises(Refused, match=r"^identity\.json"):
        run_folder.record(tmp_path)
