"""The account of every expected host: how far it came, what its evidence amounts to, the decision. None drops out."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property

from gpuburn.baseline import Baseline
from gpuburn.controller import baselines, breaking, waived as waivings
from gpuburn.controller.analysis import Analysis, analyse, proofs
from gpuburn.controller.bmc import said as bmcs
from gpuburn.controller.collect import Collected, take_in
from gpuburn.controller.coverage import Coverage, of
from gpuburn.controller.deliveries import history
from gpuburn.controller.judged import Judged
from gpuburn.controller.manifest import held as manifests
from gpuburn.controller.reach import Read, Way, way
from gpuburn.controller.run import Expected, Run
from gpuburn.controller.waived import Waived
from gpuburn.decision import Case, Decided, decide, marks, worst
from gpuburn.finding import Finding, Verdict
from gpuburn.plan import Plan
from gpuburn.policy import Decision, Policy, Reached
from gpuburn.standing import Standing
from gpuburn.strict import Refused

RANK = {Verdict.FAIL: 0, Verdict.INCOMPLETE: 1, Verdict.PASS: 2, Verdict.NOT_APPLICABLE: 3}


@dataclass
class Account:
    """One host. by_profile: what is decided per profile. fleet: findings that only the comparison of hosts can give.
    waived: failed findings that somebody waived; they stay failed. cases: what was decided about, per profile, without
    the history. history: its attempts so far, where it belongs to a delivery. followed: that the machine failed before,
    elsewhere.

    plan and collected are read from the run's folder when a page needs them, and can be forgotten again.
    """

    run: Run
    way: Way
    by_profile: dict[str, Decided]
    decision: Decision
    reason: str
    fleet: list[Finding] = field(default_factory=list)
    waived: list[Waived] = field(default_factory=list)
    cases: dict[str, Case] = field(default_factory=dict)
    history: Standing | None = None
    followed: str = ""

    @property
    def expected(self) -> Expected:
        return self.way.expected

    @property
    def reached(self) -> Reached:
        return self.way.reached

    @property
    def trouble(self) -> list[str]:
        return self.way.trouble

    @property
    def judged(self) -> Judged | None:
        return self.way.judged

    @cached_property
    def plan(self) -> Plan | None:
        try:
            return self.run.plan(self.expected.host)
        except Refused:  # told in trouble already
            return None

    @cached_property
    def collected(self) -> Collected | None:
        return take_in(self.run, self.expected.host) if self.judged else None

    @cached_property
    def coverage(self) -> Coverage:
        """What the host's steps came to, as far as they came home."""
        found = self.collected
        return of(found.plan, found.outcomes) if found else Coverage()

    def forget(self) -> None:
        """Let go of what was read for a page."""
        self.__dict__.pop("plan", None)
        self.__dict__.pop("collected", None)

    def findings(self) -> list[Finding]:
        """Worst first, in the plan's order within the same verdict."""
        own = breaking.as_held(self.collected.findings if self.collected else [], self.judged)
        return sorted([*own, *self.fleet], key=lambda f: (RANK[f.verdict], not f.marginal))


def give(run: Run, now: float) -> list[Account]:
    """Every expected host, worst first."""
    return settle(run, ways(run, now), now=now)[0]


def alone(run: Run, now: float) -> list[Account]:
    """The same, without what earlier runs of the hosts' deliveries say."""
    return settle(run, ways(run, now), now=now, earlier=False)[0]


def ways(run: Run, now: float, read: Read | None = None) -> list[Way]:
    """How every expected host went. read: what gives a host's judged evidence."""
    entries = run.by_host()
    return [way(run, one, entries.get(one.host, []), now, read, entries.get("", [])) for one in run.expected_as_noted()]


def settle(
    run: Run,
    went: list[Way],
    policy: Policy | None = None,
    now: float | None = None,
    earlier: bool = True,
    baseline: Baseline | None = None,
) -> tuple[list[Account], Analysis]:
    """Compare the hosts with each other, and decide about each. policy, baseline: others than the run's.

    earlier: with the attempts before this one, as they are now (unix seconds).
    """
    policy = policy or run.policy_as_begun()
    analysis = analyse(went, policy)
    ordered = manifests.book(run)
    beside = (
        baselines.circular(run, went, baseline), manifests.findings(ordered, went), bmcs.findings(run, went, policy),
    )  # fmt: skip
    for host, one_more in itertools.chain(*beside):
        analysis.findings.setdefault(host, []).append(one_more)
    checks = breaking.held(run.told(), analysis.tripped) if analysis.tripped else set()
    held = waivings.book(run)
    accounts = []
    for one in went:
        fleet = breaking.spare(analysis.findings.get(one.expected.host, []), checks)
        if checks and one.judged:
            one = replace(one, judged=replace(one.judged, findings=breaking.spare(one.judged.findings, checks)))
        accounts.append(_decided(run, one, fleet, waivings.waived(held, one, fleet), policy))
    if earlier:
        for account, why in history.attach(run, accounts, run.began() if now is None else now, alone):
            _decide(account, policy, frozenset({"unexplained"}))
            account.reason += f"; {why}" if why else ""
    order, decided = list(Decision), [(p, one.decision) for a in accounts for p, one in a.by_profile.items()]
    analysis = replace(analysis, statements=[*analysis.statements, *manifests.absent(ordered, run), *proofs(decided)])
    return sorted(accounts, key=lambda a: (-order.index(a.decision), a.expected.rack, a.expected.host)), analysis


def _decided(run: Run, one: Way, fleet: list[Finding], waived: list[Waived], policy: Policy) -> Account:
    cases = {profile: case(one, fleet, profile, waived) for profile in one.expected.profiles}
    account = Account(run, one, {}, Decision.UNTESTED, "", fleet, waived, cases)
    return _decide(account, policy)


def _decide(account: Account, policy: Policy, marks: frozenset[str] = frozenset()) -> Account:
    """marks: those that the host's history adds."""
    at = account.run.began()
    for profile, one in account.cases.items():
        made = decide(policy, replace(one, marks=one.marks | marks), at)
        account.by_profile[profile] = _due(made, account.waived, policy)
    account.decision = worst(decided.decision for decided in account.by_profile.values())
    account.reason = _reason(account.way, account.fleet, account.waived, account.by_profile, account.decision)
    return account


def case(one: Way, fleet: Iterable[Finding], profile: str, waived: Iterable[Waived] = ()) -> Case:
    """What is decided about for one profile."""
    expected = one.expected
    return Case(
        one.reached, verdict(one, fleet, profile, waived), expected.kind, expected.level, expected.environment,
        marked(one, fleet, profile, waived),
    )  # fmt: skip


def _due(decided: Decided, waived: list[Waived], policy: Policy) -> Decided:
    """What was waived is due when the first of its waivers expires, if that is earlier."""
    if not waived:
        return decided
    first = min(waiver.expires for _, waiver in waived)
    asked = {row.condition for row in policy.rows if "waived" in row.marks}
    conditions = [replace(c, due=min(c.due, first)) if c.condition in asked else c for c in decided.conditions]
    return replace(decided, conditions=conditions)


def verdict(one: Way, fleet: Iterable[Finding], profile: str, waived: Iterable[Waived] = ()) -> Verdict | None:
    """The verdict of a profile with what the fleet adds: the worst finding that nobody waived wins.

    None: nothing was judged.
    """
    if one.judged is None or profile not in one.judged.verdicts:
        return Verdict.INCOMPLETE if one.reached == "judged" else None  # a profile that the plan did not come to have
    spared = {finding for finding, _ in waived}
    bad = {f.verdict for f in (*one.judged.findings, *fleet) if profile in f.profiles and f not in spared}
    for worst_of_all in (Verdict.FAIL, Verdict.INCOMPLETE):
        if worst_of_all in bad:
            return worst_of_all
    return Verdict.PASS if profile in one.judged.met else Verdict.INCOMPLETE


def marked(one: Way, fleet: Iterable[Finding], profile: str, waived: Iterable[Waived] = ()) -> frozenset[str]:
    own = one.judged.marks.get(profile, []) if one.judged else []
    spared = any(profile in finding.profiles for finding, _ in waived)
    return frozenset(own) | marks(fleet, profile) | ({"waived"} if spared else frozenset())


def _reason(
    one: Way, fleet: list[Finding], waived: list[Waived], by_profile: dict[str, Decided], decision: Decision
) -> str:
    """One sentence: the worst finding for a host that was judged, the way it was lost for one that was not."""
    judged = one.judged
    if judged and judged.refused:
        return f"result refused: {judged.refused[0]}"
    because = next((d.because for d in by_profile.values() if d.decision is decision), "nothing was demanded of it")
    if one.reached != "judged":
        return f"{because} ({one.trouble[-1]})" if one.trouble else because
    spared = {finding for finding, _ in waived}
    found = (f for f in (*(judged.findings if judged else []), *fleet) if f not in spared)
    bad = sorted((f for f in found if RANK[f.verdict] < RANK[Verdict.PASS]), key=lambda f: RANK[f.verdict])
    if not bad:
        names = ", ".join(dict.fromkeys(f"{w.id} by {w.person}, until {w.expires}" for _, w in waived))
        return f"{because} ({names})" if names else because
    first = bad[0]
    where = " ".join(part for part in (first.step and f"step {first.step}", first.subject, str(first.point)) if part)
    more = f" (and {len(bad) - 1} more)" if len(bad) > 1 else ""
    return f"{where}: {first.about}: {first.why}{more}"


def summary(accounts: list[Account]) -> dict[str, int]:
    """How many hosts per decision; decisions that nobody has are left out."""
    counts = {str(one): sum(account.decision is one for account in accounts) for one in Decision}
    return {name: count for name, count in counts.items() if count}


def told(accounts: list[Account]) -> str:
    """What the playbook's last task reads: {host: {decision, reason, good}}."""
    return json.dumps(
        {a.expected.host: {"decision": str(a.decision), "reason": a.reason, "good": a.decision.good} for a in accounts}
    )
