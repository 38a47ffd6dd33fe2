"""Carry out one step: start, watch (time, guards, sampler, stop), end, and write down what became of it."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

from gpuburn import evidence, result as results, run_folder, strict
from gpuburn.agent import state
from gpuburn.agent.foreign import ForeignLoad
from gpuburn.agent.guard import Watch
from gpuburn.agent.launch import Pids, Processes, overall
from gpuburn.agent.room import Room, tail
from gpuburn.agent.user import Account
from gpuburn.measurement import Work
from gpuburn.outcome import GuardTrip, Outcome, Status, SubjectOutcome
from gpuburn.plan import Plan, Step, subjects
from gpuburn.strict import MEBIBYTE, Refused

TICK = 0.1  # seconds between looks at the processes
GUARD_TICK = 1.0
KEPT = MEBIBYTE  # bytes of a log, and of evidence that became too long
NAMED = 100  # of the files that were no evidence
WHY = 1000  # characters

Cut = tuple[Status, str]
Stopped = Callable[[], str]
Tick = Callable[[], None]


def carry_out(
    plan: Plan, step: Step, folder: Path, account: Account, attempt: int, stopped: Stopped, tick: Tick,
    beside: Pids = list, gone: Mapping[str, str] = MappingProxyType({}),
) -> Outcome:  # fmt: skip
    """Run a step in its (new, empty) folder. stopped: why the run is to end now, or "". tick: called at every look.

    beside: processes that are none of the step's. gone: devices that are given no work, and why.
    """
    started, begun = time.time(), time.monotonic()
    processes = Processes(plan, step, folder, account, beside, gone)
    trips: list[GuardTrip] = []
    try:
        processes.start()
        guards = [guard for guard in plan.guards if not guard.probes or step.probe in guard.probes]
        foreign = any(guard.name == "foreign_load" for guard in guards)
        others = ForeignLoad(processes.group.folder) if foreign else None
        watch = Watch(guards, folder, folder / "telemetry.jsonl", others)
        cut = _watch(processes, watch, Room(folder.parents[1], folder), step, trips, stopped, tick)
        if cut:
            survivors = processes.end()
            if survivors:
                cut = (Status.UNKILLABLE, f"processes {survivors} survived SIGKILL; the step had {cut[1]}")
    finally:
        processes.close()
        tidy(folder, account)
    outcome = Outcome(
        step.name, step.probe, step.revision, Status.COMPLETED, "", started, round(time.monotonic() - begun, 3),
        attempt, [], [], [], trips, processes.environment, step.params,
    )  # fmt: skip
    return _concluded(plan, step, folder, outcome, processes, cut)


def _watch(
    processes: Processes, watch: Watch, room: Room, step: Step, trips: list[GuardTrip], stopped: Stopped, tick: Tick
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
            if room.exceeded():
                return Status.ERRORED, room.exceeded()
        tick()
        time.sleep(TICK)
    return None


def _concluded(
    plan: Plan, step: Step, folder: Path, outcome: Outcome, processes: Processes, cut: Cut | None
) -> Outcome:
    """Put together what the workers left. A failure that does not parse makes its step errored, and is said."""
    try:
        fared = processes.subjects(*cut) if cut else processes.subjects(None, "")
        status, why = cut or overall(fared)
    except Refused as error:
        status, why = Status.ERRORED, f"the step's evidence is not usable: {error}"
        fared = [SubjectOutcome(name, status, why) for name in subjects(plan, step)]
    return measured(plan, step, folder, replace(outcome, status=status, why=why, subjects=fared))


def measured(plan: Plan, step: Step, folder: Path, outcome: Outcome) -> Outcome:
    """The outcome with what its evidence amounts to, as the controller makes it again; nothing if any is unusable."""
    try:
        return run_folder.amounts(folder.parents[1], plan, step, outcome)
    except Refused as error:
        before = f"{outcome.why}; " if outcome.why else ""
        why = f"{before}the step's evidence is not usable: {error}"[:WHY]
        silent = [SubjectOutcome(name, Status.ERRORED, why, Work()) for name in subjects(plan, step)]
        return replace(outcome, status=Status.ERRORED, why=why, subjects=silent)


def tidy(folder: Path, account: Account) -> None:
    """Remove scratch and hand-shakes, cut what is too long, take the folder from the workers: now it is evidence.

    Their processes are gone. What they left that is no folder and no file under a plain name is removed and listed.
    """
    removed = [] if _without(folder / "scratch") else ["scratch, in part"]
    for path in [*folder.glob("ready.*"), *folder.glob("go")]:
        _without(path)
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if name.partition("/")[0] == "scratch":
            continue
        if path.is_symlink() or not (path.is_dir() or path.is_file()) or not results.NAME.fullmatch(name):
            removed += [repr(name)[:100]] if _without(path) else []
            continue
        if account.uid is not None:
            os.lchown(path, 0, 0)
        if path.name.startswith("stacks.") and not path.stat().st_size:  # of a process that ended by itself
            path.unlink()
            continue
        path.chmod(0o755 if path.is_dir() else 0o644)
        _cut(path)
    if account.uid is not None:
        os.lchown(folder, 0, 0)
    if removed:
        (folder / "removed.txt").write_text("\n".join(removed[:NAMED]) + "\n")


def _without(path: Path) -> bool:
    """Remove what is there, whatever it is; whether it is gone."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)
    return not path.exists()


def _cut(path: Path) -> None:
    """Of a long log the end is kept, of evidence that passed its bound the beginning, in whole lines."""
    if not path.is_file():
        return
    size = path.stat().st_size
    if path.suffix == ".jsonl" and size > evidence.LINES:
        with path.open("rb+") as file:
            file.truncate(file.read(KEPT).rfind(b"\n") + 1)
    elif path.suffix != ".jsonl" and size > KEPT:
        path.write_bytes(b"[the beginning was cut off]\n" + tail(path, KEPT))


def save(folder: Path, outcome: Outcome) -> None:
    """outcome.json: written once, as a whole."""
    state.write(folder / "outcome.json", strict.encode(outcome))
