"""Judge a run again, from its sealed evidence alone: the same verdicts anywhere, or those under other limits.

Nothing is written, and no clock is read: the moment is that of the journal's last line.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from gpuburn import __version__, policy as policies, strict
from gpuburn.controller import account, baselines, judged as judgements
from gpuburn.controller.account import Account
from gpuburn.controller.chosen import read_limits
from gpuburn.controller.collect import Collected, take_in
from gpuburn.controller.judged import Judged
from gpuburn.controller.reach import Read
from gpuburn.controller.run import Run
from gpuburn.controller.trend import trends
from gpuburn.finding import Finding, Verdict
from gpuburn.journal import Entry
from gpuburn.replan import Instead, replanned
from gpuburn.strict import Refused
from gpuburn.verdict import judge, verdicts

SCHEMA = "gpuburn/judgement/1"
WORST = [Verdict.FAIL, Verdict.INCOMPLETE, Verdict.PASS, Verdict.NOT_APPLICABLE]
UNJUDGED = "not judged"
Where = tuple[str, str, str, str]  # step, about, subject, point


@dataclass(frozen=True, slots=True)
class Change:
    """One demand that ends otherwise under the other limits: as what it ended before, what now, and why."""

    step: str
    about: str
    subject: str
    point: str
    before: str
    now: str
    why: str


@dataclass
class Replay:
    """accounts: under the limits that are asked for; before: under the run's own. changes: {host: what flips}."""

    run: Run
    at: float
    accounts: list[Account]
    before: dict[str, Account]
    changes: dict[str, list[Change]] = field(default_factory=dict)


@dataclass
class Twice:
    """A host's evidence, judged by the run's own limits and by the others."""

    before: Judged | None = None
    now: Judged | None = None
    changes: list[Change] = field(default_factory=list)
    unreadable: str = ""


def instead(run: Run, limits: Path | None, baseline: str, policy: Path | None) -> Instead:
    """The other demands, read strictly. A site's limits stand in a YAML file as below gpuburn_limits."""
    by = baselines.load(run.folder.parent, baseline) if baseline else None
    if by and (itself := by.fits(by.sku, by.kind, run.id)):
        raise Refused(f"--baseline: {itself}")
    return Instead(
        _limits(limits) if limits else None,
        str(limits),
        by,
        policies.read(_file(policy)) if policy else None,
    )


def _file(path: Path) -> Path:
    if not path.is_file():
        raise Refused(f"{path}: no such file")
    return path


def _limits(path: Path) -> dict[str, Any]:
    """The same file as plan and criteria take: under names such as gpuburn_limits_site, or without."""
    found: dict[str, Any] = {}
    for name, entries in read_limits(path).items():
        for about, fields in entries.items() if isinstance(entries, dict) else [(name, entries)]:
            if about in found:
                raise Refused(f"{path}: {about} is limited under two names; wanted is one")
            found[str(about)] = fields
    return found


def moment(run: Run) -> float:
    """When the run is judged: at the last line of its journal, so that another day says the same."""
    entries = run.told()
    return entries[-1].at if entries else run.began()


def replay(run: Run, other: Instead) -> Replay:
    """Every expected host, judged again from what it sent."""
    at, twice = moment(run), {one.host: _twice(run, one.host, other) for one in run.expected()}
    ways, earlier = (account.ways(run, at, _reader(twice, now)) for now in (True, False))
    accounts, _ = account.settle(run, ways, other.policy, now=at, baseline=other.baseline)
    before, _ = account.settle(run, earlier, now=at)
    was = {one.expected.host: one for one in before}
    changes = {
        one.expected.host: [*twice[one.expected.host].changes, *changed(was[one.expected.host].fleet, one.fleet)]
        for one in accounts
    }
    return Replay(run, at, accounts, was, changes)


def _reader(twice: dict[str, Twice], now: bool) -> Read:
    """What gives the judged evidence of a host, under the limits that are asked for or the run's own."""

    def read(run: Run, host: str, entries: list[Entry]) -> Judged | None:
        if twice[host].unreadable:
            raise Refused(twice[host].unreadable)
        return twice[host].now if now else twice[host].before

    return read


def _twice(run: Run, host: str, other: Instead) -> Twice:
    with tempfile.TemporaryDirectory(prefix="gpuburn-judge-") as scratch:
        try:
            collected = take_in(run, host, Path(scratch))
        except Refused as error:  # its plan cannot be read: the others are still judged
            return Twice(unreadable=str(error))
        if collected is None:
            return Twice()
        refused = [one.replace(f"{scratch}/run/", "").replace(f"{scratch}/", "") for one in collected.refused]
        collected = replace(collected, refused=refused)
        again = rejudged(collected, other)
        before, now = (judgements.judged(one, trends(Path(scratch) / "run", one)) for one in (collected, again))
    return Twice(before, now, changed(collected.findings, again.findings))


def rejudged(collected: Collected, other: Instead) -> Collected:
    """The same evidence under other limits. What the transport found stays: no limit speaks of it."""
    if not other.anything:
        return collected
    plan = replanned(collected.plan, other)
    if collected.refused:
        return replace(collected, plan=plan)
    stay = [one for one in collected.findings if one.source == "transport"]
    findings = [*stay, *judge(plan, collected.outcomes, collected.record)]
    return replace(collected, plan=plan, findings=findings, verdicts=verdicts(plan, findings))


def changed(before: Iterable[Finding], now: Iterable[Finding]) -> list[Change]:
    """Every demand that ends otherwise; where several limits speak of one quantity, the worst counts."""
    was, has = _ends(before), _ends(now)
    found = []
    for where in dict.fromkeys([*was, *has]):
        first, then = _end(was.get(where)), _end(has.get(where))
        if first != then:
            told = has.get(where) or was[where]
            found.append(Change(*where, first, then, told.why))
    return found


def _ends(findings: Iterable[Finding]) -> dict[Where, Finding]:
    found: dict[Where, Finding] = {}
    for one in findings:
        where = (one.step, one.about, one.subject, str(one.point))
        if where not in found or _rank(one) < _rank(found[where]):
            found[where] = one
    return found


def _rank(one: Finding) -> tuple[int, bool]:
    return WORST.index(one.verdict), not one.marginal


def _end(one: Finding | None) -> str:
    if one is None or one.verdict is Verdict.NOT_APPLICABLE:
        return UNJUDGED
    return "pass, marginal" if one.marginal and one.verdict is Verdict.PASS else str(one.verdict)


def document(done: Replay, other: Instead) -> dict[str, Any]:
    """All of it for machines, in the order of the hosts' names, without a path of this machine."""
    hosts = sorted(done.accounts, key=lambda one: one.expected.host)
    return {
        "schema": SCHEMA, "run": done.run.id, "version": __version__, "at": done.at,
        "instead": {
            "limits": strict.digest(strict.encode(other.site)) if other.site else "",
            "baseline": other.baseline.digest if other.baseline else "",
            "policy": other.policy.digest if other.policy else "",
        },
        "decisions": account.summary(hosts),
        "hosts": [host(one, done) for one in hosts],
    }  # fmt: skip


def host(one: Account, done: Replay) -> dict[str, Any]:
    before = done.before[one.expected.host]
    told = {
        "host": one.expected.host, "reached": one.reached, "decision": str(one.decision), "reason": one.reason,
        "criteria": one.judged.criteria if one.judged else "",
        "by_profile": {
            name: {**strict.plain(decided), "verdict": verdict(one, name)} for name, decided in one.by_profile.items()
        },
        "trouble": one.trouble,
        "findings": strict.plain([*(one.judged.findings if one.judged else []), *one.fleet]),
        "before": {
            "decision": str(before.decision), "verdicts": {name: verdict(before, name) for name in before.by_profile},
        },
        "changes": strict.plain(done.changes[one.expected.host]),
    }  # fmt: skip
    return dict(_placeless(told, f"{done.run.folder}/"))


def verdict(one: Account, profile: str) -> str:
    """The verdict with what the fleet adds and what is waived; empty where nothing was judged."""
    return str(account.verdict(one.way, one.fleet, profile, one.waived) or "") if one.judged else ""


def _placeless(value: Any, folder: str) -> Any:
    """Words without the folder that the run lies in."""
    if isinstance(value, dict):
        return {key: _placeless(item, folder) for key, item in value.items()}
    if isinstance(value, list):
        return [_placeless(item, folder) for item in value]
    return value.replace(folder, "") if isinstance(value, str) else value


def text(done: Replay, other: Instead) -> str:
    """The decisions, and below them every host that flips and why."""
    told = [host(one, done) for one in done.accounts]
    lines = [f"{one['host']:24} {one['decision']:14} {one['reason']}" for one in told]
    if not other.anything:
        return "\n".join(lines)
    flips = [one for one in told if one["changes"] or one["decision"] != one["before"]["decision"]]
    lines.append(f"{len(flips)} of {len(told)} hosts end otherwise than under the run's own limits")
    for one in flips:
        lines += _flip(one)
    return "\n".join(lines)


def _flip(one: dict[str, Any]) -> list[str]:
    before = one["before"]
    profiles = [
        f"{name} {before['verdicts'].get(name, '')} -> {decided['verdict']}"
        for name, decided in one["by_profile"].items()
        if before["verdicts"].get(name) != decided["verdict"]
    ]
    decided = (
        f"{before['decision']} -> {one['decision']}" if before["decision"] != one["decision"] else "decision stays"
    )
    head = f"{one['host']}: {decided}{''.join(f'; {each}' for each in profiles)}"
    return [
        head,
        *(f"  {_at(change)}: {change['before']} -> {change['now']}: {change['why']}" for change in one["changes"]),
    ]


def _at(change: dict[str, str]) -> str:
    return " ".join(change[name] for name in ("step", "subject", "about", "point") if change[name])
