"""The pipeline on the host: plan -> steps -> outcomes -> findings -> result.json. Read top to bottom.

The supervisor: standard library and YAML only, never CUDA or NVML, never blocked by its workers.
"""

from __future__ import annotations

import dataclasses
import fcntl
import importlib.metadata
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Literal

from gpuburn import __version__, lost, plan as plans, result as results, run_folder, strict
from gpuburn.accused import accused
from gpuburn.agent import bug_report, hardware, kernel_log, state
from gpuburn.agent.bug_report import BugReport
from gpuburn.agent.kernel_log import KernelLog
from gpuburn.agent.lifeline import adopt
from gpuburn.agent.seal import seal
from gpuburn.agent.state import State
from gpuburn.agent.step import TICK, carry_out, measured, save, tidy
from gpuburn.agent.user import Account
from gpuburn.events import failing
from gpuburn.identity import Event, HostRecord
from gpuburn.outcome import Outcome, Status, SubjectOutcome
from gpuburn.plan import Plan, Step, subjects
from gpuburn.probe import discover
from gpuburn.strict import Refused
from gpuburn.verdict import HARDWARE_GUARDS, judge, verdicts

ATTEMPTS = 2  # a step that was interrupted runs once more; interrupted again it is errored
HEARTBEAT = 5.0
HEARD = 1.0  # seconds between two looks at what NVML told in a step


class Run:
    """One run on this host, in its folder. May be started again after a crash or a reboot: finished steps are kept."""

    def __init__(self, folder: Path, script: Path = bug_report.SCRIPT) -> None:
        self.folder = folder
        self.report = BugReport(folder, script)
        self.plan = plans.decode((folder / "plan.json").read_bytes())
        self.account = Account.named(self.plan.worker)
        earlier = state.load(folder)
        if earlier and earlier.run != self.plan.run:
            raise Refused(f"{folder}: holds run {earlier.run}, not {self.plan.run}")
        now, boot = time.time(), hardware.look().boot_id
        self.kernel_log = KernelLog(after=_read_so_far(earlier, boot))
        self.state = State(
            self.plan.run, os.getpid(), started=earlier.started if earlier else now, expected=self.plan.expected(),
            of=len(self.plan.steps), deadline=self.plan.deadline, attempts=earlier.attempts if earlier else {},
            boot=boot, kernel_log=self.kernel_log.last,
        )  # fmt: skip
        self._rebooted = bool(earlier and earlier.boot != boot)
        self._signal = ""
        self._beat = self._heard = 0.0
        self._alarm = ""

    def go(self) -> None:
        """Carry the plan out, and write result.json last."""
        adopt()
        signal.signal(signal.SIGTERM, self._on_signal)
        signal.signal(signal.SIGINT, self._on_signal)
        for left in self.folder.rglob(".*.tmp"):
            left.unlink()  # an earlier process was cut short while it wrote
        self._log(run_folder.BOOT, self.state.boot)
        if self.kernel_log.why:
            self._log(run_folder.KERNEL_LOG_LOST, self.kernel_log.why)
        elif self._rebooted:
            self._log(kernel_log.OVERRUN, "the host booted in between; what its kernel said last is not known")
        self._note()
        self._look()
        for number, step in enumerate(self.plan.steps, 1):
            if not (self._step_folder(step) / "outcome.json").exists() and not self.stopped():
                self._note(phase="running", step=step.name, number=number, step_started=time.time(),
                           step_expected=step.expected)  # fmt: skip
                self._step(step)
        self._look()
        self._note(phase="judging")
        self._finish()
        self._note(phase="finished")

    def stopped(self) -> str:
        """Why the run is to end before its plan does; "" while it may go on."""
        if self._signal or (self.folder / "stop").exists():
            return self._signal or "stopped on request"
        return "the run's deadline has passed" if time.time() > self.plan.deadline else ""

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        self._signal = f"stopped by {signal.Signals(number).name}"

    def _step(self, step: Step) -> None:
        folder = self._step_folder(step)
        attempt = self.state.attempts.get(step.name, 0) + 1
        self._note(attempts={**self.state.attempts, step.name: attempt})
        if folder.exists():  # an attempt that a crash or a reboot cut short is kept, but does not count
            kept = self.folder / "interrupted" / f"{step.name}-{attempt - 1}"
            kept.parent.mkdir(exist_ok=True)
            tidy(folder, self.account)
            folder.rename(kept)
            self._log("step.interrupted", f"attempt {attempt - 1} of {step.name} was cut short")
        folder.mkdir(parents=True)
        if attempt > ATTEMPTS:
            save(folder, _interrupted(self.plan, step, attempt))
            return
        gone = lost.gone(self.plan, run_folder.outcomes(self.folder, self.plan))
        if why := _too_few(self.plan, step, gone):
            save(folder, _errored(self.plan, step, attempt, why))
            return
        self._tick()  # what was said until now is not this step's
        self._alarm = ""
        stopped = partial(self._alarmed, folder) if discover()[step.probe].pulses else self.stopped
        try:
            outcome = carry_out(self.plan, step, folder, self.account, attempt, stopped, self._tick,
                                self.report.pids, gone)  # fmt: skip
        except (OSError, subprocess.SubprocessError) as error:
            # A full disk or a missing account ends this step, not the run.
            outcome = _errored(self.plan, step, attempt, f"could not be carried out: {error}")
            outcome = measured(self.plan, step, folder, outcome)
        self._tick()
        save(folder, outcome)
        trips = [trip.why for trip in outcome.trips if trip.guard in HARDWARE_GUARDS]
        told = [one for one in run_folder.nvml_events(self.folder) if failing(one)]
        for why in [*trips, *(f"{one.code} of {one.about}: {one.text}" for one in told), *self._accused()][:1]:
            self._append(list(self.report.begin(why)))

    def _alarmed(self, folder: Path) -> str:
        """Why a step that loads in steps is to end: as any other, or because kernel or NVML told of a failure."""
        if not self._alarm and time.monotonic() - self._heard > HEARD:
            self._heard = time.monotonic()
            told = [one for one in run_folder.step_events(folder) if failing(one)]
            self._alarm = f"{told[0].code} of {told[0].about}: {told[0].text}" if told else ""
        return self.stopped() or self._alarm

    def _accused(self) -> list[str]:
        """What the steps until now say against a GPU; looked for until the first such finding."""
        if self.report.folder.exists():
            return []
        outcomes = run_folder.outcomes(self.folder, self.plan)
        return list(accused(judge(self.plan, outcomes, HostRecord([], [], [], "")), self.plan.devices))

    def _tick(self) -> None:
        failed = [one for one in self._hear() if failing(one)]
        if failed:
            self._alarm = f"{failed[0].code} of {failed[0].about}: {failed[0].text}"
            self._append(list(self.report.begin(self._alarm)))
        self._append(list(self.report.advance()))
        if time.monotonic() - self._beat > HEARTBEAT:
            self._beat = time.monotonic()
            self._note()

    def _hear(self) -> list[Event]:
        """What the kernel said since the last time, kept at once."""
        events = list(self.kernel_log.events())
        if events:
            self._append(events)
            self._note()
        return events

    def _look(self) -> None:
        """One look at the host's identity, added to identity.json."""
        path = self.folder / "identity.json"
        looks = strict.loads(path.read_bytes(), "identity.json") if path.exists() else []
        state.write(path, strict.encode([*looks, strict.plain(hardware.look(data=str(self.folder)))]))

    def _finish(self) -> None:
        self._tick()
        while self.report.busy():  # bounded by its deadlines
            if self.stopped():
                self.report.cut_short(self.stopped())
            self._tick()
            time.sleep(TICK)
        if not self.kernel_log.why:
            self._hear()
            self._append(list(self.kernel_log.totals()))
            self._log(run_folder.KERNEL_LOG_READ, "followed to the end")
        self.kernel_log.close()
        plan, outcomes, record = self.plan, run_folder.outcomes(self.folder, self.plan), run_folder.record(self.folder)
        findings = judge(plan, outcomes, record)
        ended: Literal["finished", "aborted", "deadline"] = "finished"
        if len(outcomes) < len(plan.steps) or any(one.status is Status.ABORTED for one in outcomes):
            ended = "deadline" if time.time() > plan.deadline else "aborted"
        result = results.Result(
            results.SCHEMA, plan.run, plan.delivery, plan.host, socket.gethostname(), plan.kind, plan.environment,
            plan.level,
            plan.nonce, strict.digest((self.folder / "plan.json").read_bytes()), self.state.started, time.time(), ended,
            plan.devices, record, outcomes, findings, verdicts(plan, findings), plan.left_out, versions(),
            results.evidence(self.folder), plan.criteria,
        )  # fmt: skip
        state.write(self.folder / "result.json", strict.encode(result))
        seal(self.folder)

    def _log(self, code: str, text: str, about: str = "host") -> None:
        self._append([Event(code, time.time(), about, text)])

    def _append(self, events: list[Event]) -> None:
        if not events:
            return
        with (self.folder / "events.jsonl").open("ab") as file:
            file.write(b"".join(strict.line(event) for event in events))
            file.flush()
            os.fsync(file.fileno())

    def _note(self, **changed: object) -> None:
        changed = {"updated": time.time(), "kernel_log": self.kernel_log.last, **changed}
        self.state = dataclasses.replace(self.state, **changed)  # type: ignore[arg-type]
        state.save(self.folder, self.state)

    def _step_folder(self, step: Step) -> Path:
        return self.folder / "steps" / step.name


def _read_so_far(earlier: State | None, boot: str) -> int:
    """The kernel log's record after which to go on: what was said while no supervisor listened counts too."""
    if earlier is None:
        return kernel_log.NOW
    return earlier.kernel_log if earlier.boot == boot else kernel_log.FIRST


def versions() -> dict[str, str]:
    """What did the measuring, by package."""
    found = {"gpuburn": __version__, "python": ".".join(map(str, sys.version_info[:3]))}
    for name in ("torch", "nvidia-ml-py", "PyYAML"):
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue  # absent stays absent
    return found


def _errored(plan: Plan, step: Step, attempt: int, why: str) -> Outcome:
    silent = [SubjectOutcome(name, Status.ERRORED, why) for name in subjects(plan, step)]
    return Outcome(step.name, step.probe, step.revision, Status.ERRORED, why, time.time(), 0.0, attempt, silent, [], [],
                   params=step.params)  # fmt: skip


def _too_few(plan: Plan, step: Step, gone: dict[str, str]) -> str:
    """Why a step has not the devices that it takes; "" if it has. What looks at the host needs none."""
    wanted, left = discover()[step.probe].least_devices, len(plan.devices) - len(gone)
    if step.scope == "host" or left >= wanted:
        return ""
    return f"takes {wanted} device(s), left are {left}: {'; '.join(f'{name} {why}' for name, why in gone.items())}"


def _interrupted(plan: Plan, step: Step, attempt: int) -> Outcome:
    return _errored(plan, step, attempt, f"interrupted {attempt - 1} times by a crash or a reboot of the host")


def locked(folder: Path, then: Callable[[], None]) -> bool:
    """Do it under the folder's lock; False if another process holds it."""
    with (folder / "lock").open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        then()
        return True


def _sealed_late(folder: Path) -> None:
    """Seal a result whose supervisor ended just before it could."""
    seal(folder)


def run(folder: Path) -> bool:
    """Carry out FOLDER/plan.json unless it has a result. False if another process is at it."""
    if (folder / "result.json").exists():
        return (folder / "sealed.tar.gz").exists() or locked(folder, partial(_sealed_late, folder))
    return locked(folder, lambda: Run(folder).go())
