"""A hardware host at a level that may accept, without a fault: what each test of this folder changes one thing of."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import runs

from gpuburn.agent.seal import seal
from gpuburn.controller.account import Account, give
from gpuburn.controller.run import Run
from gpuburn.measurement import Fact, Reading
from gpuburn.outcome import Outcome, Status
from gpuburn.plan import Plan
from gpuburn.probe import Taken

NOW = runs.ISSUED + 60
GPUS = 8
STEPS = ("gemm",)
TWO = ("gemm", "allreduce")
OWN = ("gpu_uuid", "gpu_serial")  # what no two devices share
Answers = dict[str, list[Taken]]


def plan(host: str = "bad", steps: tuple[str, ...] = STEPS, **asked: Any) -> Plan:
    return runs.plan(runs.hardware(**{"host": host, "count": GPUS, "level": "standard", **asked}), steps)


def healthy(of: Plan) -> Answers:
    """What a good host answers: every number as good as its reference, every device with a number of its own."""
    good = {(one.when.steps[0], one.about.partition(".")[2]): one.reference.value for one in of.limits if one.reference}
    found: Answers = {}
    for step, taken in runs.answers(of).items():
        found[step] = [_good(of.host, one, good.get((step, getattr(one, "metric", "")))) for one in taken]
    return found


def _good(host: str, one: Taken, reference: float | None) -> Taken:
    if isinstance(one, Fact) and one.name in OWN:
        return dataclasses.replace(one, value=f"{one.name} of {host} {one.subject}")
    if isinstance(one, Reading) and reference:
        return dataclasses.replace(one, value=reference)
    return one


def changed(of: Plan, step: str, name: str, to: float | str, subjects: tuple[str, ...] = ()) -> Answers:
    """The answers of a good host, but for one quantity: of these subjects, or of all."""
    said = healthy(of)
    said[step] = put(said[step], name, to, subjects)
    return said


def put(taken: list[Taken], name: str, to: float | str, subjects: tuple[str, ...] = ()) -> list[Taken]:
    """What a step answered, with another value of one quantity."""
    assert any(_is(one, name, subjects) for one in taken), name
    return [_to(one, to) if _is(one, name, subjects) else one for one in taken]


def without(of: Plan, step: str, name: str, subjects: tuple[str, ...] = ()) -> Answers:
    """The answers of a good host without one quantity."""
    said = healthy(of)
    said[step] = [one for one in said[step] if not _is(one, name, subjects)]
    return said


def _is(one: Taken, name: str, subjects: tuple[str, ...]) -> bool:
    mine = one.metric if isinstance(one, Reading) else one.name if isinstance(one, Fact) else "work"
    return mine == name and (not subjects or one.subject in subjects)


def _to(one: Taken, to: float | str) -> Taken:
    return dataclasses.replace(one, value=to)  # type: ignore[arg-type]


def errored(one: Outcome, step: str, why: str) -> Outcome:
    """The outcome of a good host, but for one step that ended with an error on every subject."""
    if one.step != step:
        return one
    named = [dataclasses.replace(subject, status=Status.ERRORED, why=why) for subject in one.subjects]
    return dataclasses.replace(one, status=Status.ERRORED, why=why, subjects=named)


def sent(run: Run, of: Plan, said: Answers | None = None, spoil: Callable[[Path], None] | None = None,
         **more: Any) -> Path:  # fmt: skip
    """A host works, and what it sealed comes home. spoil: changes the run folder before it is sealed."""
    folder = run.folder.parent / "sent" / of.run / of.host
    runs.write(folder, of, healthy(of) if said is None else said, **more)
    if spoil:
        spoil(folder)
        seal(folder)
    runs.bring(run, of.host, folder)
    return folder


def host(tmp_path: Path, of: Plan, said: Answers | None = None, spoil: Callable[[Path], None] | None = None,
         **more: Any) -> Account:  # fmt: skip
    """The account of a run of this one host."""
    run = runs.home(tmp_path, of)
    sent(run, of, said, spoil, **more)
    return the(run)


def fleet(tmp_path: Path, bad: Plan, others: int, said: Callable[[Plan], Answers] = healthy) -> Run:
    """A run of the host `bad`, whose evidence is still to come, and others that came home."""
    plans = [dataclasses.replace(bad, host=f"good{index}") for index in range(others)]
    run = runs.home(tmp_path, bad, *plans)
    for one in plans:
        sent(run, one, said(one))
    return run


def the(run: Run, name: str = "bad", now: float = NOW) -> Account:
    return next(one for one in give(run, now) if one.expected.host == name)


def others(run: Run, now: float = NOW) -> set[str]:
    """The decisions about all hosts but the one with the fault."""
    return {str(one.decision) for one in give(run, now) if one.expected.host != "bad"}
