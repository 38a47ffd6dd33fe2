"""Take a result in: check every digest, make its numbers anew from the evidence, and judge again.

What cannot be reproduced is not evidence, and the host that sent it is undecided.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from gpuburn import plan as plans, result as results, run_folder, strict
from gpuburn.controller.run import Run
from gpuburn.controller.unseal import unseal
from gpuburn.outcome import Outcome
from gpuburn.plan import Plan
from gpuburn.result import Result
from gpuburn.strict import Refused
from gpuburn.verdict import Finding, Verdict, judge, verdicts


@dataclass(frozen=True, slots=True)
class Collected:
    """What a host's evidence amounts to. result is None where the host did not come to write one."""

    plan: Plan
    outcomes: list[Outcome]
    findings: list[Finding]
    verdicts: dict[str, Verdict]
    result: Result | None = None
    refused: list[str] = field(default_factory=list)


def collect(folder: Path, plan_file: Path) -> Collected:
    """Verify an unsealed run folder against the plan that the controller sent. Raises Refused with the first difference."""
    sent = plan_file.read_bytes()
    plan = plans.decode(sent, "the plan that was sent")
    result = results.decode(strict.load_file(folder / "result.json", results.LIMIT))
    _same(plan, result, strict.digest(sent))
    if strict.load_file(folder / "plan.json") != sent:
        raise Refused("plan.json: is not the plan that was sent")
    if result.evidence != results.evidence(folder):
        raise Refused(
            f"evidence is missing, added or changed: {_difference(result.evidence, results.evidence(folder))}"
        )
    outcomes = run_folder.outcomes(folder, plan)
    if outcomes != result.outcomes:
        raise Refused("result.json: its outcomes are not those of the steps' outcome.json")
    for outcome in outcomes:
        _remeasured(folder, plan, outcome)
    record = run_folder.record(folder)
    if record != result.record:
        raise Refused("result.json: its record of the host is not that of identity.json and events.jsonl")
    findings = judge(plan, outcomes, record)
    if findings != result.findings or verdicts(plan, findings) != result.verdicts:
        raise Refused("result.json: its findings do not follow from its evidence")
    return Collected(plan, outcomes, findings, result.verdicts, result)


def _same(plan: Plan, result: Result, digest: str) -> None:
    """Whether the result is of this run, this host, this plan, and fresh."""
    for name in ("run", "delivery", "host", "kind", "environment", "level", "nonce", "devices", "left_out"):
        sent, got = getattr(plan, name), getattr(result, name)
        if sent != got:
            raise Refused(f"result.json: {name} is {str(got)[:80]!r}, the plan says {str(sent)[:80]!r}")
    if result.plan_sha256 != digest:
        raise Refused("result.json: it is of another plan than the one that was sent")


def _remeasured(folder: Path, plan: Plan, outcome: Outcome) -> None:
    step = plan.step(outcome.step)
    if step is None:
        raise Refused(f"steps/{outcome.step}: not a step of the plan")
    if not outcome.measurements and not outcome.facts:
        return  # its evidence was unusable or absent; the outcome says so and is judged incomplete
    again = run_folder.amounts(folder, plan, step, outcome)
    if again != outcome:
        raise Refused(f"steps/{outcome.step}/outcome.json: its numbers do not follow from the readings beside it")


def _difference(said: dict[str, str], found: dict[str, str]) -> str:
    names = sorted({name for name in {*said, *found} if said.get(name) != found.get(name)})
    return ", ".join(names[:3])


def unfinished(folder: Path, plan: Plan) -> Collected:
    """What a run without result.json still shows: it may fail the host, and is at best incomplete."""
    outcomes = run_folder.outcomes(folder, plan)
    findings = judge(plan, outcomes, run_folder.record(folder))
    return Collected(plan, outcomes, findings, verdicts(plan, findings))


def take_in(run: Run, host: str) -> Collected | None:
    """Unseal and verify what came from a host; None if nothing came. A refusal is kept in the answer, not raised."""
    plan = run.plan(host)
    if plan is None or not run.incoming(host).exists():
        return None
    folder = run.host(host) / "run"
    try:
        if not folder.exists():
            unseal(run.incoming(host), folder)
        return collect(folder, run.host(host) / "plan.json")
    except (Refused, OSError) as error:
        return Collected(plan, [], [], {}, None, [str(error)])
