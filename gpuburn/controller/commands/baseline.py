"""gpuburn baseline: keep what a run measured under a name, list and show what is kept."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Annotated

import typer

baselines = typer.Typer(no_args_is_help=True, help="What a run measured, kept under a name.")
Reports = Annotated[Path, typer.Option("--reports", help="Where runs and baselines are kept.")]
HERE = Path("reports")


def add(app: typer.Typer) -> None:
    app.add_typer(baselines, name="baseline")


@baselines.command("save")
def save(
    run: Annotated[str, typer.Argument(metavar="RUN", help="Run id, <UTC>-<4 hex>.")],
    name: Annotated[str, typer.Argument(metavar="NAME", help="A plain name; one that exists is never overwritten.")],
    reports: Reports = HERE,
    hosts: Annotated[str, typer.Option("--hosts", help="Only hosts whose names match, such as 'rack_a*'.")] = "*",
) -> None:
    """Write reports/baselines/NAME.json: the median over the devices of every host that passed, and their values."""
    from gpuburn.baseline import named
    from gpuburn.controller import account, baseline_of_run, baselines as kept
    from gpuburn.controller.run import Run

    named(reports, name)
    where, now = Run.of(reports, run), time.time()
    made, left_out = baseline_of_run.made(where, account.give(where, now), name, hosts, now)
    path = kept.save(reports, made)
    for host, why in left_out.items():
        print(f"left out: {host}: {why}", file=sys.stderr)
    devices = len(made.hosts) * made.count
    print(f"{path}: {len(made.entries)} quantities of {devices} devices on {len(made.hosts)} hosts")


@baselines.command("list")
def listed(reports: Reports = HERE) -> None:
    """One a line: name, kind, SKU, level, hosts, run."""
    from gpuburn.controller import baselines as kept

    for name in kept.names(reports):
        one = kept.load(reports, name)
        print(f"{name:24} {one.kind:10} {one.sku or '-':20} {one.level:9} {len(one.hosts):5} hosts  run {one.run}")


@baselines.command("show")
def show(name: Annotated[str, typer.Argument(metavar="NAME")], reports: Reports = HERE) -> None:
    """A baseline's numbers, of whom they are, and how they were measured."""
    from gpuburn.controller import baselines as kept

    print(kept.shown(kept.load(reports, name)))
