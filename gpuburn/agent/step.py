"""Carry out one step: start, watch (time, guards, sampler, stop), end, and write down what became of it."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from gpuburn import run_folder, strict
from gpuburn.agent import state
from gpuburn.agent.guard import Watch
from gpuburn.agent.launch import Account, Processes, overall
from gpuburn.measurement import Work
from gpuburn.outcome import GuardTrip, Outcome, Status, SubjectOutcome
from gpuburn.plan import Plan, Step, subjects
from gpuburn.strict import MEBIBYTE, Refused

TICK = 0.1  # seconds between looks at the processes
GUARD_TICK = 2.0
LOG = MEBIBYTE  # bytes of a log that are kept, from its end

Cut = tuple[Status, str]
Stopped = Callable[[], str]
Tick = Callable[[], None]


def carry_out(
    plan: Plan, step: Step, folder: Path, account: Account, attempt: int, stopped: Stopped, tick: Tick
) -> Outcome:
    """Run a step in its (new, empty) folder. stopped: why the run is to end now, or "". tick: called at every look."""
    started, begun = time.time(), time.monotonic()
    processes = Processes(plan, step, folder, account)
    trips: list[GuardTrip] = []
    try:
        processes.start()
        cut = _watch(processes, Watch(plan.guards, folder, folder / "telemetry.jsonl"), step, trips, stopped, tick)
        if cut:
            survivors = processes.end()
            if survivors:
                cut = (Status.UNKILLABLE, f"processes {survivors} survived SIGKILL; the step had {cut[1]}")
    finally:
        processes.close()
    _tidy(folder, account)
    outcome = Outcome(
        step.name, step.probe, step.revision, Status.COMPLETED, "", started, round(time.monotonic() - begun, 3),
        attempt, [], [], [], trips, step.env, step.params,
    )  # fmt: skip
    return _concluded(plan, step, folder, outcome, processes, cut)


def _watch(
    processes: Processes, watch: Watch, step: Step, trips: list[GuardTrip], stopped: Stopped, tick: Tick
) -> Cut | None:
    end, guarded = time.monotonic() + step.timeout, 0.0
    while not processes.advance():
        now = time.monotonic()
        why = stopped()
        if why:
            return Status.ABORTED, why
        if now > end:
            return Status.TIMED_OUT, f"longer than {step.timeout:g} s"
        if processes.blind():
            return Status.ERRORED, processes.blind()
        if now - guarded > GUARD_TICK:
            guarded = now
            trips += watch.trips()
            if trips:
                return Status.ABORTED, trips[0].why
        tick()
        time.sleep(TICK)
    return None


def _concluded(
    plan: Plan, step: Step, folder: Path, outcome: Outcome, processes: Processes, cut: Cut | None
) -> Outcome:
    """Put together what the workers left. Evidence that does not parse makes the step errored, and is said."""
    try:
        fared = processes.subjects(*cut) if cut else processes.subjects(None, "")
        status, why = overall(fared)
        outcome = replace(outcome, status=cut[0] if cut else status, why=cut[1] if cut else why, subjects=fared)
        return run_folder.amounts(folder.parent.parent, plan, step, outcome)
    except (Refused, KeyError, TypeError, ValueError) as error:
        why = f"the step's evidence is not usable: {error}"
        silent = [SubjectOutcome(name, Status.ERRORED, why, Work()) for name in subjects(plan, step)]
        return replace(outcome, status=Status.ERRORED, why=why, subjects=silent)


def _tidy(folder: Path, account: Account) -> None:
    """Remove scratch and hand-shakes, cut long logs, take the folder from the workers: from here on it is evidence."""
    shutil.rmtree(folder / "scratch", ignore_errors=False)
    for path in [*folder.glob("ready.*"), *folder.glob("go")]:
        path.unlink()
    for path in sorted(folder.rglob("*")):
        if path.is_symlink():
            path.unlink()  # a worker has no reason to make one, and a reader should not follow it
            continue
        if account.uid is not None:
            os.lchown(path, 0, 0)
        if path.is_dir():
            path.chmod(0o755)
            continue
        path.chmod(0o644)
        if "log" in path.relative_to(folder).parts and path.stat().st_size > LOG:
            path.write_bytes(b"[the beginning was cut off]\n" + path.read_bytes()[-LOG:])
    if account.uid is not None:
        os.lchown(folder, 0, 0)


def save(folder: Path, outcome: Outcome) -> None:
    """outcome.json: written once, as a whole."""
    state.write(folder / "outcome.json", strict.encode(outcome))
