"""gpuburn export: a run's report in a format that other programs read."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Annotated

import typer


def add(app: typer.Typer) -> None:
    app.command()(export)


def export(
    run: Annotated[str, typer.Argument(metavar="RUN", help="Run id; not needed with --list.")] = "",
    form: Annotated[str, typer.Option("--format", help="One of --list.")] = "",
    out: Annotated[str, typer.Option(help="File, or - for standard output; empty: <run>.<suffix> here.")] = "",
    host: Annotated[list[str] | None, typer.Option(help="Only this host; may be given again.")] = None,
    reports: Annotated[Path, typer.Option("--reports", help="Where runs are kept.")] = Path("reports"),
    listed: Annotated[bool, typer.Option("--list", help="Every format, with what it is for.")] = False,
) -> None:
    """Write a run's report in a format that other programs read: JUnit, OCPTV, Prometheus, CSV, XLSX, Parquet."""
    from gpuburn.controller import account, export as exports, report as pages
    from gpuburn.controller.run import Run

    if listed:
        print("\n".join(exports.listed()))
        return
    made, where, now = exports.named(form), Run.of(reports, run), time.time()
    document = exports.only(pages.document(where, account.give(where, now), now), host or [])
    told = exports.put(out or f"{run}.{made.suffix}", made.of(document))
    print(told, file=sys.stderr)
