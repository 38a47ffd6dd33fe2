"""The attempts of a delivery, from the folders of its runs. A run that was reported keeps its own, to be read quickly.

What was kept counts only as long as nothing has happened in that run since; else the run is judged again from its
evidence. Stops before the rules (standing.py).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from gpuburn import criteria as criterias
from gpuburn.attempt import Attempt, Laxer, Leave
from gpuburn.controller import breaking, people
from gpuburn.controller.breaking import HELD
from gpuburn.controller.deliveries import elsewhere, kept, knew
from gpuburn.controller.deliveries.knew import Knew
from gpuburn.controller.people import Personal
from gpuburn.controller.run import RUN, Run
from gpuburn.controller.waived import SERIALS
from gpuburn.criteria import Criteria
from gpuburn.journal import Entry
from gpuburn.policy import Policy
from gpuburn.standing import stand
from gpuburn.strict import Refused

if TYPE_CHECKING:
    from gpuburn.controller.account import Account

Judge = Callable[[Run, float], "list[Account]"]  # the accounts of a run, without the history of its deliveries
NUMBERS = (*SERIALS, "chassis")  # the kinds of parts' numbers that an attempt remembers
STARTED = "started"  # the journal's line that a host was started
UNSETTLED = ("uncollected",)  # what time alone may change


@dataclass(frozen=True, slots=True)
class Told:
    """What one run says of its hosts. by_host: {host: (delivery, attempt)}. breakers: open ones, in words.

    knew: earlier runs that it knew. trouble: what is wrong with its journal.
    """

    run: Run
    by_host: dict[str, tuple[str, Attempt]]
    people: dict[str, list[Personal]] = field(default_factory=dict)
    breakers: list[str] = field(default_factory=list)
    knew: Knew = field(default_factory=dict)
    trouble: str = ""


def runs(reports: Path, deliveries: Iterable[str], before: str = "~") -> Iterator[Run]:
    """The runs in the order of time that name one of these deliveries, up to a run id. Nothing is parsed for others."""
    wanted = [json.dumps(one, ensure_ascii=False).encode() for one in deliveries]
    for folder in sorted(reports.iterdir()) if reports.is_dir() else []:
        file = folder / "expected.json"
        if RUN.fullmatch(folder.name) and folder.name < before and file.is_file():
            data = file.read_bytes()
            if any(one in data for one in wanted):
                yield Run(folder.name, folder)


def load(run: Run, now: float, judge: Judge) -> Told:
    """What a run says, as it was kept, or judged now; causes and people's decisions as they stand in its journal."""
    entries, trouble = run.followed()
    said: dict[str, list[Entry]] = {}
    for entry in entries:
        if entry.event in people.EVENTS:
            said.setdefault(entry.host, []).append(entry)
    by_host = kept.read(run, entries) if _quiet(entries) else None
    if by_host is None:
        by_host = of_accounts(run, judge(run, now))
    for host, mine in said.items():
        if host in by_host:
            delivery, one = by_host[host]
            if cause := people.cause(mine, people.FAILED if one.bad else people.OPEN):
                by_host[host] = (delivery, replace(one, cause=str(cause)))
    decided = {host: people.decisions(mine) for host, mine in said.items()}
    return Told(run, by_host, decided, breaking.open_ones(entries), knew.read(entries), trouble)


def _quiet(entries: list[Entry]) -> bool:
    """Whether nothing has happened since the attempts were kept, but what people said."""
    last = next((one for one in reversed(entries) if one.event not in people.EVENTS), None)
    return last is not None and last.event == kept.EVENT


def of_accounts(run: Run, accounts: Iterable[Account]) -> dict[str, tuple[str, Attempt]]:
    """The attempts of a run that is judged; a plan is read once for each criteria."""
    policy, book = run.policy(), _Book()
    started = {one.host: one.at for one in run.told() if one.event == STARTED and not one.details.get("why")}
    return {
        one.expected.host: (
            one.expected.delivery,
            _attempt(run, one, policy, book, started.get(one.expected.host, 0.0)),
        )
        for one in accounts
        if one.expected.delivery
    }


class _Book:
    """Every criteria of a run once, by digest."""

    def __init__(self) -> None:
        self.by_digest: dict[str, Criteria] = {}

    def of(self, account: Account) -> str:
        """The digest of what the host was judged by; "" where no plan is kept, or nothing complete came of it."""
        digest = account.judged.criteria if account.judged else ""
        if digest in self.by_digest or not (digest or account.reached == "lost"):
            return digest
        try:
            plan = account.run.plan(account.expected.host)
        except Refused:
            return ""
        if plan is None:
            return ""
        self.by_digest.setdefault(plan.criteria, criterias.of(plan))
        return plan.criteria


def _attempt(run: Run, account: Account, policy: Policy, book: _Book, started: float) -> Attempt:
    expected, judged = account.expected, account.judged
    digest = book.of(account)
    cause = people.cause(account.way.people, people.said_of(account))
    leaves = {leave: None for leave in (Leave(w.id, w.person, w.about, w.expires) for _, w in account.waived)}
    waiting = (one for one in (*(judged.findings if judged else ()), *account.fleet) if one.code == HELD)
    held = next((f"{one.about} in step {one.step}" if one.step else one.about for one in waiting), "")
    parts = [part for part in (judged.parts if judged else []) if part.kind in NUMBERS]
    return Attempt(
        run.id, expected.host, run.began(), expected.kind, expected.level, account.cases, policy, digest,
        book.by_digest.get(digest), {f"{part.subject} {part.kind}": part.value for part in parts},
        {f"{one.subject} {one.about}": one.value for one in (judged.versions if judged else [])},
        account.reason, str(cause) if cause else "", tuple(leaves), held, started, tuple(elsewhere.failed(account)),
    )  # fmt: skip


def attach(run: Run, accounts: list[Account], now: float, judge: Judge) -> list[tuple[Account, str]]:
    """Give every account of a delivery its attempts so far; returns those whose pass follows an unexplained fail, with
    what their reason adds: "" where the attempts tell it."""
    failures = elsewhere.failures(run.folder.parent, run.id)
    own = of_accounts(run, accounts)
    deliveries = {delivery for delivery, _ in own.values()}
    told, unreadable, there = _earlier(run, deliveries, now, judge) if own else ([], [], set())
    for one in told:
        for delivery, attempt in one.by_host.values():
            elsewhere.judged(failures, [attempt], delivery)
    other = _elsewhere(run, accounts, failures)
    pending = [(one, why) for one in accounts if one.expected.host not in own and one.decision.good
               and (why := other.get(one.expected.host, ""))]  # fmt: skip
    if not own:
        return pending
    earlier: dict[str, list[Attempt]] = {}
    for one in told:
        for host, (delivery, attempt) in one.by_host.items():
            if host in own and own[host][0] == delivery:
                earlier.setdefault(host, []).append(attempt)
    knows = [*(one.knew for one in told), knew.read(run.told())]
    gone = {delivery: knew.missing(knows, there, delivery, run.id) for delivery in deliveries}
    lost = {delivery: knew.lost(missing) for delivery, missing in gone.items()}
    missed = {delivery: [knew.told(*one) for one in sorted(missing.items())] for delivery, missing in gone.items()}
    laxer = Laxer()
    for account in accounts:
        host = account.expected.host
        if host in own:
            delivery, mine = own[host]
            why = lost[delivery].get(host, "") or other.get(host, "")
            account.way.trouble.extend([*unreadable, *missed[delivery]])
            account.history = stand([*earlier.get(host, []), mine], laxer=laxer, lost=why)
            lines = account.history.lines
            before = any(lines[number - 1].attempt.run != run.id for number in account.history.unexplained)
            if (before or why) and mine.outcome == "pass":
                pending.append((account, why))
    return pending


def _elsewhere(run: Run, accounts: list[Account], failures: elsewhere.Failures) -> dict[str, str]:
    """{host: that it failed in an earlier run which is not of its own history}; each is told in its trouble.

    What the run noted of a run that is not here counts, too: a copied run says the same.
    """
    noted, found = elsewhere.followed(run), {}
    for one in (one for one in accounts if elsewhere.speaks(one)):
        one.way.trouble.extend(failures.unread)
        why = failures.why(one.expected.host, one.expected.delivery, elsewhere.serials(one))
        if why := why or noted.get(one.expected.host, ""):
            one.way.trouble.append(why)
            one.followed = found[one.expected.host] = why
    return found


def _earlier(run: Run, deliveries: set[str], now: float, judge: Judge) -> tuple[list[Told], list[str], set[str]]:
    """The earlier runs that can be read, what is wrong with the others, and the ids of all."""
    told, unreadable, there = [], [], set()
    for one in runs(run.folder.parent, deliveries, run.id):
        there.add(one.id)
        try:
            told.append(load(one, now, judge))
        except (Refused, OSError) as error:
            unreadable.append(f"run {one.id} of the same delivery cannot be read, and may say more of it: {error}")
    return told, unreadable, there


def keep(run: Run, accounts: list[Account], now: float, judge: Judge) -> None:
    """Write down which earlier runs a run that is being reported knew, who failed in it without a delivery, and its
    attempts. A journal that cannot be written any more is told in the report, which is written all the same."""
    try:
        _keep(run, accounts, now, judge)
    except Refused:
        return


def _keep(run: Run, accounts: list[Account], now: float, judge: Judge) -> None:
    """The attempts are kept unless time alone may still change one of them."""
    elsewhere.note(run, accounts, now)
    elsewhere.follow(run, {one.expected.host: one.followed for one in accounts if one.followed}, now)
    mine = [one for one in accounts if one.history is not None]
    if not mine:
        return
    deliveries = {one.expected.delivery for one in mine}
    said: Knew = {}
    for earlier in _earlier(run, deliveries, now, judge)[0]:
        said.update(knew.of(earlier.by_host, earlier.run.id))
    knew.note(run, {key: hosts for key, hosts in said.items() if key[0] in deliveries}, now)
    if any(one.reached in UNSETTLED for one in mine):
        return
    made = {
        one.expected.host: (one.expected.delivery, line.attempt)
        for one in mine if one.history for line in one.history.lines if line.attempt.run == run.id
    }  # fmt: skip
    digest = kept.write(run, made)
    entries = run.told()
    last = next((one for one in reversed(entries) if one.event == kept.EVENT), None)
    if not _quiet(entries) or last is None or last.details.get("sha256") != digest:
        run.note(now, kept.EVENT, sha256=digest)
