"""The account of every expected host: how far it came, what its evidence amounts to, the decision. None drops out."""

from __future__ import annotations

import json
from dataclasses import dataclass, field

from gpuburn import decision as decisions
from gpuburn.controller.collect import Collected, take_in
from gpuburn.controller.run import Expected, Run
from gpuburn.decision import Decision, Reached, Row, decide, marks, worst
from gpuburn.journal import Entry
from gpuburn.plan import Plan
from gpuburn.strict import Refused
from gpuburn.verdict import Finding, Verdict

ALIVE = ("starting", "running", "judging", "finished", "stalled", "restarting", "vanished")
RANK = {Verdict.FAIL: 0, Verdict.INCOMPLETE: 1, Verdict.PASS: 2, Verdict.NOT_APPLICABLE: 3}


@dataclass(frozen=True, slots=True)
class Account:
    """One host. by_profile: the decision and its reason per profile; trouble: what the journal tells of its way."""

    expected: Expected
    reached: Reached
    decision: Decision
    reason: str
    by_profile: dict[str, tuple[Decision, str]]
    plan: Plan | None = None
    collected: Collected | None = None
    trouble: list[str] = field(default_factory=list)

    def findings(self) -> list[Finding]:
        """Worst first, in the plan's order within the same verdict."""
        mine = self.collected.findings if self.collected else []
        return sorted(mine, key=lambda f: (RANK[f.verdict], not f.marginal))


def give(run: Run, now: float) -> list[Account]:
    """Every expected host, worst first."""
    rows, entries = decisions.load(), run.told()
    accounts = [_one(run, one, [e for e in entries if e.host == one.host], rows, now) for one in run.expected()]
    order = list(Decision)
    return sorted(accounts, key=lambda a: (-order.index(a.decision), a.expected.rack, a.expected.host))


def _one(run: Run, expected: Expected, entries: list[Entry], rows: list[Row], now: float) -> Account:
    try:
        plan = _as_expected(run.plan(expected.host), expected)
        collected = take_in(run, expected.host)
        if plan is None and run.incoming(expected.host).exists():
            raise Refused("plan.json is missing, and the result that came home answers to it")
    except Refused as error:
        plan, collected = None, None
        entries = [*entries, Entry(0, now, "plan.unreadable", "", expected.host, {"why": str(error)})]
    # A result that came home and has no plan to answer to proves nothing.
    answerless = plan is None and run.incoming(expected.host).exists()
    reached: Reached = "refused" if answerless else _reached(entries, collected, plan, now)
    verdicts = collected.verdicts if collected else {}
    unproven = Verdict.INCOMPLETE if reached == "judged" else None  # a profile that the plan did not come to have
    by_profile = {
        profile: decide(
            rows,
            reached,
            verdicts.get(profile, unproven),
            expected.kind,
            expected.level,
            marks(collected.findings if collected else [], profile),
        )
        for profile in expected.profiles
    }
    decision = worst([one for one, _ in by_profile.values()])
    trouble = [
        _said(entry) for entry in entries if entry.event in ("unreachable", "failed", "refused", "plan.unreadable")
    ]
    reason = _reason(collected, by_profile, decision, trouble, reached)
    return Account(expected, reached, decision, reason, by_profile, plan, collected, trouble)


def _as_expected(plan: Plan | None, expected: Expected) -> Plan | None:
    """The plan, if it is of the host as it is expected; what was demanded less than expected decides nothing."""
    if plan is not None:
        planned = {
            "host": plan.host, "kind": plan.kind, "level": plan.level, "environment": plan.environment,
            "profiles": list(plan.profiles), "delivery": plan.delivery, "sku": plan.sku, "count": len(plan.devices),
        }  # fmt: skip
        for name, value in planned.items():
            if value != getattr(expected, name):
                said = f"{name} is {value!r}, expected was {getattr(expected, name)!r}"
                raise Refused(f"plan.json is not of the host as it is expected: {said}")
    return plan


def _reached(entries: list[Entry], collected: Collected | None, plan: Plan | None, now: float) -> Reached:
    if collected and collected.refused:
        return "refused"
    if collected and (collected.result or Verdict.FAIL in collected.verdicts.values()):
        return "judged"
    phases = [entry.details.get("phase", "") for entry in entries if entry.event == "phase"]
    if any(phase in ALIVE for phase in phases) or any(entry.event == "started" for entry in entries):
        last = phases[-1] if phases else ""
        if last == "finished":
            return "uncollected"
        if last == "vanished":
            return "vanished"
        return "lost" if plan is None or now > plan.deadline else "uncollected"
    if collected:
        return "judged"
    events = {entry.event for entry in entries}
    return "never_reached" if "unreachable" in events and plan is None else "not_started"


def _said(entry: Entry) -> str:
    where = entry.details.get("task") or entry.event
    return f"{where}: {entry.details.get('why', entry.event)}"


def _reason(
    collected: Collected | None, by_profile: dict[str, tuple[Decision, str]], decision: Decision, trouble: list[str],
    reached: str,
) -> str:  # fmt: skip
    """One sentence: the worst finding for a host that was judged, the way it was lost for one that was not."""
    if collected and collected.refused:
        return f"result refused: {collected.refused[0]}"
    if reached != "judged":
        because = next((why for one, why in by_profile.values() if one is decision), "nothing was demanded of it")
        return f"{because} ({trouble[-1]})" if trouble else because
    bad = [f for f in collected.findings if f.verdict in (Verdict.FAIL, Verdict.INCOMPLETE)] if collected else []
    bad.sort(key=lambda f: RANK[f.verdict])
    if not bad:
        return next(why for one, why in by_profile.values() if one is decision)
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
