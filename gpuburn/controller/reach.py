"""How far each expected host came: from the run's journal, its plan and what came home. Judges no measurement."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from gpuburn import strict
from gpuburn.controller import judged as judgements, people
from gpuburn.controller.collect import said, take_in
from gpuburn.controller.judged import Judged
from gpuburn.controller.run import Expected, Run
from gpuburn.controller.trend import trends
from gpuburn.controller.unseal import PACKED
from gpuburn.finding import Verdict
from gpuburn.journal import Entry
from gpuburn.policy import Reached
from gpuburn.strict import Refused

ALIVE = ("starting", "running", "judging", "finished", "stalled", "restarting", "vanished")
TROUBLE = ("unreachable", "failed", "refused", "plan.unreadable")
FILE = "judged.json"
Read = Callable[[Run, str, list[Entry]], Judged | None]


@dataclass(frozen=True, slots=True)
class Way:
    """How a host went: what is known of it, and what the journal tells of the way. people: what persons said of it."""

    expected: Expected
    reached: Reached
    judged: Judged | None = None
    trouble: list[str] = field(default_factory=list)
    people: list[Entry] = field(default_factory=list)


def way(run: Run, expected: Expected, entries: list[Entry], now: float, read: Read | None = None) -> Way:
    """entries: the journal's lines about this host. now: unix seconds. read: what gives its judged evidence."""
    came = run.incoming(expected.host).exists()
    try:
        one = (read or judged)(run, expected.host, entries)
        deadline = _deadline(run, expected, one)
        if deadline is None and came:
            raise Refused("plan.json is missing, and the result that came home answers to it")
    except (Refused, OSError) as error:
        entries = [*entries, Entry(0, now, "plan.unreadable", "", expected.host, {"why": said(error)})]
        one, deadline = None, None
    # A result that came home and has no plan to answer to proves nothing.
    reached: Reached = "refused" if deadline is None and came else _reached(entries, one, deadline, now)
    trouble = [_said(entry) for entry in entries if entry.event in TROUBLE]
    return Way(expected, reached, one, trouble, [entry for entry in entries if entry.event in people.EVENTS])


def judged(run: Run, host: str, entries: list[Entry]) -> Judged | None:
    """What the host's evidence amounts to: as it was verified when it came, or verified now. None: nothing came."""
    file = run.host(host) / FILE
    kept = next((e.details.get("judged", "") for e in reversed(entries) if e.event == "collected"), "")
    if kept and file.exists() and run.incoming(host).exists():
        data = _bytes(file)
        if strict.digest(data) == kept:
            one = judgements.decode(data)
            if one.version == judgements.VERSION and not one.refused and _of_the_same(run, host, one):
                return one
    return take(run, host)[0]


def _bytes(file: Path) -> bytes:
    """What is kept; b"" where it cannot be read, for then it is made anew."""
    try:
        return strict.load_file(file, judgements.LIMIT)
    except (Refused, OSError):
        return b""


def _of_the_same(run: Run, host: str, one: Judged) -> bool:
    """Whether plan and sealed file are still those that it was made from."""
    return not one.inputs or one.inputs == _inputs(run, host)


def _inputs(run: Run, host: str) -> dict[str, str]:
    """The digests of plan and sealed file; "" for what is no regular file of bounded size."""
    files = {"plan": run.host(host) / "plan.json", "sealed": run.incoming(host)}
    return {
        name: strict.digest_file(file)
        if file.is_file() and not file.is_symlink() and file.stat().st_size <= PACKED
        else ""
        for name, file in files.items()
    }


def take(run: Run, host: str) -> tuple[Judged | None, bytes]:
    """Verify what came from a host, and keep what it amounts to; with the bytes that were written."""
    collected = take_in(run, host)
    if collected is None:
        return None, b""
    one = judgements.judged(collected, trends(run.host(host) / "run", collected))
    one = replace(one, inputs=_inputs(run, host))
    data = judgements.encode(one)
    _keep(run.host(host) / FILE, data)
    return one, data


def _keep(file: Path, data: bytes) -> None:
    """As a whole, in the place of whatever is there: a link is not followed, a pipe not waited for."""
    new = file.with_name(f".{file.name}.new")
    new.unlink(missing_ok=True)
    new.write_bytes(data)
    try:
        new.replace(file)
    except IsADirectoryError:
        raise Refused(f"{file}: is a folder; wanted is a file, or nothing") from None


def _deadline(run: Run, expected: Expected, one: Judged | None) -> float | None:
    """When the host's run is over, if the plan is of the host as it is expected; None without a plan.

    What was demanded less than expected decides nothing.
    """
    if one is not None:
        demanded, deadline = one.demanded, one.deadline
    else:
        plan = run.plan(expected.host)
        if plan is None:
            return None
        demanded, deadline = judgements.demanded(plan), plan.deadline
    _as_expected(demanded, expected)
    return deadline


def _as_expected(demanded: dict[str, Any], expected: Expected) -> None:
    for name, value in demanded.items():
        if value != getattr(expected, name):
            said = f"{name} is {value!r}, expected was {getattr(expected, name)!r}"
            raise Refused(f"plan.json is not of the host as it is expected: {said}")


def _reached(entries: list[Entry], one: Judged | None, deadline: float | None, now: float) -> Reached:
    if one and one.refused:
        return "refused"
    if one and (one.finished or Verdict.FAIL in one.verdicts.values()):
        return "judged"
    phases = [entry.details.get("phase", "") for entry in entries if entry.event == "phase"]
    if any(phase in ALIVE for phase in phases) or any(entry.event == "started" for entry in entries):
        last = phases[-1] if phases else ""
        if last == "finished":
            return "uncollected"
        if last == "vanished":
            return "vanished"
        return "lost" if deadline is None or now > deadline else "uncollected"
    if one:
        return "judged"
    events = {entry.event for entry in entries}
    return "never_reached" if "unreachable" in events and deadline is None else "not_started"


def _said(entry: Entry) -> str:
    where = entry.details.get("task") or entry.event
    return f"{where}: {entry.details.get('why', entry.event)}"
