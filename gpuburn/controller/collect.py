"""Take a result in: check every digest, make its numbers anew from the evidence, and judge again.

What cannot be reproduced is not evidence, and the host that sent it is undecided.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from gpuburn import plan as plans, result as results, run_folder, strict
from gpuburn.controller.run import Run
from gpuburn.controller.unseal import check, unseal
from gpuburn.finding import Finding, Verdict, finding
from gpuburn.identity import HostRecord
from gpuburn.outcome import Outcome, Status
from gpuburn.plan import Plan
from gpuburn.result import Result
from gpuburn.strict import Refused
from gpuburn.verdict import judge, verdicts

LONGEST = 500  # characters of a refusal


@dataclass(frozen=True, slots=True)
class Collected:
    """What a host's evidence amounts to. result is None where the host did not come to write one."""

    plan: Plan
    outcomes: list[Outcome]
    findings: list[Finding]
    verdicts: dict[str, Verdict]
    result: Result | None = None
    refused: list[str] = field(default_factory=list)
    record: HostRecord = field(default_factory=HostRecord)


def collect(folder: Path, plan_file: Path) -> Collected:
    """Verify an unsealed run folder against the plan that was sent. Raises Refused with the first difference."""
    sent = strict.load_file(plan_file)
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
    return Collected(plan, outcomes, findings, result.verdicts, result, record=record)


def _same(plan: Plan, result: Result, digest: str) -> None:
    """Whether the result is of this run, this host, this plan, and fresh."""
    for name in ("run", "delivery", "host", "kind", "environment", "level", "nonce", "devices", "left_out", "criteria"):
        sent, got = getattr(plan, name), getattr(result, name)
        if sent != got:
            raise Refused(f"result.json: {name} is {str(got)[:80]!r}, the plan says {str(sent)[:80]!r}")
    if result.plan_sha256 != digest:
        raise Refused("result.json: it is of another plan than the one that was sent")


def _remeasured(folder: Path, plan: Plan, outcome: Outcome) -> None:
    step = plan.step(outcome.step)
    if step is None:
        raise Refused(f"steps/{outcome.step}: not a step of the plan")
    try:
        again = run_folder.amounts(folder, plan, step, outcome)
    except Refused:
        if outcome.status is Status.ERRORED and not outcome.measurements and not outcome.facts:
            return  # the host, too, found this evidence unusable: it claims nothing, and is judged incomplete
        raise
    if again != outcome:
        raise Refused(f"steps/{outcome.step}/outcome.json: its numbers do not follow from the readings beside it")


def _difference(said: dict[str, str], found: dict[str, str]) -> str:
    names = sorted({name for name in {*said, *found} if said.get(name) != found.get(name)})
    return ", ".join(names[:3])


def unfinished(folder: Path, plan: Plan) -> Collected:
    """What a run without result.json still shows: it may fail the host, and is at best incomplete."""
    if strict.load_file(folder / "plan.json") != strict.encode(plan):
        raise Refused("plan.json: is not the plan that was sent")
    outcomes = run_folder.outcomes(folder, plan)
    for outcome in outcomes:
        _remeasured(folder, plan, outcome)
    why = "the run wrote no result.json: it did not come to its end"
    ended = finding("host.no_result", "host", Verdict.INCOMPLETE, why, "transport", plan.profiles)
    record = run_folder.record(folder)
    findings = [ended, *judge(plan, outcomes, record)]
    return Collected(plan, outcomes, findings, verdicts(plan, findings), record=record)


def _unsealed(archive: Path, folder: Path) -> None:
    """Unpack what came, once: another archive replaces what an earlier one held."""
    mark = folder.with_name("sealed.sha256")
    check(archive)
    came = strict.digest_file(archive)
    if folder.exists() and mark.exists() and mark.read_text() == came:
        return
    unseal(archive, folder)
    mark.write_text(came)


def said(error: Exception) -> str:
    """An error about what a host sent, which may hold its words: one line, bounded."""
    return " ".join(str(error).split())[:LONGEST]


def take_in(run: Run, host: str, scratch: Path | None = None) -> Collected | None:
    """Unseal and verify what came from a host; None if nothing came. A refusal is kept in the answer, not raised.

    scratch: where to unseal; the host's own folder if not given.
    """
    plan = run.plan(host)
    if plan is None or not run.incoming(host).exists():
        return None
    folder = (scratch or run.host(host)) / "run"
    try:
        _unsealed(run.incoming(host), folder)
        if not (folder / "result.json").exists():
            return unfinished(folder, plan)
        return collect(folder, run.host(host) / "plan.json")
    except (Refused, OSError) as error:
        return Collected(plan, [], [], {}, None, [said(error)])
