"""Taking results in: whatever a host changes, adds, leaves out or invents, the controller sees it from the evidence."""

from __future__ import annotations

import dataclasses
import json
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import runs

from gpuburn import evidence, run_folder, strict
from gpuburn.agent.seal import seal
from gpuburn.controller.collect import Collected, collect, take_in, unfinished
from gpuburn.controller.run import Run
from gpuburn.finding import Verdict
from gpuburn.identity import Event
from gpuburn.measurement import Reading, Work
from gpuburn.outcome import Outcome, Status
from gpuburn.plan import Plan
from gpuburn.strict import Refused


@pytest.fixture
def folder(tmp_path: Path, rehearsal: Plan) -> Path:
    """An honest run folder; the plan that was sent lies beside it."""
    runs.write(tmp_path / "run", rehearsal)
    (tmp_path / "plan.json").write_bytes(strict.encode(rehearsal))
    return tmp_path / "run"


def taken(folder: Path) -> Collected:
    return collect(folder, folder.parent / "plan.json")


def refused(folder: Path, says: str) -> None:
    with pytest.raises(Refused, match=says):
        taken(folder)


def result(folder: Path, change: Callable[[Any], Any]) -> None:
    runs.edit(folder / "result.json", change)


def test_an_honest_result_is_taken_as_it_is(folder: Path, rehearsal: Plan) -> None:
    found = taken(folder)
    assert found.verdicts == {"training": Verdict.PASS}
    assert found.result is not None
    assert found.findings == found.result.findings
    assert found.refused == []


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("host", "node2"),
        ("run", "20260101T000000Z-ffff"),
        ("nonce", "f" * 32),
        ("delivery", "another"),
        ("kind", "hardware"),
        ("environment", "vm"),
        ("level", "soak"),
        ("devices", []),
        ("left_out", [{"what": "everything", "why": "tired", "profiles": []}]),
    ],
)
def test_a_result_of_another_host_run_or_plan_is_refused(folder: Path, key: str, value: Any) -> None:
    result(folder, lambda document: document.update({key: value}))
    refused(folder, f"result.json: {key} is")


def test_a_result_of_another_plan_is_refused(folder: Path) -> None:
    result(folder, lambda document: document.update(plan_sha256="0" * 64))
    refused(folder, "of another plan than the one that was sent")


def test_yesterdays_result_is_refused(tmp_path: Path, rehearsal: Plan) -> None:
    yesterday = dataclasses.replace(rehearsal, nonce="e" * 32)
    runs.write(tmp_path / "run", yesterday)
    (tmp_path / "plan.json").write_bytes(strict.encode(rehearsal))
    refused(tmp_path / "run", "nonce is")


def test_a_plan_that_the_host_made_easier_is_refused(folder: Path, rehearsal: Plan) -> None:
    easier = runs.with_limit(rehearsal, "gemm.wrong", max=1e9)
    (folder / "plan.json").write_bytes(strict.encode(easier))
    runs.redigest(folder)
    refused(folder, "plan.json: is not the plan that was sent")


def test_a_run_judged_by_an_easier_plan_under_the_digest_of_ours_is_refused(tmp_path: Path, rehearsal: Plan) -> None:
    runs.write(tmp_path / "run", runs.with_limit(rehearsal, "gemm.wrong", max=1e9))
    ours = strict.encode(rehearsal)
    (tmp_path / "plan.json").write_bytes(ours)
    (tmp_path / "run" / "plan.json").write_bytes(ours)
    result(tmp_path / "run", lambda document: document.update(plan_sha256=strict.digest(ours)))
    runs.redigest(tmp_path / "run")
    refused(tmp_path / "run", "its findings do not follow from its evidence")


FILES = ["plan.json", "identity.json", "events.jsonl", "steps/gemm/outcome.json", "steps/gemm/readings.cpu1.jsonl",
         "steps/idle/telemetry.jsonl"]  # fmt: skip


@pytest.mark.parametrize("name", FILES[1:])
def test_a_changed_file_is_named(folder: Path, name: str) -> None:
    data = (folder / name).read_bytes()
    (folder / name).write_bytes(data.replace(b"1", b"2", 1) if b"1" in data else data + b" ")
    refused(folder, f"evidence is missing, added or changed: {name}")


@pytest.mark.parametrize("name", FILES[1:])
def test_a_missing_file_is_named(folder: Path, name: str) -> None:
    (folder / name).unlink()
    refused(folder, f"evidence is missing, added or changed: {name}")


@pytest.mark.parametrize("name", ["more.txt", "steps/gemm/readings.cpu9.jsonl", "steps/other/outcome.json"])
def test_an_added_file_is_named(folder: Path, name: str) -> None:
    (folder / name).parent.mkdir(exist_ok=True)
    (folder / name).write_bytes(b"")
    refused(folder, f"evidence is missing, added or changed: {name}")


def test_a_file_that_is_in_the_list_under_another_name_is_refused(folder: Path) -> None:
    def rename(document: Any) -> None:
        document["evidence"]["steps/gemm/x"] = document["evidence"].pop("steps/gemm/readings.cpu0.jsonl")

    result(folder, rename)
    refused(folder, "evidence is missing, added or changed")


def in_outcome(folder: Path, step: str, change: Callable[[Any], Any]) -> None:
    """Change an outcome in both places, and the digests: what a forger does who knows our files."""
    runs.edit(folder / "steps" / step / "outcome.json", change)
    result(folder, lambda document: [change(one) for one in document["outcomes"] if one["step"] == step])
    runs.redigest(folder)


def test_an_outcome_that_differs_between_its_two_places_is_refused(folder: Path) -> None:
    result(folder, lambda document: document["outcomes"][1].update(why="all is well"))
    refused(folder, "its outcomes are not those")
    result(folder, lambda document: document["outcomes"].reverse())
    refused(folder, "its outcomes are not those")


NUMBERS: dict[str, Callable[[Any], Any]] = {
    "a better value": lambda one: one["measurements"][0].update(value=1e6),
    "a better low": lambda one: one["measurements"][0].update(low=1e6),
    "another unit": lambda one: one["measurements"][0].update(unit="%"),
    "another subject": lambda one: one["measurements"][0].update(subject="cpu2"),
    "a higher count": lambda one: one["measurements"][0].update(count=10**6),
    "a number too many": lambda one: one["measurements"].append({**one["measurements"][0], "name": "gemm.wrong"}),
    "a number too few": lambda one: one["measurements"].pop(),
    "another fact": lambda one: one["facts"][0].update(value="another"),
    "no facts": lambda one: one.update(facts=[]),
    "more work": lambda one: one["subjects"][0]["work"].update(iterations=10**9),
    "no numbers and no facts": lambda one: one.update(facts=[], measurements=[]),
}


@pytest.mark.parametrize("change", NUMBERS.values(), ids=NUMBERS)
def test_numbers_that_do_not_follow_from_the_readings_are_refused(folder: Path, change: Callable[[Any], Any]) -> None:
    in_outcome(folder, "gemm", change)
    refused(folder, r"steps/gemm/outcome\.json: its numbers do not follow from the readings")


def test_readings_that_were_changed_with_all_digests_are_refused(folder: Path) -> None:
    with (folder / "steps/gemm/readings.cpu0.jsonl").open("ab") as file:
        file.write(evidence.dump(Reading("tflops", 99.0, subject="cpu0", at=runs.ISSUED)))
    runs.redigest(folder)
    refused(folder, "its numbers do not follow")


def test_work_in_the_outcome_without_a_line_that_proves_it_is_refused(tmp_path: Path, rehearsal: Plan) -> None:
    answers = runs.answers(rehearsal)
    answers["gemm"] = [one for one in answers["gemm"] if not isinstance(one, Work)]
    runs.write(tmp_path / "run", rehearsal, answers)
    (tmp_path / "plan.json").write_bytes(strict.encode(rehearsal))
    assert taken(tmp_path / "run").verdicts == {"training": Verdict.INCOMPLETE}
    in_outcome(tmp_path / "run", "gemm", lambda one: [s["work"].update(iterations=5) for s in one["subjects"]])
    refused(tmp_path / "run", "its numbers do not follow")


def test_a_wrong_element_cannot_be_hidden_behind_an_error(tmp_path: Path, rehearsal: Plan) -> None:
    """An outcome that claims nothing is only excused where its evidence cannot be read."""
    answers = runs.answers(rehearsal)
    answers["gemm"].append(Reading("wrong", 5.0, subject="cpu0", at=runs.ISSUED))
    runs.write(tmp_path / "run", rehearsal, answers)
    (tmp_path / "plan.json").write_bytes(strict.encode(rehearsal))
    assert taken(tmp_path / "run").verdicts == {"training": Verdict.FAIL}
    silent = {"measurements": [], "facts": [], "status": "errored", "why": "its evidence was unusable"}
    in_outcome(tmp_path / "run", "gemm", lambda one: one.update(silent))
    refused(tmp_path / "run", "its numbers do not follow")


def test_a_step_whose_evidence_nobody_can_read_is_incomplete_and_taken(tmp_path: Path, rehearsal: Plan) -> None:
    runs.write(tmp_path / "run", rehearsal)
    run = tmp_path / "run"
    (run / "steps/gemm/readings.cpu0.jsonl").write_bytes(b"garbage\n")
    errored = {"status": "errored", "why": "the step's evidence is not usable", "measurements": [], "facts": []}
    runs.edit(run / "steps/gemm/outcome.json", lambda one: one.update(errored))
    runs.conclude(run, rehearsal)
    (tmp_path / "plan.json").write_bytes(strict.encode(rehearsal))
    assert taken(run).verdicts == {"training": Verdict.INCOMPLETE}
    runs.edit(run / "steps/gemm/outcome.json", lambda one: one.update(status="completed"))
    runs.conclude(run, rehearsal)
    refused(run, r"gemm/readings\.cpu0\.jsonl:1")


JUDGEMENT: dict[str, Callable[[Any], Any]] = {
    "a verdict": lambda document: document["verdicts"].update(training="incomplete"),
    "a verdict more": lambda document: document["verdicts"].update(inference="pass"),
    "no verdict": lambda document: document["verdicts"].clear(),
    "a finding's verdict": lambda document: document["findings"][0].update(verdict="not_applicable"),
    "a finding's words": lambda document: document["findings"][0].update(why="trust us"),
    "a finding more": lambda document: document["findings"].append(document["findings"][0]),
    "a finding less": lambda document: document["findings"].pop(),
    "the order of findings": lambda document: document["findings"].reverse(),
    "no findings": lambda document: document["findings"].clear(),
}


@pytest.mark.parametrize("change", JUDGEMENT.values(), ids=JUDGEMENT)
def test_a_judgement_that_does_not_follow_is_refused(folder: Path, change: Callable[[Any], Any]) -> None:
    result(folder, change)
    refused(folder, "its findings do not follow from its evidence")


RECORD: dict[str, Callable[[Any], Any]] = {
    "a reboot hidden": lambda document: document["record"]["boots"].clear(),
    "a serial changed": lambda document: document["record"]["identities"][0]["sources"]["dmi"].update(
        product_serial="S2"
    ),
    "a kernel log claimed": lambda document: document["record"].update(kernel_log="not read"),
    "an event added": lambda document: document["record"]["events"].append(
        {"code": "kernel.xid", "at": 1, "about": "a", "text": "b"}
    ),
}


@pytest.mark.parametrize("change", RECORD.values(), ids=RECORD)
def test_a_record_that_is_not_that_of_its_files_is_refused(folder: Path, change: Callable[[Any], Any]) -> None:
    result(folder, change)
    refused(folder, "its record of the host is not that")


HOSTILE: dict[str, Callable[[bytes], bytes]] = {
    "NaN": lambda data: data.replace(b'"started": ', b'"started": NaN, "x": ', 1),
    "an infinite number": lambda data: data.replace(b'"seconds": 1.0', b'"seconds": 1e999', 1),
    "a key twice": lambda data: data.replace(b'"run": ', b'"run": "a", "run": ', 1),
    "an unknown schema": lambda data: data.replace(b"gpuburn/result/1", b"gpuburn/result/9", 1),
    "deep nesting": lambda data: b"[" * 10**6,
    "nothing": lambda data: b"",
    "half of it": lambda data: data[: len(data) // 2],
    "NUL in a name": lambda data: data.replace(b"node1.site", b"node1\\u0000site", 1),
    "a lone surrogate": lambda data: data.replace(b"node1.site", b"node1\\ud800site", 1),
    "a huge integer": lambda data: data.replace(b'"attempt": 1', b'"attempt": ' + b"9" * 4000, 1),
}


@pytest.mark.parametrize("change", HOSTILE.values(), ids=HOSTILE)
def test_a_hostile_result_is_refused(folder: Path, change: Callable[[bytes], bytes]) -> None:
    data = (folder / "result.json").read_bytes()
    changed = change(data)
    assert changed != data
    (folder / "result.json").write_bytes(changed)
    refused(folder, r"^result\.json")


def test_an_oversized_result_is_not_read(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpuburn.result.LIMIT", 1000)
    refused(folder, "longer than 1000 bytes")


def test_no_noise_raises_anything_but_refused(folder: Path) -> None:
    """200 changes of random bytes in random files, digests kept in order: each is refused or seen through."""
    random_ = random.Random(20260101)
    names = [*FILES[1:], "result.json"]
    kept = {name: (folder / name).read_bytes() for name in names}
    for _ in range(200):
        name = random_.choice(names)
        data = bytearray(kept[name])
        for _ in range(random_.randint(1, 4)):
            data[random_.randrange(len(data))] = random_.choice(b'09-.eE"{}[]:,\\ \x00\xffanull')
        (folder / name).write_bytes(bytes(data))
        try:
            if name != "result.json":
                runs.redigest(folder)
            found = taken(folder)
        except Refused:
            pass
        else:
            assert found.verdicts == {"training": Verdict.PASS}
        for one in (name, "result.json"):
            (folder / one).write_bytes(kept[one])


def places(value: Any) -> list[tuple[Any, Any]]:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [pair for key, item in items for pair in [(value, key), *places(item)]]


def test_no_value_of_another_type_raises_anything_but_refused(folder: Path) -> None:
    """Every kind of JSON value in 150 places of the result and of an outcome."""
    random_ = random.Random(20260102)
    values = [None, True, -1, 1.5, 1e300, "", "x" * 1000, [], [[]], {}, {"a": {}}, 2**53]
    for name in ("result.json", "steps/gemm/outcome.json"):
        kept = (folder / name).read_bytes()
        for _ in range(75):
            document = json.loads(kept)
            place, key = random_.choice(places(document))
            place[key] = random_.choice(values)
            (folder / name).write_bytes(json.dumps(document).encode())
            try:
                if name != "result.json":
                    in_outcome(folder, "idle", lambda one: None)
                taken(folder)
            except Refused:
                pass
            (folder / name).write_bytes(kept)
            runs.redigest(folder)


def home(tmp_path: Path, plan: Plan, folder: Path) -> Collected | None:
    run = runs.home(tmp_path / "reports", plan)
    runs.bring(run, plan.host, folder)
    return take_in(run, plan.host)


def test_what_comes_home_is_unsealed_and_judged(tmp_path: Path, rehearsal: Plan, folder: Path) -> None:
    found = home(tmp_path, rehearsal, folder)
    assert found is not None
    assert (found.verdicts, found.refused) == ({"training": Verdict.PASS}, [])


def test_nothing_came_and_nothing_was_sent(tmp_path: Path, rehearsal: Plan) -> None:
    run = runs.home(tmp_path / "reports", rehearsal)
    assert take_in(run, "node1") is None
    assert take_in(run, "node2") is None


def test_a_refusal_is_told_and_not_raised(tmp_path: Path, rehearsal: Plan, folder: Path) -> None:
    result(folder, lambda document: document.update(nonce="0" * 32))
    seal(folder)
    found = home(tmp_path, rehearsal, folder)
    assert found is not None
    assert (found.result, found.verdicts, found.findings) == (None, {}, [])
    assert "nonce" in found.refused[0]


def test_garbage_is_refused_and_the_next_archive_taken(tmp_path: Path, rehearsal: Plan, folder: Path) -> None:
    run = runs.home(tmp_path / "reports", rehearsal)
    run.incoming("node1").parent.mkdir()
    run.incoming("node1").write_bytes(b"garbage")
    found = take_in(run, "node1")
    assert found is not None
    assert found.refused
    runs.bring(run, "node1", folder)
    again = take_in(run, "node1")
    assert again is not None
    assert again.verdicts == {"training": Verdict.PASS}


def forge(folder: Path, plan: Plan) -> None:
    """A failed product becomes a good one, in every file that says so, with all digests."""
    for path in (folder / "steps/gemm").glob("readings.*.jsonl"):
        path.write_bytes(path.read_bytes().replace(b'"value":5.0', b'"value":0.0'))
    bare = dataclasses.replace(run_folder.outcomes(folder, plan)[1], measurements=[], facts=[])
    (folder / "steps/gemm/outcome.json").write_bytes(
        strict.encode(run_folder.amounts(folder, plan, plan.steps[1], bare))
    )
    runs.conclude(folder, plan)
    (folder / "sealed.tar.gz").unlink()


TOUCHES: dict[str, Callable[[Path, Plan], Any]] = {
    "forged with all digests": forge,
    "a reading more": lambda run, plan: (run / "steps/gemm/readings.cpu0.jsonl").open("ab").write(b"\n"),
    "a file lost": lambda run, plan: (run / "steps/gemm/readings.cpu0.jsonl").unlink(),
    "a file more": lambda run, plan: (run / "steps/gemm/note").write_bytes(b""),
    "a link": lambda run, plan: [(run / "plan.json").unlink(), (run / "plan.json").symlink_to("/etc/passwd")],
    "no result": lambda run, plan: (run / "result.json").unlink(),
    "nothing left": lambda run, plan: shutil.rmtree(run),
}


@pytest.mark.parametrize("touch", TOUCHES.values(), ids=TOUCHES)
def test_what_is_judged_is_the_sealed_file_and_not_what_lies_unpacked(
    tmp_path: Path, rehearsal: Plan, touch: Callable[[Path, Plan], Any]
) -> None:
    answers = runs.answers(rehearsal)
    answers["gemm"].append(Reading("wrong", 5.0, subject="cpu0", at=runs.ISSUED))
    runs.write(tmp_path / "failed", rehearsal, answers)
    run = runs.home(tmp_path / "reports", rehearsal)
    runs.bring(run, "node1", tmp_path / "failed")
    first = take_in(run, "node1")
    assert first and first.verdicts == {"training": Verdict.FAIL}
    home = run.host("node1") / "run"
    truth = {path: path.read_bytes() for path in home.rglob("*") if path.is_file()}
    touch(home, rehearsal)
    assert take_in(run, "node1") == first
    assert {path: path.read_bytes() for path in home.rglob("*") if path.is_file()} == truth, "repaired"


def later(run: Run, folder: Path, number: int) -> None:
    """Another sealed file of the same host arrives."""
    run.incoming("node1", number).write_bytes((folder / "sealed.tar.gz").read_bytes())


def answered(tmp_path: Path, plan: Plan, name: str, wrong: float = 0.0, whole: bool = True) -> Path:
    answers = runs.answers(plan)
    answers["gemm"].append(Reading("wrong", wrong, subject="cpu0", at=runs.ISSUED))
    runs.write(tmp_path / name, plan, answers)
    if not whole:
        (tmp_path / name / "result.json").unlink()
        seal(tmp_path / name)
    return tmp_path / name


PASS, FAIL, INCOMPLETE = Verdict.PASS, Verdict.FAIL, Verdict.INCOMPLETE
BAD, PART, BAD_PART, GOOD = (5.0, True), (0.0, False), (5.0, False), (0.0, True)


@pytest.mark.parametrize(
    ("came", "verdict", "contradicted"),
    [
        ((GOOD, BAD), INCOMPLETE, True),
        ((BAD, GOOD), FAIL, True),
        ((PART, GOOD), PASS, False),
        ((BAD_PART, GOOD), FAIL, True),
        ((GOOD, PART), PASS, False),
        ((GOOD, BAD_PART), INCOMPLETE, True),
        ((PART, BAD), FAIL, False),
        ((PART, BAD_PART), FAIL, False),
        ((BAD_PART, PART), FAIL, False),
        ((PART, GOOD, BAD), INCOMPLETE, True),
    ],
)
def test_of_several_sealed_files_the_first_result_counts_and_no_later_one_makes_it_better(
    tmp_path: Path, rehearsal: Plan, came: tuple[tuple[float, bool], ...], verdict: Verdict, contradicted: bool
) -> None:
    run = runs.home(tmp_path / "reports", rehearsal)
    for number, (wrong, whole) in enumerate(came, 1):
        folder = answered(tmp_path, rehearsal, f"host{number}", wrong, whole)
        runs.bring(run, "node1", folder) if number == 1 else later(run, folder, number)
    before = {path: path.read_bytes() for path in (run.folder / "incoming").iterdir()}
    found = take_in(run, "node1")
    assert found and found.verdicts == {"training": verdict}
    said = [one.why for one in found.findings if one.code == "host.another_result"]
    assert bool(said) is contradicted
    assert all("another result came: node1" in why for why in said)
    assert {path: path.read_bytes() for path in (run.folder / "incoming").iterdir()} == before


def test_a_result_that_was_refused_is_not_mended_by_a_later_one(tmp_path: Path, rehearsal: Plan, folder: Path) -> None:
    run = runs.home(tmp_path / "reports", rehearsal)
    later_on = answered(tmp_path, rehearsal, "good")
    result(folder, lambda document: document.update(nonce="0" * 32))
    seal(folder)
    runs.bring(run, "node1", folder)
    later(run, later_on, 2)
    found = take_in(run, "node1")
    assert found and "nonce" in found.refused[0]


def test_what_is_no_archive_is_no_result_and_a_later_one_is_taken(
    tmp_path: Path, rehearsal: Plan, folder: Path
) -> None:
    run = runs.home(tmp_path / "reports", rehearsal)
    runs.bring(run, "node1", folder)
    run.incoming("node1").write_bytes(run.incoming("node1").read_bytes()[:-100])
    later(run, folder, 2)
    found = take_in(run, "node1")
    assert found and (found.verdicts, found.refused) == ({"training": PASS}, [])


def without_result(tmp_path: Path, plan: Plan, wrong: float = 0.0) -> Path:
    answers = runs.answers(plan)
    answers["gemm"].append(Reading("wrong", wrong, subject="cpu0", at=runs.ISSUED))
    runs.write(tmp_path / "cut", plan, answers)
    (tmp_path / "cut" / "result.json").unlink()
    seal(tmp_path / "cut")
    return tmp_path / "cut"


@pytest.mark.parametrize(("wrong", "verdict"), [(0.0, Verdict.INCOMPLETE), (1.0, Verdict.FAIL)])
def test_without_a_result_the_outcomes_may_fail_a_host_and_never_pass_it(
    tmp_path: Path, rehearsal: Plan, wrong: float, verdict: Verdict
) -> None:
    found = home(tmp_path, rehearsal, without_result(tmp_path, rehearsal, wrong))
    assert found is not None
    assert (found.result, found.refused) == (None, [])
    assert found.verdicts == {"training": verdict}
    assert "host.no_result" in [one.code for one in found.findings]


def test_without_a_result_the_evidence_is_still_not_believed(tmp_path: Path, rehearsal: Plan) -> None:
    folder = without_result(tmp_path, rehearsal)
    runs.edit(folder / "steps/gemm/outcome.json", NUMBERS["a better value"])
    with pytest.raises(Refused, match="its numbers do not follow"):
        unfinished(folder, rehearsal)
    (folder / "plan.json").write_bytes(b"{}")
    with pytest.raises(Refused, match="not the plan that was sent"):
        unfinished(folder, rehearsal)


def test_a_run_that_was_cut_short_is_judged_by_what_it_did(tmp_path: Path, rehearsal: Plan) -> None:
    def cut(one: Outcome) -> Outcome:
        return dataclasses.replace(one, status=Status.ABORTED, why="stopped") if one.step == "gemm" else one

    runs.write(tmp_path / "run", rehearsal, fared=cut)
    (tmp_path / "plan.json").write_bytes(strict.encode(rehearsal))
    found = taken(tmp_path / "run")
    assert found.verdicts == {"training": Verdict.INCOMPLETE}
    assert "step.aborted" in [one.code for one in found.findings]


def test_a_reboot_and_an_xid_come_home_as_findings(tmp_path: Path, rehearsal: Plan) -> None:
    events = [
        Event(run_folder.BOOT, 1.0, "host", "boot-1"), Event("kernel.xid", 2.0, "0000:17:00", "Xid 79"),
        Event(run_folder.BOOT, 3.0, "host", "boot-2"), Event(run_folder.KERNEL_LOG_READ, 4.0, "host", ""),
    ]  # fmt: skip
    runs.write(tmp_path / "run", rehearsal, events=events)
    (tmp_path / "plan.json").write_bytes(strict.encode(rehearsal))
    found = taken(tmp_path / "run")
    assert found.verdicts == {"training": Verdict.FAIL}
    assert {"host.rebooted", "xid.reject"} <= {one.code for one in found.findings}


def test_a_moment_that_no_calendar_has_is_read(tmp_path: Path, folder: Path) -> None:
    result(folder, lambda document: document.update(started=1e300, ended=-1e300))
    assert taken(folder).result is not None
