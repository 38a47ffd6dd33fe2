"""A supervisor that comes back: what the kernel said meanwhile counts, and what cannot be known is said."""

from __future__ import annotations

import os
import signal

import pytest

from gpuburn import identity, result as results, strict
from gpuburn.agent import hardware, launch, processes, run as runs, state
from gpuburn.agent.kernel_log import FIRST, NOW
from gpuburn.agent.run import Run
from gpuburn.agent.state import State
from gpuburn.finding import Verdict
from gpuburn.outcome import Status
from tests.agent.test_kernel_log import FELL, Kernel, kernel  # noqa: F401  (a fixture)
from tests.agent.test_run import codes, make, prepare, step, supervise, until


@pytest.fixture
def go(tmp_path, monkeypatch):
    """Carry a plan out in this process, as a supervisor that comes back to this state."""
    handlers = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}

    def gone(boot: str = "", last: int = NOW) -> results.Result:
        plan = make([step("idle")], privileges="root", environment="bare_metal")
        prepare(tmp_path, plan)
        if boot:
            state.save(tmp_path, State(plan.run, 1, started=1.0, boot=boot, kernel_log=last))
        Run(tmp_path).go()
        return results.decode((tmp_path / "result.json").read_bytes())

    yield gone
    for number, handler in handlers.items():
        signal.signal(number, handler)


def here() -> str:
    return hardware.look().boot_id


def events(result: results.Result) -> list[str]:
    """Of the kernel: what a failure makes the supervisor collect is the business of test_bug_report.py."""
    return [event.code for event in result.record.events if event.code.startswith("kernel")]


def test_a_first_start_hears_only_what_is_said_from_then_on(kernel: Kernel, go, tmp_path):  # noqa: F811
    kernel.say(41, FELL)
    result = go()
    assert events(result) == [] and result.record.kernel_log == "read"
    assert (state.load(tmp_path).boot, state.load(tmp_path).kernel_log) == (here(), 41)


def test_an_xid_while_no_supervisor_listened_is_heard(kernel: Kernel, go, tmp_path):  # noqa: F811
    kernel.say(41)
    kernel.say(42, FELL)
    result = go(here(), last=41)
    assert events(result) == ["kernel.xid"] and result.record.kernel_log == "read"
    assert ("xid.reject", "", "host") in codes(result, Verdict.FAIL)
    assert state.load(tmp_path).kernel_log == 42


def test_what_was_heard_is_remembered_at_once(kernel: Kernel, tmp_path):  # noqa: F811
    """Else a crash before the next sign of life would make it heard, and told, twice."""
    prepare(tmp_path, make([step("idle")]))
    one = Run(tmp_path)
    one._beat = float("inf")
    kernel.say(42, FELL)
    one._tick()
    assert state.load(tmp_path).kernel_log == 42


def test_records_lost_meanwhile_are_never_a_clean_log(kernel: Kernel, go):  # noqa: F811
    kernel.say(50)
    result = go(here(), last=41)
    assert events(result) == ["kernel_log.overrun"]
    assert ("kernel_log.unreadable", "", "host") in codes(result, Verdict.INCOMPLETE)


def test_after_a_reboot_all_of_the_new_boot_is_heard_and_the_end_of_the_old_one_is_said_to_be_lost(
    kernel: Kernel,  # noqa: F811
    go,
):
    kernel.say(0, FELL)
    result = go("another boot", last=41)
    assert events(result) == ["kernel_log.overrun", "kernel.xid"]
    assert "booted in between" in result.record.events[0].text
    assert runs._read_so_far(State("r", 1, boot="another boot", kernel_log=41), here()) == FIRST


def test_a_step_that_could_not_be_carried_out_keeps_what_the_controller_will_find(
    kernel: Kernel,  # noqa: F811
    go,
    tmp_path,
    monkeypatch,
):
    end = launch.Processes.close

    def full(self) -> None:
        end(self)
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(launch.Processes, "close", full)
    outcome = go().outcomes[0]
    assert outcome.status is Status.ERRORED and "No space left on device" in outcome.why
    assert "idle.late" in {m.name for m in outcome.measurements}


def test_what_an_interrupted_attempt_left_is_evidence_without_its_scratch_and_links(kernel: Kernel, go, tmp_path):  # noqa: F811
    folder = tmp_path / "steps" / "idle"
    (folder / "scratch").mkdir(parents=True)
    (folder / "scratch" / "checkpoint").touch()
    (folder / "link").symlink_to("/etc/passwd")
    (folder / "readings.host.jsonl").touch()
    result = go(here(), last=41)
    assert [one for one in result.evidence if one.startswith("interrupted")] == [
        "interrupted/idle-0/readings.host.jsonl", "interrupted/idle-0/removed.txt",
    ]  # fmt: skip
    assert not list(tmp_path.rglob("checkpoint"))


def test_a_result_that_was_not_sealed_any_more_is_sealed_by_the_next_start(kernel: Kernel, go, tmp_path):  # noqa: F811
    go()
    first = (tmp_path / "sealed.tar.gz").read_bytes()
    (tmp_path / "sealed.tar.gz").unlink()
    assert runs.run(tmp_path)
    assert (tmp_path / "sealed.tar.gz").read_bytes() == first


@pytest.mark.parametrize("probe", ["idle", "gemm"])
def test_sigterm_while_a_step_starts_ends_every_child_and_writes_the_result(probe, tmp_path):
    prepare(tmp_path, make([step(probe, seconds=600.0, timeout=900.0)]))
    supervisor = supervise(tmp_path)
    until(lambda: len(processes.tree([supervisor.pid])) > 1)  # the sampler at least, of up to four
    them = processes.tree([supervisor.pid])
    supervisor.send_signal(signal.SIGTERM)
    assert supervisor.wait(60) == 0
    assert processes.alive(them) == [] and running_in(str(tmp_path)) == []
    result = results.decode((tmp_path / "result.json").read_bytes())
    assert result.ended_as == "aborted" and [one.status for one in result.outcomes] == [Status.ABORTED]


def running_in(folder: str) -> list[int]:
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/cmdline", "rb") as file:
                found += [int(name)] if folder.encode() in file.read() else []
        except OSError:
            continue
    return found


def test_a_plan_and_a_state_of_two_runs_are_refused(tmp_path):
    prepare(tmp_path, make([step("idle")]))
    state.save(tmp_path, State("another", 1))
    with pytest.raises(strict.Refused, match="holds run another"):
        Run(tmp_path)


def test_who_the_host_is_is_looked_at_at_every_start_and_at_the_end(kernel: Kernel, go, tmp_path):  # noqa: F811
    earlier = identity.Identity(1.0, "another boot", {"disk.nvme9n1": {"serial": "S1", "pci": "0000:46:00.0"}}, {})
    (tmp_path / "identity.json").write_bytes(strict.encode([earlier]))
    result = go("another boot", last=41)
    assert [look.boot_id for look in result.record.identities] == ["another boot", here(), here()]
    gone = [one for one in result.findings if one.about == "identity.disk" and one.verdict is Verdict.FAIL]
    assert "S1 at 0000:46:00.0 is gone" in [one.why.removeprefix("changed during the run: ") for one in gone]
