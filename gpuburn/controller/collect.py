"""Take a result in: check every digest, make its numbers anew from the evidence, and judge again.

What cannot be reproduced is not evidence, and the host that sent it is undecided.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, field, replace
from pathlib import Path

from gpuburn import plan as plans, result as results, run_folder, strict
from gpuburn.controller import archives
from gpuburn.controller.run import Run
from gpuburn.controller.unseal import same, unseal
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


def said(error: Exception) -> str:
    """An error about what a host sent, which may hold its words: one line, bounded."""
    return " ".join(str(error).split())[:LONGEST]


@dataclass(frozen=True, slots=True)
class Opened:
    """One sealed file: what it amounts to, and whether it holds a result (proven or not), not a part of a run."""

    name: str
    collected: Collected
    complete: bool


def _opened(archive: Path, folder: Path, plan: Plan, sent: Path) -> Opened:
    """What lies in the folder is made what is packed in the archive, and verified. A refusal is kept, not raised."""
    complete = False
    try:
        if not folder.is_dir() or not same(archive, folder):
            unseal(archive, folder)
        complete = (folder / "result.json").exists()
        return Opened(archive.name, collect(folder, sent) if complete else unfinished(folder, plan), complete)
    except (Refused, OSError) as error:
        return Opened(archive.name, Collected(plan, [], [], {}, None, [said(error)]), complete)


def take_in(run: Run, host: str, scratch: Path | None = None) -> Collected | None:
    """Unseal and verify what came from a host; None if nothing came. A refusal is kept in the answer, not raised.

    scratch: where to unseal; the host's own folder if not given.
    """
    plan = run.plan(host)
    came = [path for path in archives.of(run, host) if path.exists()]
    if plan is None or not came:
        return None
    home, sent = (scratch or run.host(host)) / "run", run.host(host) / "plan.json"
    if len(came) == 1:
        return _opened(came[0], home, plan, sent).collected
    with tempfile.TemporaryDirectory(prefix="gpuburn-") as beside:
        opened = [_opened(path, Path(beside) / str(at) / "run", plan, sent) for at, path in enumerate(came)]
    counts = counting(opened)
    found = _opened(came[counts], home, plan, sent).collected
    return found if found.refused else contradicted(found, opened, counts)


def counting(opened: list[Opened]) -> int:
    """Which of several sealed files counts: the first with a result; else the first part of a run that fails, else the
    latest part that holds, else the latest."""
    parts = [at for at, one in enumerate(opened) if not one.collected.refused]
    whole = [at for at, one in enumerate(opened) if one.complete]
    failed = [at for at in parts if Verdict.FAIL in opened[at].collected.verdicts.values()]
    return next(iter([*whole, *failed, *reversed(parts)]), len(opened) - 1)


def contradicted(found: Collected, opened: list[Opened], counts: int) -> Collected:
    """What counts, with a finding for each profile of which another sealed file says otherwise. A fail that came before
    stays a fail; whatever came later proves that the host does not say one thing."""
    added = []
    for at, other in enumerate(opened):
        for profile, its in other.collected.verdicts.items() if at != counts else ():
            mine = found.verdicts.get(profile)
            if its is not mine and (other.complete or its is Verdict.FAIL):
                verdict = Verdict.FAIL if its is Verdict.FAIL and at < counts else Verdict.INCOMPLETE
                why = f"another result came: {other.name} says {its}, {opened[counts].name} says {mine}"
                added.append(finding("host.another_result", "host", verdict, why, "transport", (profile,)))
    if not added:
        return found
    findings = [*added, *found.findings]
    return replace(found, findings=findings, verdicts=verdicts(found.plan, findings))
