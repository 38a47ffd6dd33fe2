"""What only the comparison of hosts can tell: findings for the hosts it concerns, and statements about the fleet.

A CPU rehearsal or a simulated run is told of its outliers, and never judged by them: its processes share a machine.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Literal

import pandas as pd

from gpuburn.controller import frame
from gpuburn.controller.fleet import agreement, breaker, peers, position, proof
from gpuburn.controller.fleet.breaker import Tripped
from gpuburn.controller.judged import Judged
from gpuburn.controller.reach import Way
from gpuburn.finding import Finding, Verdict, finding
from gpuburn.measurement import Point
from gpuburn.policy import Decision, Policy

Leads = Literal["inform", "warn", "fail"]
LEADS = {
    "inform": (Verdict.NOT_APPLICABLE, False), "warn": (Verdict.PASS, True), "fail": (Verdict.FAIL, False),
}  # fmt: skip
PLACES = {"majority": "the cohort", "rack": "rack", "power_domain": "power domain", "slot": "slot"}


@dataclass(frozen=True, slots=True)
class Statement:
    """One sentence about the fleet, and the hosts that it is about. code: as in codes.yml, or proof."""

    code: str
    text: str
    hosts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Analysis:
    """findings: {host: those that the fleet adds}. tripped: checks that so many fail that the test is suspect."""

    findings: dict[str, list[Finding]] = field(default_factory=dict)
    statements: list[Statement] = field(default_factory=list)
    tripped: list[Tripped] = field(default_factory=list)


def analyse(went: list[Way], policy: Policy) -> Analysis:
    """Everything that the hosts of one run tell about each other."""
    judged = {way.expected.host: way.judged for way in went if way.judged and way.reached == "judged"}
    some = [way for way in went if way.expected.host in judged]
    found, said = _compared(some, judged, policy)
    found = [*found, *_agreeing(judged), *_versions(judged), *_duplicates(judged), *_decay(judged, policy)]
    by_host: dict[str, list[Finding]] = {}
    for host, one in found:
        by_host.setdefault(host, []).append(one)
    tripped = _tripped(judged, by_host, policy)
    said = [*said, *(Statement("breaker", one.why, one.hosts) for one in tripped)]
    return Analysis(by_host, said, tripped)


def _compared(some: list[Way], judged: dict[str, Judged], policy: Policy
              ) -> tuple[list[tuple[str, Finding]], list[Statement]]:  # fmt: skip
    """Peers, the places that explain them, and cohorts that are slow as a whole."""
    table = frame.measurements(some)
    if table.empty:
        return [], []
    comparison = peers.compare(table)
    places = position.places(table)
    slow = list(_slow(table, judged))
    found = [(one.host, _peer(one, judged[one.host], policy.peers))
             for one in position.explain(comparison.findings, places)]  # fmt: skip
    for place in slow:
        for host in _hosts(table, place):
            found.append((host, _place(place, judged[host])))
    said = [Statement("fleet.cohort_slow", f"{one.cohort}: {_quantity(one)}: {one.why}", _hosts(table, one))
            for one in slow]  # fmt: skip
    said += [
        Statement("fleet.position", f"{PLACES[one.kind]} {one.name}: {_quantity(one)}: {one.why}") for one in places
    ]
    return found, [*said, *_uncompared(comparison)]


def _uncompared(comparison: peers.Comparison) -> Iterator[Statement]:
    """Where there were too few to compare: one statement for each reason."""
    silent = comparison.groups[comparison.groups["why"] != ""]
    for why, rows in silent.groupby("why", sort=True):
        names = sorted({f"{row.about} in {row.step}" for row in rows.itertuples()})
        more = f" and {len(names) - 3} more" if len(names) > 3 else ""
        yield Statement("fleet.peers", f"not compared with peers: {', '.join(names[:3])}{more}: {why}")


def _peer(one: peers.Peer, judged: Judged, leads: Leads) -> Finding:
    verdict, marginal = LEADS[leads if judged.demanded["kind"] == "hardware" else "inform"]
    why = f"{one.why}; {one.explained}" if one.explained else one.why
    return _finding("fleet.peer", one.about, verdict, why, judged.series.served(one.step, one.about), marginal,
                    step=one.step, subject=one.subject, point=one.point)  # fmt: skip


def _slow(table: pd.DataFrame, judged: dict[str, Judged]) -> Iterator[position.Place]:
    """Cohorts whose median is itself beyond the share at which a limit with that reference warns: its own reference,
    of its own step."""
    asked = {  # few: hosts are asked alike, and then share what they were asked
        (host.cohort, tuple(host.references), id(host.series.what)): host.series.what for host in judged.values()
    }
    told = {
        (cohort, one.step, one.about, other.point, one.value, one.warn)
        for (cohort, references, _), what in asked.items()
        for one in references
        for other in what
        if other.about == one.about and other.step == one.step and one.point in ("", other.point)
    }
    for *where, value, warn in sorted(told):
        reference = pd.DataFrame([{**dict(zip(peers.GROUP, where)), "reference": value}])
        delta = 1 - warn if warn < 1 else warn - 1
        yield from position.majority(table[table["about"] == where[2]], reference, delta)


def _place(one: position.Place, judged: Judged) -> Finding:
    verdict, marginal = LEADS["warn" if judged.demanded["kind"] == "hardware" else "inform"]
    served = judged.series.served(one.step, one.about)
    return _finding("fleet.cohort_slow", one.about, verdict, one.why, served, marginal, step=one.step,
                    point=one.point)  # fmt: skip


def _hosts(table: pd.DataFrame, place: position.Place) -> tuple[str, ...]:
    mine = table[(table["cohort"] == place.cohort) & (table["about"] == place.about) & (table["step"] == place.step)
                 & (table["point"] == place.point)]  # fmt: skip
    return tuple(sorted(mine["host"].astype(str).unique()))


def _quantity(one: position.Place) -> str:
    return " ".join(part for part in (one.about, f"in {one.step}", one.point) if part)


def _agreeing(judged: dict[str, Judged]) -> Iterator[tuple[str, Finding]]:
    """Facts that a cohort must share; a host alone in its cohort has nobody to agree with."""
    table = frame.facts(judged.values())
    for one in agreement.odd(table[table.groupby("cohort")["host"].transform("nunique") > 1]):
        host = judged[one.host]
        served = next((list(said.profiles) for said in host.facts if (said.about, said.step) == (one.about, one.step)),
                      list(host.verdicts))  # fmt: skip
        odd = one.stance == "minority"
        code, verdict = ("fleet.odd_fact", Verdict.FAIL) if odd else ("fleet.facts_disagree", Verdict.INCOMPLETE)
        yield one.host, _finding(code, one.about, verdict, one.why, served, step=one.step, subject=one.subject,
                                 point=one.point)  # fmt: skip


def _versions(judged: dict[str, Judged]) -> Iterator[tuple[str, Finding]]:
    for one in agreement.odd(frame.versions(judged.values())):
        if one.stance == "minority":
            host = judged[one.host]
            verdict, marginal = LEADS["warn" if host.demanded["kind"] == "hardware" else "inform"]
            yield one.host, _finding("fleet.odd_version", one.about, verdict, one.why, list(host.verdicts), marginal,
                                     subject=one.subject)  # fmt: skip


def _duplicates(judged: dict[str, Judged]) -> Iterator[tuple[str, Finding]]:
    for one in agreement.duplicates(frame.parts(judged.values())):
        for name, subject in one.claims:
            host = judged[name]
            verdict, _ = LEADS["fail" if host.demanded["kind"] == "hardware" else "inform"]
            yield name, _finding("fleet.duplicate", one.kind, verdict, one.why, list(host.verdicts), subject=subject)


def _decay(judged: dict[str, Judged], policy: Policy) -> Iterator[tuple[str, Finding]]:
    for name, host in judged.items():
        verdict, marginal = LEADS[policy.decay.leads_to if host.demanded["kind"] == "hardware" else "inform"]
        for one in host.trends:
            if one.change >= policy.decay.share:
                share = policy.decay.share
                why = f"{one.change:.2%} worse over {one.hours:.1f} h after warm-up; the limit is {share:.2%}"
                yield name, _finding("fleet.decay", one.about, verdict, why, one.profiles, marginal, step=one.step,
                                     subject=one.subject, point=one.point)  # fmt: skip


def _tripped(judged: dict[str, Judged], added: dict[str, list[Finding]], policy: Policy) -> list[Tripped]:
    rows = [
        (name, one.code, one.about, one.step)
        for name, host in judged.items()
        for one in (*host.findings, *added.get(name, []))
        if one.verdict is Verdict.FAIL
    ]
    table = pd.DataFrame(rows, columns=["host", "code", "about", "step"])
    return breaker.tripped(table, len(judged), policy.breaker.share, policy.breaker.hosts)


def proofs(decided: Iterable[tuple[str, Decision]]) -> Iterator[Statement]:
    """What the hosts of this run prove about those that were not tested. decided: (profile, decision) of every host.

    A host counts where it was shown to be good or bad, whatever showed it: its own result, its peers, or its loss.
    """
    counts: dict[str, list[bool]] = {}
    for profile, decision in decided:
        if decision not in (Decision.UNDECIDED, Decision.UNTESTED):
            counts.setdefault(profile, []).append(not decision.good)
    for profile, failed in sorted(counts.items()):
        yield Statement("proof", f"{profile}: {proof.proof(sum(failed), len(failed)).words}")


def _finding(code: str, about: str, verdict: Verdict, why: str, profiles: Iterable[str], marginal: bool = False,
             step: str = "", subject: str = "host", point: str = "") -> Finding:  # fmt: skip
    """point: as a table writes it, key=value with spaces between."""
    at = Point.of(**dict(pair.split("=", 1) for pair in point.split()))
    return finding(code, about, verdict, why, "fleet", tuple(profiles), marginal=marginal, step=step, subject=subject,
                   point=at)  # fmt: skip
