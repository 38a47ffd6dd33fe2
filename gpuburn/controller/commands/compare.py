"""gpuburn compare: two runs, deliveries or baselines beside each other."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def add(app: typer.Typer) -> None:
    app.command()(compare)


def compare(
    a: Annotated[str, typer.Argument(metavar="A", help="RUN, delivery:ID, baseline:NAME; RUN/GLOB for some hosts.")],
    b: Annotated[str, typer.Argument(metavar="B", help="The same.")],
    reports: Annotated[Path, typer.Option("--reports", help="Where runs and baselines are kept.")] = Path("reports"),
    machine: Annotated[bool, typer.Option("--json", help="For machines.")] = False,
) -> None:
    """Say per metric how many times the median of A that of B is, with a 95 % interval, and what has no ratio and why.

    SKUs, drivers and vendors may differ; what was measured in another way is not compared.
    """
    from gpuburn import strict
    from gpuburn.controller import compare as comparing, sides

    one, other = sides.side(a, reports), sides.side(b, reports)
    rows = comparing.compare(one, other)
    if machine:
        print(strict.encode(comparing.document(one, other, rows)).decode(), end="")
    else:
        print(comparing.text(one, other, rows))
