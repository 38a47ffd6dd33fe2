"""gpuburn judge: judge a run again from its sealed evidence, by its own limits or by others."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def add(app: typer.Typer) -> None:
    app.command()(judge)


def judge(
    run: Annotated[str, typer.Argument(metavar="RUN", help="Run id, <UTC>-<4 hex>.")],
    limits: Annotated[
        Path | None,
        typer.Option(
            help="YAML of limits, as for gpuburn plan: {gemm.tflops: {min: 620, unit: TFLOP/s, because: ...}}."
        ),
    ] = None,
    baseline: Annotated[str, typer.Option(help="Judge what has no reference number by this baseline.")] = "",
    policy: Annotated[Path | None, typer.Option(help="YAML: another policy.yml.")] = None,
    reports: Annotated[Path, typer.Option("--reports", help="Where runs and baselines are kept.")] = Path("reports"),
    machine: Annotated[bool, typer.Option("--json", help="For machines: the same bytes anywhere.")] = False,
) -> None:
    """Judge every host again from what it sent; with other limits, say which hosts flip. Writes nothing.

    The exit status is that of the decisions, as for report.
    """
    from gpuburn import strict
    from gpuburn.controller import replay, status
    from gpuburn.controller.run import Run

    where = Run.of(reports, run)
    other = replay.instead(where, limits, baseline, policy)
    done = replay.replay(where, other)
    if machine:
        print(strict.encode(replay.document(done, other)).decode(), end="")
    else:
        print(replay.text(done, other))
    raise status.Ended(status.of(one.decision for one in done.accounts))
