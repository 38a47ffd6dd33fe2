"""Real runs made cheaply: a plan of planning.make, answered in full by hand, in memory or as a sealed run folder.

No process runs. Every helper starts from a run that passes, so that a test changes one thing and sees what it leads to.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from gpuburn import evidence, percentile, plan as plans, planning, result as results, run_folder, strict
from gpuburn.agent.seal import seal
from gpuburn.controller.run import Expected, Run
from gpuburn.finding import Finding, Verdict
from gpuburn.identity import REQUIRED, Boot, Event, HostRecord, Identity
from gpuburn.limit import Limit
from gpuburn.measurement import PERCENTILE, Fact, Metric, Reading, Work
from gpuburn.outcome import Outcome, Status, SubjectOutcome
from gpuburn.plan import Plan, Step
from gpuburn.planning import Request
from gpuburn.probe import Probe, Taken, discover
from gpuburn.verdict import judge, verdicts

RUN = "20260101T000000Z-0000"
NONCE = "0123456789abcdef" * 2
ISSUED = 1_767_225_600.0
STEPS = ("idle", "gemm", "allreduce")  # one of each scope: host, device, ranks


def request(**changed: Any) -> Request:
    settled = {
        "run": RUN, "host": "node1", "kind": "rehearsal", "level": "smoke", "profiles": ("training",), "count": 3,
        "privileges": "user",
    }  # fmt: skip
    return Request(**{**settled, **changed})


def hardware(**changed: Any) -> Request:
    return request(**{"kind": "hardware", "privileges": "root", "sku": "h100-sxm5-80gb", **changed})


def plan(asked: Request | None = None, steps: tuple[str, ...] = STEPS, **changed: Any) -> Plan:
    """A plan of few steps; changed: fields of the plan that are set as they are."""
    whole = planning.make(asked or request(), NONCE, ISSUED)
    kept = [step for step in whole.steps if step.name in steps]
    limits = [limit for limit in whole.limits if limit.when.steps[0] in steps]
    return dataclasses.replace(whole, **{"steps": kept, "limits": limits, **changed})


def with_limit(of: Plan, about: str, **fields: Any) -> Plan:
    """The plan with the limits on one quantity changed."""
    changed = [dataclasses.replace(one, **fields) if one.about == about else one for one in of.limits]
    return dataclasses.replace(of, limits=changed)


def answers(of: Plan) -> dict[str, list[Taken]]:
    """What every step yields where all is well: each promise at each point, and work."""
    return {step.name: _answer(of, step) for step in of.steps}


def _answer(of: Plan, step: Step) -> list[Taken]:
    probe = discover()[step.probe]
    given: list[Taken] = []
    for limit in of.limits:
        if step.name in limit.when.steps:
            declared = plans.promise(limit, step, {**discover()})
            for subject, point in plans.demanded(of, limit, step, discover()):
                name = limit.about.partition(".")[2]
                if isinstance(declared, Metric):
                    value = _value(of, step, limit)
                    if limit.of and not _demanded(of, step, limit.of):
                        given.append(Reading(limit.of.partition(".")[2], 1.0, point, subject, ISSUED))
                    given += [Reading(name, value, point, subject, ISSUED + at) for at in range(_count(declared))]
                else:
                    given.append(Fact(name, limit.equals or "the same", point, subject))
    given = list(dict.fromkeys(given))
    return [*given, *(worked(subject, probe) for subject in plans.subjects(of, step))]


def _value(of: Plan, step: Step, limit: Limit) -> float:
    """What just meets a limit; of a share of another number, that number or the most of it."""
    if limit.of:
        above = next((one for one in (limit.warn_above, limit.fail_above) if one is not None), 1.0)
        return above * next((_value(of, step, one) for one in _demanded(of, step, limit.of)), 1.0)
    bounds = (limit.min, limit.max, limit.warn_below, limit.warn_above)
    return next((one for one in bounds if one is not None), 1.0)


def _demanded(of: Plan, step: Step, about: str) -> list[Limit]:
    return [one for one in of.limits if one.about == about and step.name in one.when.steps]


def _count(metric: Metric) -> int:
    match = PERCENTILE.fullmatch(metric.reduce)
    return percentile.floor(float(f"0.{match[1]}{match[2]}")) if match else 1 if metric.reduce == "sum" else 3


def worked(subject: str, probe: Probe) -> Work:
    return Work(**{name: 7 for name in probe.work}, subject=subject)


def outcome(of: Plan, step: Step, taken: list[Taken], **changed: Any) -> Outcome:
    """The outcome that these readings amount to, completed unless changed."""
    measurements, facts, work = evidence.amounts(taken, run_folder.probes_of(step))
    subjects = [SubjectOutcome(name, Status.COMPLETED, "", work.get(name, Work())) for name in plans.subjects(of, step)]
    whole = Outcome(
        step.name, step.probe, step.revision, Status.COMPLETED, "", ISSUED, 1.0, 1, subjects, measurements, facts,
        environment=step.env, params=step.params,
    )  # fmt: skip
    return dataclasses.replace(whole, **changed)


def outcomes(of: Plan, taken: dict[str, list[Taken]] | None = None) -> dict[str, Outcome]:
    taken = answers(of) if taken is None else taken
    return {step.name: outcome(of, step, taken[step.name]) for step in of.steps}


def boot(host: str = "node1") -> str:
    return "boot-1" if host == "node1" else f"boot-1-of-{host}"


def look(host: str = "node1", **changed: Any) -> Identity:
    sources: dict[str, dict[str, str]] = {}
    for name in (*REQUIRED, "dmi.product_serial", "dmi.board_serial"):
        source, _, key = name.rpartition(".")
        sources.setdefault(source, {})[key] = f"{key} of {host}"
    return Identity(**{"taken": ISSUED, "boot_id": boot(host), "sources": sources, **changed})


def record(**changed: Any) -> HostRecord:
    """A host that booted once, showed who it is twice, and whose kernel log was followed."""
    return HostRecord(
        **{"boots": [Boot("boot-1", ISSUED)], "identities": [look(), look()], "kernel_log": "read", **changed}
    )


def judged(of: Plan, said: dict[str, Outcome] | None = None, host: HostRecord | None = None) -> list[Finding]:
    return judge(of, (outcomes(of) if said is None else said).values(), host or record())


def verdict(of: Plan, said: dict[str, Outcome] | None = None, host: HostRecord | None = None) -> Verdict:
    """The verdict on the plan's first profile."""
    return verdicts(of, judged(of, said, host))[of.profiles[0]]


def bad(findings: list[Finding]) -> list[tuple[str, str, str, str]]:
    """(code, step, subject, verdict) of every finding that keeps a profile from passing."""
    return [
        (f.code, f.step, f.subject, str(f.verdict)) for f in findings if f.verdict in (Verdict.FAIL, Verdict.INCOMPLETE)
    ]


def write(folder: Path, of: Plan, taken: dict[str, list[Taken]] | None = None, events: list[Event] | None = None,
          fared: Callable[[Outcome], Outcome] = lambda one: one) -> results.Result:  # fmt: skip
    """A whole run folder with its result.json, sealed. fared: changes an outcome before it is written."""
    taken = answers(of) if taken is None else taken
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "plan.json").write_bytes(strict.encode(of))
    (folder / "identity.json").write_bytes(strict.encode([look(of.host), look(of.host)]))
    told = events or [
        Event(run_folder.BOOT, ISSUED, "host", boot(of.host)),
        Event(run_folder.KERNEL_LOG_READ, ISSUED, "host", ""),
    ]
    (folder / "events.jsonl").write_bytes(b"".join(strict.line(one) for one in told))
    for step in of.steps:
        _write_step(folder / "steps" / step.name, of, step, taken[step.name], fared)
    return conclude(folder, of)


def _write_step(folder: Path, of: Plan, step: Step, taken: list[Taken], fared: Callable[[Outcome], Outcome]) -> None:
    folder.mkdir(parents=True)
    sampled = run_folder.probes_of(step)[1].promises
    for one in taken:
        name = one.metric if isinstance(one, Reading) else one.name if isinstance(one, Fact) else ""
        file = "telemetry.jsonl" if name in sampled else f"readings.{one.subject}.jsonl"
        with (folder / file).open("ab") as out:
            out.write(evidence.dump(one))
    bare = fared(outcome(of, step, []))
    (folder / "outcome.json").write_bytes(strict.encode(run_folder.amounts(folder.parents[1], of, step, bare)))


def conclude(folder: Path, of: Plan) -> results.Result:
    """result.json from what lies in the folder, as the agent makes it, and the seal."""
    said, host = run_folder.outcomes(folder, of), run_folder.record(folder)
    findings = judge(of, said, host)
    result = results.Result(
        results.SCHEMA, of.run, of.delivery, of.host, "node1.site", of.kind, of.environment, of.level, of.nonce,
        strict.digest((folder / "plan.json").read_bytes()), ISSUED, ISSUED + 60, "finished", of.devices, host, said,
        findings, verdicts(of, findings), of.left_out, {"gpuburn": "0"}, results.evidence(folder), of.criteria,
    )  # fmt: skip
    (folder / "result.json").write_bytes(strict.encode(result))
    seal(folder)
    return result


def edit(path: Path, change: Callable[[Any], Any]) -> None:
    """Change a JSON file as someone without our words would."""
    document = json.loads(path.read_bytes())
    change(document)
    path.write_bytes((json.dumps(document, sort_keys=True, indent=1, ensure_ascii=False) + "\n").encode())


def redigest(folder: Path) -> None:
    """Name every file's present digest in result.json: what a forger does after a change."""
    edit(folder / "result.json", lambda result: result.update(evidence=results.evidence(folder)))


def expected(of: Plan, **changed: Any) -> Expected:
    return dataclasses.replace(
        Expected(of.host, of.kind, of.level, of.environment, list(of.profiles), of.delivery, of.sku, len(of.devices)),
        **changed,
    )


def home(reports: Path, *planned: Plan) -> Run:
    """A run on the controller with these plans sent, everyone expected, nothing back yet."""
    run = Run.of(reports, RUN)
    run.expect([expected(one) for one in planned])
    for one in planned:
        run.host(one.host).mkdir(parents=True)
        (run.host(one.host) / "plan.json").write_bytes(strict.encode(one))
    return run


def bring(run: Run, host: str, folder: Path) -> None:
    """The sealed file of a run folder arrives."""
    run.incoming(host).parent.mkdir(exist_ok=True)
    run.incoming(host).write_bytes((folder / "sealed.tar.gz").read_bytes())
