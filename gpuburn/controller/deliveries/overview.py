"""How a delivery stands: every host over all its runs, yield and first-pass yield, and what is still open."""

from __future__ import annotations

import datetime
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gpuburn import strict
from gpuburn.attempt import Attempt, Laxer
from gpuburn.controller import account, lineage
from gpuburn.controller.deliveries import elsewhere, history, knew
from gpuburn.controller.people import Personal
from gpuburn.controller.run import NAME, PLAIN, RUN, Run
from gpuburn.controller.waived import SERIALS
from gpuburn.policy import Decision
from gpuburn.standing import Standing, stand
from gpuburn.strict import Refused


@dataclass(frozen=True, slots=True)
class Item:
    """Something that is still open: of whom, what, who owes it and until when ("" where nobody is named)."""

    host: str
    what: str
    owner: str = ""
    due: str = ""


@dataclass(frozen=True, slots=True)
class Delivery:
    """hosts: worst first. people: what people decided, in any run, the last at the end. unreadable: runs, also those
    that are gone, and why.

    breakers: {run: what its open breakers hold}.
    """

    id: str
    runs: list[str]
    hosts: list[Standing]
    people: dict[str, list[Personal]] = field(default_factory=dict)
    doubled: dict[str, str] = field(default_factory=dict)
    unreadable: list[str] = field(default_factory=list)
    breakers: dict[str, list[str]] = field(default_factory=dict)

    @property
    def good(self) -> int:
        return sum(one.good for one in self.hosts)

    @property
    def first_pass(self) -> int:
        return sum(one.first_pass for one in self.hosts)

    @property
    def attempts(self) -> int:
        return sum(len(one.lines) for one in self.hosts)

    def decisions(self) -> dict[str, int]:
        counts = {str(one): sum(host.decision is one for host in self.hosts) for one in Decision}
        return {name: count for name, count in counts.items() if count}


def check(delivery: str) -> str:
    """A delivery's id becomes a folder's name."""
    if not NAME.fullmatch(delivery):
        raise Refused(f"delivery {delivery!r}: {PLAIN}")
    return delivery


def of(reports: Path, delivery: str, now: float) -> Delivery:
    """The delivery over all runs in this folder. Raises Refused where no run names it."""
    told, unreadable = _told(reports, check(delivery), now)
    gone = _gone(told, unreadable, delivery)
    by_host: dict[str, list[Attempt]] = {}
    for one in told:
        for host, (named, attempt) in one.by_host.items():
            if named == delivery:
                by_host.setdefault(host, []).append(attempt)
    if not by_host and not unreadable:
        raise Refused(f"delivery {delivery!r}: no run in {reports} names it; `gpuburn delivery list` shows all")
    laxer, today = Laxer(), day(now)
    order = list(Decision)
    lost, failures = knew.lost(gone), elsewhere.failures(reports)
    for attempts in by_host.values():  # also of runs that were never reported
        elsewhere.judged(failures, attempts, delivery)
    hosts = [
        stand(attempts, today, laxer, lost.get(host, "") or failures.why(host, delivery, _serials(attempts)))
        for host, attempts in by_host.items()
    ]
    hosts.sort(key=lambda one: (-order.index(one.decision), one.host))
    runs = sorted({attempt.run for attempts in by_host.values() for attempt in attempts})
    spoilt = [f"run {one.run.id}: {one.trouble}; put its journal back" for one in told if one.trouble]
    spoilt += [one for one in failures.unread if one.partition(":")[0].removeprefix("run ") not in runs]
    troubles = [*unreadable.values(), *spoilt, *(knew.told(*one) for one in sorted(gone.items()))]
    held = {run: checks for run, checks in _breakers(told, delivery).items() if checks}
    return Delivery(delivery, runs, hosts, _people(told, delivery), _doubled(by_host), troubles, held)


def day(at: float) -> str:
    return datetime.datetime.fromtimestamp(at, datetime.timezone.utc).strftime("%Y-%m-%d")


def _people(told: list[history.Told], delivery: str) -> dict[str, list[Personal]]:
    """{host: what people decided about it, in any run of the delivery, in the order of time}."""
    found: dict[str, list[Personal]] = {}
    for one in told:
        for host, said in one.people.items():
            if one.by_host.get(host, ("", None))[0] == delivery:
                found.setdefault(host, []).extend(said)
    return {host: sorted(said, key=lambda one: one.at) for host, said in found.items() if said}


def word(delivery: Delivery, host: str) -> list[Personal]:
    """What people say of a host now: the last decision about it, and about each of its profiles."""
    last = {one.profile: one for one in delivery.people.get(host, [])}
    whole = last.get("")
    return [one for one in last.values() if whole is None or one.at >= whole.at]


def _seen(attempts: Iterable[Attempt]) -> dict[str, tuple[str, str]]:
    """{"subject kind": (value, the last run that saw it)} of every part as it was last seen."""
    found: dict[str, tuple[str, str]] = {}
    for one in sorted(attempts, key=lambda one: (one.when, one.run)):
        found.update({name: (value, one.run) for name, value in one.parts.items()})
    return found


def _serials(attempts: Iterable[Attempt]) -> list[str]:
    return [value for name, (value, _) in _seen(attempts).items() if name.rpartition(" ")[2] in SERIALS]


def _told(reports: Path, delivery: str, now: float) -> tuple[list[history.Told], dict[str, str]]:
    """What every run says; a run that cannot be read is told, never left out in silence."""
    told, unreadable = [], {}
    for run in history.runs(reports, [delivery]):
        try:
            told.append(history.load(run, now, account.alone))
        except (Refused, OSError) as error:
            unreadable[run.id] = f"run {run.id} cannot be read: {error}"
    return told, unreadable


def _gone(told: list[history.Told], unreadable: dict[str, str], delivery: str) -> dict[str, dict[str, str]]:
    """Runs that another one knew and that are not there: {run: {host: decision}} of those that were not good."""
    there = {one.run.id for one in told} | set(unreadable)
    return knew.missing((one.knew for one in told), there, delivery)


def _breakers(told: list[history.Told], delivery: str) -> dict[str, list[str]]:
    """What is held in each run: as its journal tells, and as its hosts were judged, reported or not."""
    found: dict[str, list[str]] = {}
    for one in told:
        held = [attempt.held for named, attempt in one.by_host.values() if named == delivery and attempt.held]
        found[one.run.id] = one.breakers or held[:1]
    return found


def _doubled(by_host: dict[str, list[Attempt]]) -> dict[str, str]:
    """Hosts one of whose parts, as last seen, another name has as well or took over: a machine under two names, or a
    part that wandered. Who saw it last, alone in that run, has it: it is told of the others only."""
    seen: dict[tuple[str, str], dict[str, tuple[str, str]]] = {}
    for host, attempts in by_host.items():
        for name, (value, run) in _seen(attempts).items():
            subject, _, kind = name.rpartition(" ")
            if kind != "chassis":  # several hosts may share one
                seen.setdefault((kind, value), {})[host] = (run, subject)
    found: dict[str, str] = {}
    for (kind, value), hosts in seen.items():
        last = max(run for run, _ in hosts.values())
        having = sorted(host for host, (run, _) in hosts.items() if run == last)
        for host, (_, subject) in hosts.items() if len(hosts) > 1 else ():
            if having != [host]:
                others = ", ".join(one for one in having if one != host)
                found.setdefault(host, f"{subject} {kind} {value} was also seen in {others}, in run {last}")
    return found


def items(delivery: Delivery) -> list[Item]:
    """Everything that keeps the delivery from being done with, the worst hosts first."""
    found = [Item("", one) for one in delivery.unreadable]
    found += [
        Item("", f"the breaker of run {run} is open: {'; '.join(held)}; when the test, the image and the fabric are "
             f"cleared: gpuburn breaker release {run} --by NAME --reason WHY")
        for run, held in delivery.breakers.items()
    ]  # fmt: skip
    for one in delivery.hosts:
        if not one.good:
            found.append(Item(one.host, f"{one.decision}: {one.reason}"))
        elif why := pending(one):
            found.append(Item(one.host, why))
        found += [Item(one.host, c.condition, c.owner, c.due) for c in one.conditions]
        for number in one.unexplained:
            reason = one.lines[number - 1].attempt.reason
            failed = "failed" if one.lines[number - 1].attempt.outcome == "fail" else "failed and was waived"
            found.append(Item(one.host, f"attempt {number} {failed} ({reason}): no cause is recorded"))
        found += [Item(one.host, f"waiver {leave.id} of {leave.about} is in use", leave.person, leave.expires)
                  for leave in one.leaves]  # fmt: skip
        if one.host in delivery.doubled:
            found.append(Item(one.host, delivery.doubled[one.host]))
        found += [Item(one.host, f"{said.by} decided {said.decision}: {said.reason}", said.by)
                  for said in word(delivery, one.host) if said.decision is not one.decision]  # fmt: skip
    return found


def pending(one: Standing) -> str:
    """Why a host waits whose deciding attempt is good; "" if it does not."""
    if not one.pending:
        return ""
    last = one.lines[one.pending[-1] - 1].attempt
    return (
        f"attempt {one.pending[-1]}, after the one that decides, is {last.decision} ({last.reason}): "
        "no complete one followed, and no cause is recorded"
    )


def document(delivery: Delivery, accepted: dict[str, str]) -> dict[str, Any]:
    """The delivery for machines. accepted: {host: the acceptance that lists it}."""
    return {
        "schema": "gpuburn/delivery/1", "delivery": delivery.id, "runs": delivery.runs,
        "hosts": [
            {"host": one.host, "decision": str(one.decision), "reason": one.reason, "decides": one.decides,
             "unexplained": list(one.unexplained), "pending": list(one.pending), "first_pass": one.first_pass,
             "accepted_in": accepted.get(one.host, ""), "conditions": strict.plain(one.conditions),
             "waivers": strict.plain(one.leaves), "attempts": lineage.attempts(one),
             "person_decisions": strict.plain(delivery.people.get(one.host, []))}
            for one in delivery.hosts
        ],
        "decisions": delivery.decisions(), "hosts_total": len(delivery.hosts), "good": delivery.good,
        "first_pass": delivery.first_pass, "attempts": delivery.attempts,
        "open": [strict.plain(one) for one in items(delivery)],
    }  # fmt: skip


def listed(reports: Path) -> dict[str, tuple[int, int]]:
    """{delivery: (runs, hosts)} of everything in this folder."""
    found: dict[str, tuple[int, set[str]]] = {}
    for folder in sorted(reports.iterdir()) if reports.is_dir() else []:
        if RUN.fullmatch(folder.name) and (folder / "expected.json").is_file():
            mine: dict[str, set[str]] = {}
            for one in Run.of(reports, folder.name).expected():
                if one.delivery:
                    mine.setdefault(one.delivery, set()).add(one.host)
            for name, hosts in mine.items():
                count, all_hosts = found.get(name, (0, set()))
                found[name] = (count + 1, all_hosts | hosts)
    return {name: (count, len(hosts)) for name, (count, hosts) in sorted(found.items())}
