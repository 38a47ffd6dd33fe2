"""Partial acceptance: who is accepted now, with every serial, as a numbered file that is never written again.

Each names the digest of the one before, and lists only what is new. What a later run says changes none of them: it is
told beside them, and an addendum lists what became acceptable since.
"""

from __future__ import annotations

import fcntl
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from gpuburn import strict
from gpuburn.attempt import Leave
from gpuburn.controller import people
from gpuburn.controller.deliveries import history
from gpuburn.controller.deliveries.overview import Delivery, check, pending, word
from gpuburn.controller.run import Run
from gpuburn.decision import Condition
from gpuburn.journal import GENESIS
from gpuburn.policy import Decision
from gpuburn.standing import Standing
from gpuburn.strict import Refused

SCHEMA: Literal["gpuburn/acceptance/1"] = "gpuburn/acceptance/1"
EVENT = people.LISTED
FOLDER = "deliveries"
FILE = re.compile(r"acceptance-(\d{3,})\.json")
TOLD = 3  # hosts whose reason a refusal tells
LIMIT = 512 * strict.MEBIBYTE
Owners = dict[tuple[str, str], tuple[str, str, str]]  # {(kind, value): (delivery, host, acceptance)}


@dataclass(frozen=True, slots=True)
class Accepted:
    """One host with the serials of all its parts, {"subject kind": value}, and the attempt that decided."""

    host: str
    run: str
    attempt: int
    level: str
    profiles: tuple[str, ...]
    criteria: str
    because: str
    parts: dict[str, str]
    conditions: list[Condition] = field(default_factory=list)
    waivers: tuple[Leave, ...] = ()


@dataclass(frozen=True, slots=True)
class Acceptance:
    """previous: SHA-256 of the acceptance before; of nothing for the first. held: {host: why it is not accepted}."""

    schema: Literal["gpuburn/acceptance/1"]
    delivery: str
    number: int
    previous: str
    at: float
    by: str
    reason: str
    accepted: list[Accepted]
    conditional: list[Accepted]
    held: dict[str, str]

    @property
    def name(self) -> str:
        return f"acceptance-{self.number:03}"

    @property
    def parts(self) -> int:
        return sum(len(one.parts) for one in (*self.accepted, *self.conditional))


def folder(reports: Path, delivery: str) -> Path:
    return reports / FOLDER / check(delivery)


def read(reports: Path, delivery: str) -> list[Acceptance]:
    """Every acceptance so far. Raises Refused with the first that is missing or changed.

    The last one is known by the journal of the run that was the delivery's last when it was written.
    """
    noted = _noted(reports, delivery)
    place = folder(reports, delivery)
    names = [one for one in place.iterdir() if FILE.fullmatch(one.name)] if place.is_dir() else []
    files = sorted(names, key=lambda one: int(one.stem.rpartition("-")[2]))
    found: list[Acceptance] = []
    previous = GENESIS
    for number, file in enumerate(files, 1):
        data = strict.load_file(file, LIMIT)
        one = strict.build(Acceptance, strict.loads(data, str(file), LIMIT), str(file))
        if (one.number, one.previous, one.delivery) != (number, previous, delivery) or file.name != f"{one.name}.json":
            raise Refused(f"{file}: an acceptance before it is missing or changed")
        previous = strict.digest(data)
        if noted.pop(number, previous) != previous:
            raise Refused(f"{file}: was changed after it was written")
        found.append(one)
    if noted:
        raise Refused(
            f"{place / f'acceptance-{max(noted):03}.json'}: is missing; a run's journal says that it was written"
        )
    return found


def _noted(reports: Path, delivery: str) -> dict[int, str]:
    """{number: SHA-256} of the delivery's acceptances, as the journals of its runs tell."""
    return {
        int(one.details.get("number", "0")): one.details.get("sha256", "")
        for run in history.runs(reports, [delivery])
        for one in run.told()
        if one.event == EVENT and one.details.get("delivery") == delivery
    }


def accept(reports: Path, delivery: Delivery, by: str, reason: str, now: float) -> tuple[Acceptance, Path]:
    """Write down who is accepted now. Refused where nothing is new, or a run of the delivery cannot be read."""
    people.signed(by, reason)
    if delivery.unreadable:
        raise Refused(f"delivery {delivery.id}: {delivery.unreadable[0]}; nothing is accepted")
    if delivery.breakers:
        run = next(iter(delivery.breakers))
        raise Refused(f"delivery {delivery.id}: the breaker of run {run} is open; nothing is accepted until a named "
                      f"person has released it: gpuburn breaker release {run}")  # fmt: skip
    place = folder(reports, delivery.id)
    place.mkdir(parents=True, exist_ok=True)
    with _locked(place):
        before = read(reports, delivery.id)
        made = _made(delivery, before, _owners(reports, delivery.id, before), by, reason, now, _digest(place, before))
        if not made.accepted and not made.conditional:
            raise Refused(f"delivery {delivery.id}: no host is newly acceptable; nothing is written{_some(made.held)}")
        path = place / f"{made.name}.json"
        beside = place / f".{made.name}.tmp"
        with beside.open("wb") as file:
            file.write(strict.encode(made))
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, path)
        last = Run.of(reports, max(delivery.runs))
        last.note(now, EVENT, delivery=delivery.id, number=made.number, sha256=strict.digest(path.read_bytes()))
    return made, path


def _some(held: dict[str, str]) -> str:
    told = [f"; {host}: {why}" for host, why in list(held.items())[:TOLD]]
    return "".join([*told, *([f"; and {len(held) - TOLD} more"] if len(held) > TOLD else [])])


def listed(before: list[Acceptance]) -> dict[str, str]:
    """{host: the last acceptance that lists it}."""
    return {one.host: made.name for made in before for one in (*made.accepted, *made.conditional)}


def withdrawn(delivery: Delivery, before: list[Acceptance]) -> dict[str, str]:
    """Hosts that an acceptance lists and that do not stand as they did: what is said now, or which part changed."""
    last = {one.host: (made.name, one) for made in before for one in (*made.accepted, *made.conditional)}
    found: dict[str, str] = {}
    for standing in delivery.hosts:
        if standing.host in last:
            name, one = last[standing.host]
            if not standing.good:
                found[standing.host] = f"{name} lists it; it is {standing.decision} now: {standing.reason}"
            elif standing.deciding and standing.deciding.parts != one.parts:
                found[standing.host] = f"{name} lists it with other parts than it has now"
    return found


def _made(
    delivery: Delivery, before: list[Acceptance], owners: Owners, by: str, reason: str, now: float, previous: str
) -> Acceptance:  # fmt: skip
    done = {one.host: (made.number, one.parts) for made in before for one in made.accepted}
    waiting = {one.host: (made.number, one.parts) for made in before for one in made.conditional}
    accepted, conditional, held = [], [], {}
    for standing in delivery.hosts:
        why = _held(delivery, standing) or _owned(delivery.id, standing, owners)
        if why:
            held[standing.host] = why
            continue
        one = _accepted(standing)
        last = max((said for said in (done.get(one.host), waiting.get(one.host)) if said), default=(0, {}))
        again = last[1] != one.parts  # other parts than it was last listed with
        if standing.decision is Decision.ACCEPTED and (again or one.host not in done or done[one.host] != last):
            accepted.append(one)
        elif standing.decision is Decision.CONDITIONAL and again:
            conditional.append(one)
    return Acceptance(SCHEMA, delivery.id, len(before) + 1, previous, now, by, reason, accepted, conditional, held)


def _held(delivery: Delivery, standing: Standing) -> str:
    """Why a host is not accepted now; "" if it is."""
    if not standing.good or standing.deciding is None:
        return f"{standing.decision}: {standing.reason}"
    if why := pending(standing):
        return why
    if not standing.deciding.parts:
        return "it says no serial number of any part, so that nothing can be named that is accepted"
    if standing.host in delivery.doubled:
        return delivery.doubled[standing.host]
    against = [one for one in word(delivery, standing.host) if one.decision not in people.GOOD]
    return f"{against[-1].by} decided {against[-1].decision}: {against[-1].reason}" if against else ""


def _owners(reports: Path, delivery: str, before: list[Acceptance]) -> Owners:
    """Who has every part that an acceptance lists, in any delivery of this folder, by the last word on each host."""
    others = [one.name for one in (reports / FOLDER).iterdir() if one.is_dir() and one.name != delivery]
    found: Owners = {}
    for name, acceptances in (*((other, read(reports, other)) for other in sorted(others)), (delivery, before)):
        last = {one.host: (made.name, one) for made in acceptances for one in (*made.accepted, *made.conditional)}
        for host, (made, one) in last.items():
            for said, value in one.parts.items():
                if (kind := said.rpartition(" ")[2]) != "chassis":
                    found[kind, value] = (name, host, made)
    return found


def _owned(delivery: str, standing: Standing, owners: Owners) -> str:
    """Why a host waits: a part of it is accepted already, in another. No part is accepted twice."""
    for said, value in standing.deciding.parts.items() if standing.deciding else ():
        subject, _, kind = said.rpartition(" ")
        where, host, name = owners.get((kind, value), (delivery, standing.host, ""))
        of = f"{name} of delivery {where}" if where != delivery else name
        if (where, host) != (delivery, standing.host):
            return f"{of} lists its {subject} {kind} {value} as part of {host}, which was not accepted anew since"
    return ""


def _accepted(standing: Standing) -> Accepted:
    one = standing.deciding
    assert one is not None
    because = "; ".join(dict.fromkeys(decided.because for decided in standing.by_profile.values()))
    return Accepted(
        standing.host, one.run, standing.decides, one.level, tuple(standing.by_profile), one.digest, because, one.parts,
        standing.conditions, standing.leaves,
    )  # fmt: skip


def _digest(place: Path, before: list[Acceptance]) -> str:
    return strict.digest((place / f"{before[-1].name}.json").read_bytes()) if before else GENESIS


@contextmanager
def _locked(place: Path) -> Iterator[None]:
    """One writer at a time."""
    handle = os.open(place, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)
