"""gpuburn decide and gpuburn cause: what a person says of a host, beside the policy."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

Host = Annotated[str, typer.Argument(metavar="HOST")]
RunId = Annotated[str, typer.Option("--run", help="Run id, <UTC>-<4 hex>.")]
By = Annotated[str, typer.Option("--by", help="Who says it.")]
Reason = Annotated[str, typer.Option("--reason", help="Why.")]
Reports = Annotated[Path, typer.Option("--reports", help="Where runs are kept.")]
HERE = Path("reports")


def add(app: typer.Typer) -> None:
    app.command()(decide)
    app.command()(cause)


def decide(
    host: Host, run: RunId, decision: Annotated[str, typer.Option("--as", help="accepted, conditional, rejected ...")],
    by: By, reason: Reason,
    profile: Annotated[str, typer.Option(help="Only this profile; empty: the host.")] = "",
    condition: Annotated[str, typer.Option(help="Of conditional: what is still owed.")] = "",
    owner: Annotated[str, typer.Option(help="Of conditional: by whom.")] = "",
    due: Annotated[str, typer.Option(help="Of conditional: until when, YYYY-MM-DD.")] = "",
    reports: Reports = HERE,
) -> None:  # fmt: skip
    """Record a person's decision about a host beside the policy's. It changes neither report's decision nor status."""
    from gpuburn.controller import people
    from gpuburn.controller.people import Personal
    from gpuburn.controller.run import Run
    from gpuburn.decision import Condition
    from gpuburn.policy import Decision
    from gpuburn.strict import known

    known(decision, [str(one) for one in Decision], "--as")
    where = Run.of(reports, run)
    asked = Condition(condition, owner, due) if condition or owner or due else None
    said = Personal(Decision(decision), by, reason, time.time(), profile, asked)
    people.record(where, people.named(where, host), said, where.policy_as_begun())
    print(f"{host}: {by} decided {decision}; the policy's decision stays. `gpuburn report --run {run}` shows both")


def cause(host: Host, run: RunId, by: By, reason: Reason, reports: Reports = HERE) -> None:
    """Record why a host failed, or came to no decision, in a run; another attempt is then no longer left to explain."""
    from gpuburn.attempt import GOOD
    from gpuburn.controller import account, people
    from gpuburn.controller.people import Cause
    from gpuburn.controller.run import Run
    from gpuburn.policy import Decision

    where, now = Run.of(reports, run), time.time()
    expected = people.named(where, host)
    passed = (*GOOD, Decision.TRIAL_PASSED)
    mine = [one for one in account.alone(where, now) if one.expected.host == host]
    failed = any(one.decision not in passed or one.waived for one in mine)
    of = next((people.said_of(one) for one in mine), people.OPEN)
    people.record_cause(where, expected, Cause(by, reason, now, of), failed)
    print(f"{host}: the cause of what happened in run {run} is recorded")
