"""How far each expected host came: from the run's journal, its plan and what came home. Judges no measurement."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from gpuburn import strict
from gpuburn.controller import archives, gone, judged as judgements, people
from gpuburn.controller.collect import said, take_in
from gpuburn.controller.judged import Judged
from gpuburn.controller.run import Expected, Run
from gpuburn.controller.trend import trends
from gpuburn.finding import Verdict
from gpuburn.journal import Entry
from gpuburn.policy import Reached
from gpuburn.strict import Refused

TROUBLE = ("unreachable", "failed", "refused", "plan.unreadable", archives.ANOTHER)
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


def way(
    run: Run, expected: Expected, entries: list[Entry], now: float, read: Read | None = None,
    watch: list[Entry] | None = None,
) -> Way:  # fmt: skip
    """entries: the journal's lines about this host; watch: about the run as a whole. now: unix seconds.

    read: what gives the host's judged evidence.
    """
    came = bool(archives.of(run, expected.host)) or any(entry.event == archives.COLLECTED for entry in entries)
    try:
        if read:
            archives.vouched(run, expected.host, entries)
        one = (read or judged)(run, expected.host, entries)
        deadline = _deadline(run, expected, one)
        if deadline is None and came:
            raise Refused("plan.json is missing, and the result that came home answers to it")
    except (Refused, OSError) as error:
        entries = [*entries, Entry(0, now, "plan.unreadable", "", expected.host, {"why": said(error)})]
        one, deadline = None, None
    # A result that came home and has no plan to answer to proves nothing.
    reached: Reached = "refused"
    why = ""
    if deadline is not None or not came:
        reached, why = _reached(entries, one, deadline, now, watch or [])
    trouble = [*(_said(entry) for entry in entries if entry.event in TROUBLE), *([why] if why else [])]
    return Way(expected, reached, one, trouble, [entry for entry in entries if entry.event in people.EVENTS])


def judged(run: Run, host: str, entries: list[Entry]) -> Judged | None:
    """What the host's evidence amounts to: as it was verified when it came, or verified now. None: nothing came.

    What was kept holds only for the plan and the sealed files that the journal names beside it.
    """
    line, now = archives.vouched(run, host, entries)
    file = run.host(host) / FILE
    if line and line.details["archives"].split() == now.archives:
        data = _bytes(file)
        if strict.digest(data) == line.details.get("judged"):
            one = judgements.decode(data)
            if one.version == judgements.version() and not one.refused and one.inputs == now.details():
                return one
    return take(run, host)[0]


def _bytes(file: Path) -> bytes:
    """What is kept; b"" where it cannot be read, for then it is made anew."""
    try:
        return strict.load_file(file, judgements.LIMIT)
    except (Refused, OSError):
        return b""


def take(run: Run, host: str) -> tuple[Judged | None, bytes]:
    """Verify what came from a host, and keep what it amounts to; with the bytes that were written."""
    collected = take_in(run, host)
    if collected is None:
        return None, b""
    one = judgements.judged(collected, trends(run.host(host) / "run", collected))
    one = replace(one, inputs=archives.held(run, host).details())
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


def collect(run: Run, now: float) -> dict[str, dict[str, Any]]:
    """File away and verify what came from every host, and note it: {host: {verdicts} or {refused}}."""
    entries = run.by_host()
    told: dict[str, dict[str, Any]] = {}
    for expected in run.expected():
        try:
            one = _collect(run, expected.host, entries.get(expected.host, []), now)
        except (Refused, OSError) as error:  # one host's trouble: the others are still taken in
            told[expected.host] = {"refused": said(error)}
            run.note(now, "refused", expected.host, why=said(error))
            continue
        if one is not None:
            verdicts = {profile: str(verdict) for profile, verdict in one.verdicts.items()}
            told[expected.host] = {"refused": one.refused[0]} if one.refused else {"verdicts": verdicts}
    return told


def _collect(run: Run, host: str, entries: list[Entry], now: float) -> Judged | None:
    came = archives.file_away(run, host)
    if came and came != run.incoming(host):
        why = f"another result came: {came.name}; what came before is kept, and is not replaced by it"
        run.note(now, archives.ANOTHER, host, why=why)
    archives.vouched(run, host, entries)
    one, kept = take(run, host)
    if one is not None:
        verdicts = {profile: str(verdict) for profile, verdict in one.verdicts.items()}
        run.note(
            now, archives.COLLECTED, host, refused="; ".join(one.refused), verdicts=verdicts,
            judged=strict.digest(kept), finished="yes" if one.finished else "no", **one.inputs,
        )  # fmt: skip
    return one


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


def _reached(
    entries: list[Entry], one: Judged | None, deadline: float | None, now: float, watch: list[Entry]
) -> tuple[Reached, str]:
    """How far it came, and why that is not more."""
    if one and one.refused:
        return "refused", ""
    if one and (one.finished or Verdict.FAIL in one.verdicts.values()):
        return "judged", ""
    if gone.started(entries):
        last = next((e.details.get("phase", "") for e in reversed(entries) if e.event == "phase"), "")
        if last in ("finished", "vanished"):
            return "uncollected" if last == "finished" else "vanished", ""
        if deadline is None or now <= deadline:
            return "uncollected", ""
        why = gone.excuse(entries, watch, deadline)
        return "uncollected" if why else "lost", why
    if one:
        return "judged", ""
    if any(entry.event == "started" for entry in entries):
        return "uncollected", "the answer to its start was lost, and it was never seen at work"
    events = {entry.event for entry in entries}
    return "never_reached" if "unreachable" in events and deadline is None else "not_started", ""


def _said(entry: Entry) -> str:
    where = entry.details.get("task") or entry.event
    return f"{where}: {entry.details.get('why', entry.event)}"
