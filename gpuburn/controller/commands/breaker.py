"""`gpuburn breaker`: what tripped in a run, and a named person's release."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

breakers = typer.Typer(no_args_is_help=True, help="The circuit breaker of a run: too many hosts fail one check.")
Reports = Annotated[Path, typer.Option("--reports", help="Where runs are kept.")]


def add(app: typer.Typer) -> None:
    app.add_typer(breakers, name="breaker")


@breakers.command("show")
def show(run: str, reports: Reports = Path("reports")) -> None:
    """What tripped and who released it, as the run's journal tells."""
    from gpuburn.controller.breaking import RELEASED, TRIPPED
    from gpuburn.controller.run import Run

    told = [entry for entry in Run.of(reports, run).entries() if entry.event in (TRIPPED, RELEASED)]
    for entry in told:
        what = f"{entry.details.get('about')} in step {entry.details.get('step')}"
        who = f"released by {entry.details['by']}: {entry.details.get('reason')}" if "by" in entry.details else ""
        print(f"{what}: {who or entry.details.get('why')}")
    if not told:
        print("no breaker tripped")


@breakers.command("release")
def release(
    run: str, by: Annotated[str, typer.Option("--by")], reason: Annotated[str, typer.Option("--reason")],
    reports: Reports = Path("reports"),
) -> None:  # fmt: skip
    """Let the rejections stand: the test, the image and the fabric were cleared."""
    from gpuburn.controller import breaking
    from gpuburn.controller.run import Run

    for _, about, step in breaking.release(Run.of(reports, run), by, reason, time.time()):
        print(f"released: {about} in step {step}; `gpuburn report --run {run}` decides anew")
