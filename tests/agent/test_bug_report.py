"""Evidence for the vendor: NVIDIA's script or our own collection, bounded, once, never waited for."""

from __future__ import annotations

import dataclasses
import os
import signal
import time
from pathlib import Path

import pytest

from gpuburn import evidence, result as results, strict
from gpuburn.agent import bug_report, kernel_log, launch, processes, run as runs
from gpuburn.agent.bug_report import ABSENT, KEPT, STARTED, BugReport
from gpuburn.agent.run import Run
from gpuburn.agent.user import Account
from gpuburn.events import NVML_XID
from gpuburn.identity import Event
from gpuburn.outcome import GuardTrip
from tests.agent.test_kernel_log import FELL, Kernel, kernel  # noqa: F401  (a fixture)
from tests.agent.test_run import make, prepare, step

NOTHING = Path("/nonexistent/nvidia-bug-report.sh")
# As the real one: it packs what it says into FILE.gz beside the name that it is given.
REAL = 'test "$1 $2" = "--safe-mode --output-file" && echo packed > "$3.gz" && echo created'


@pytest.fixture(autouse=True)
def log(monkeypatch):
    monkeypatch.setattr(kernel_log, "tail", lambda size: (b"4,1,1,-;the end of the log\n", ""))


def script(folder: Path, text: str) -> Path:
    path = folder / "nvidia-bug-report.sh"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def whole(report: BugReport, why: str = "an Xid") -> list[Event]:
    """All that is said until there is nothing more to do."""
    said = list(report.begin(why))
    end = time.monotonic() + 60
    while report.busy():
        assert time.monotonic() < end
        said += report.advance()
        time.sleep(0.01)
    return said


def text(said: list[Event], code: str) -> str:
    return "; ".join(one.text for one in said if one.code == code)


def kept(run: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in sorted((run / "bug_report").iterdir())}


@pytest.fixture
def run(tmp_path):
    folder = tmp_path / "run"
    folder.mkdir()
    return folder


def test_the_vendors_script_is_run_and_what_it_made_is_evidence(tmp_path, run):
    said = whole(BugReport(run, script(tmp_path, REAL), root=True), "kernel.off_bus of 0000:18:00.0")
    assert [one.code for one in said] == [STARTED, KEPT] and "kernel.off_bus of 0000:18:00.0" in said[0].text
    assert kept(run)["nvidia-bug-report.log.gz"] == "packed\n" and kept(run)["script.txt"] == "created\n"
    assert "the end of the log" in kept(run)["kernel.log"] and "nvidia-bug-report.log.gz (7 bytes)" in text(said, KEPT)
    assert {"bug_report/nvidia-bug-report.log.gz", "bug_report/kernel.log"} <= set(results.evidence(run))


def test_it_is_collected_once_in_a_run_and_after_a_restart_not_again(tmp_path, run):
    one = BugReport(run, script(tmp_path, REAL), root=True)
    whole(one)
    assert whole(one) == [] and whole(BugReport(run, script(tmp_path, REAL), root=True)) == []


def test_one_that_a_restart_cut_short_is_concluded(tmp_path, run):
    list(BugReport(run, NOTHING, own=()).begin("an Xid"))
    (run / "bug_report" / "odd name").write_text("x")
    after = BugReport(run, NOTHING, own=())
    assert after.busy() and list(after.begin("another")) == []
    assert "odd name" in text(whole(after), ABSENT) and "odd name" not in kept(run)
    results.evidence(run)


@pytest.mark.parametrize(("root", "there", "why"), [
    (True, False, "is not on this host"), (False, True, "may be run by root only"),
])  # fmt: skip
def test_without_the_script_the_host_tells_what_it_can_and_why_is_said(tmp_path, run, root, there, why):
    path = script(tmp_path, "touch ran") if there else NOTHING
    own = (("hello.txt", ("echo", "hello")), ("gone.txt", ("no-such-program-here",)))
    said = whole(BugReport(run, path, root=root, own=own))
    assert kept(run)["hello.txt"] == "hello\n" and "ran" not in kept(run)
    assert why in text(said, ABSENT) and "no-such-program-here is not on this host" in text(said, ABSENT)
    assert "missing: " in kept(run)["contents.txt"]


def test_a_script_that_hangs_is_ended_with_its_children_at_its_deadline(tmp_path, run):
    path = script(tmp_path, "echo begun; sleep 1000 & echo $! > child; wait")
    report = BugReport(run, path, root=True, deadline=0.5)
    said = whole(report)
    assert "script.txt: ended at its deadline" in text(said, ABSENT) and kept(run)["script.txt"] == "begun\n"
    assert processes.start_time(int(kept(run)["child"])) is None and report.pids() == []


def test_nothing_waits_for_it(tmp_path, run):
    report = BugReport(run, script(tmp_path, "sleep 1000"), root=True)
    assert [one.code for one in report.begin("x")] == [STARTED]
    assert list(report.advance()) == [] and report.busy(), "it runs, and the supervisor goes on"
    [pid] = report.pids()
    assert processes.start_time(pid) is not None
    report.cut_short("stopped on request")
    assert list(report.advance()) and not report.busy() and processes.start_time(pid) is None


def test_a_run_that_is_stopped_asks_for_no_more(run):
    own = (("a.txt", ("sleep", "1000")), ("b.txt", ("echo", "b")))
    report = BugReport(run, NOTHING, own=own)
    list(report.begin("x"))
    list(report.advance())
    report.cut_short("stopped on request")
    said = list(report.advance())
    assert "b.txt: stopped on request" in text(said, ABSENT) and "b.txt" not in kept(run)


def test_an_output_without_end_is_cut(tmp_path, run, monkeypatch):
    monkeypatch.setattr(bug_report, "FILE", 4096)
    said = whole(BugReport(run, script(tmp_path, "exec head -c 100000 /dev/zero"), root=True))
    assert (run / "bug_report" / "script.txt").stat().st_size <= 4096
    assert f"script.txt: ended with status -{int(signal.SIGXFSZ)}" in text(said, ABSENT)


def test_all_files_together_are_bounded_and_what_is_left_out_is_said(tmp_path, run, monkeypatch):
    monkeypatch.setattr(bug_report, "ALL", 5000)
    said = whole(BugReport(run, script(tmp_path, "for i in 1 2 3; do head -c 2000 /dev/zero > $i; done"), root=True))
    assert sum(len(one) for one in kept(run).values()) <= 5000 + 500
    assert "not kept, 2000 bytes" in text(said, ABSENT)


def test_only_plain_files_under_plain_names_are_kept(tmp_path, run):
    odd = 'ln -s /etc/passwd link; mkfifo pipe; mkdir folder; echo x > folder/in; echo x > "a b"; echo x > fine'
    whole(BugReport(run, script(tmp_path, odd), root=True))
    assert {"fine", "kernel.log", "contents.txt"} == set(kept(run))
    results.evidence(run)


def test_a_script_that_fails_or_cannot_be_started_is_said(tmp_path, run):
    assert "script.txt: ended with status 3" in text(
        whole(BugReport(run, script(tmp_path, "exit 3"), root=True)), ABSENT
    )
    other = tmp_path / "other"
    other.mkdir()
    path = script(other, "")
    path.write_text("#!/no/such/interpreter\n")
    assert "script.txt: No such file" in text(whole(BugReport(other, path, root=True)), ABSENT)


def test_a_kernel_log_that_cannot_be_read_is_said(run, monkeypatch):
    monkeypatch.setattr(kernel_log, "tail", lambda size: (b"", "/dev/kmsg: Operation not permitted"))
    said = whole(BugReport(run, NOTHING, own=()))
    assert "Operation not permitted" in text(said, ABSENT) and set(kept(run)) == {"contents.txt"}


@pytest.fixture
def supervised(tmp_path, run):
    """A supervisor of one idle step, with a vendor's script that stays until it is told."""
    handlers = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    prepare(run, make([step("idle")], privileges="root", environment="bare_metal"))
    path = script(tmp_path, "sleep 0.2 && " + REAL)
    if os.geteuid() != 0:
        pytest.skip("the script is run by root only")
    yield Run(run, path)
    for number, handler in handlers.items():
        signal.signal(number, handler)


def test_the_first_failure_that_the_kernel_tells_starts_it_and_the_run_ends_with_it(kernel: Kernel, supervised, run):  # noqa: F811
    tick = supervised._tick

    def fell() -> None:
        if (run / "steps/idle/assignment.json").exists() and not kernel_said:
            kernel_said.append(kernel.say(2, FELL, level=3, at=time.clock_gettime(time.CLOCK_MONOTONIC)))
        tick()

    kernel_said: list[None] = []
    supervised._tick = fell
    supervised.go()
    result = results.decode((run / "result.json").read_bytes())
    codes = [one.code for one in result.record.events]
    assert codes == ["kernel.xid", STARTED, KEPT] and "Xid 79" in result.record.events[1].text
    assert "bug_report/nvidia-bug-report.log.gz" in result.evidence
    assert [(one.step, one.code) for one in result.findings if one.code == "xid.reject"] == [("idle", "xid.reject")]


@pytest.mark.usefixtures("kernel")
@pytest.mark.parametrize(("number", "begun"), [(79, True), (31, False)])
def test_what_only_nvml_told_during_a_step_starts_it_at_its_end(supervised, run, monkeypatch, number, begun):
    carry_out = runs.carry_out

    def told(plan, one, folder, *more):
        outcome = carry_out(plan, one, folder, *more)
        event = Event(NVML_XID, time.time(), "0000:18:00.0", f"Xid {number}, told by NVML")
        (folder / evidence.NVML_EVENTS).write_bytes(strict.line(event))
        return outcome

    monkeypatch.setattr(runs, "carry_out", told)
    supervised.go()
    assert ("bug_report/kernel.log" in results.decode((run / "result.json").read_bytes()).evidence) == begun


@pytest.mark.usefixtures("kernel")
@pytest.mark.parametrize(("guard", "begun"), [("temperature", True), ("disk_free", False)])
def test_a_gpu_too_hot_starts_it_and_a_full_disk_does_not(supervised, run, monkeypatch, guard, begun):
    carry_out = runs.carry_out

    def hot(*given):
        return dataclasses.replace(carry_out(*given), trips=[GuardTrip(guard, "gpu0", 99.0, "99 C is above 98 C")])

    monkeypatch.setattr(runs, "carry_out", hot)
    supervised.go()
    assert (run / "bug_report").exists() == begun


def test_the_end_of_a_step_ends_its_strays_and_not_the_report(tmp_path, run, monkeypatch):
    path = script(tmp_path, "sh -c 'sleep 1000' & wait")
    report = BugReport(run, path, root=True)
    list(report.begin("x"))
    list(report.advance())
    plan = make([step("idle")])
    workers = launch.Processes(plan, plan.steps[0], tmp_path, Account(), report.pids)
    [pid] = report.pids()
    end = time.monotonic() + 30
    while len(processes.tree([pid])) < 2:
        assert time.monotonic() < end
    members = processes.tree([pid])
    workers._end_strays()
    assert processes.alive(members) == members
    report.cut_short("enough")
    list(report.advance())


@pytest.mark.parametrize(
    "line", ["watchdog: BUG: soft lockup - CPU#3 stuck for 22s! [x:1]", "NVRM: Xid (PCI:0000:18:00): 31, x"]
)
def test_what_is_no_failure_of_hardware_starts_nothing(kernel: Kernel, supervised, run, line):  # noqa: F811
    kernel.say(2, line, level=3)
    supervised._tick()
    assert not (run / "bug_report").exists()
    kernel.say(3, FELL, level=3)
    supervised._tick()
    assert (run / "bug_report").exists()
    supervised.report.cut_short("enough")
    supervised._tick()
