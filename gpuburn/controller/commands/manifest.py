"""gpuburn manifest: check a vendor's list, write one from a run, note a part that was replaced."""

from __future__ import annotations

import sys
import time
from collections import Counter
from pathlib import Path
from typing import Annotated

import typer

manifests = typer.Typer(no_args_is_help=True, help="The vendor's list of what was ordered, per host.")
HERE = Path("reports")


def add(app: typer.Typer) -> None:
    app.add_typer(manifests, name="manifest")


@manifests.command("check")
def check(file: Path) -> None:
    """Refuse a list by line and column, or say what it holds. Exit status 0 if it can be used."""
    from gpuburn.controller.manifest import file as reader
    from gpuburn.manifest import COLUMNS, KINDS

    found = reader.load(file)
    count = Counter(part.kind for one in found.hosts for part in one.parts)
    parts = ", ".join(f"{count[kind]} {kind}" for kind in KINDS)
    print(f"{len(found.hosts)} host(s); parts with a number: {parts}")
    said = Counter(name for one in found.hosts for name in one.columns())
    for name in (name for name in COLUMNS if said[name]):
        print(f"  {name:16} {COLUMNS[name].of:6} of {said[name]} host(s)")
    for one in found.amended:
        print(f"  amended {one.date} by {one.by}: {one.old} is now {one.new} ({one.reason})")
    print(f"SHA-256 {found.digest}")


@manifests.command("columns")
def columns() -> None:
    """Every column that a list may have, and the other headings that are taken for it."""
    from gpuburn.manifest import COLUMNS

    for name, about in COLUMNS.items():
        print(f"{name:16} {about.of:6} {about.doc}{f'; also {chr(44).join(about.aliases)}' if about.aliases else ''}")


@manifests.command("from")
def from_run(
    run: Annotated[str, typer.Argument(metavar="RUN", help="Run id, <UTC>-<4 hex>.")],
    host: Annotated[str, typer.Option("--host", help="Only hosts of this name (* and ? match).")] = "*",
    to: Annotated[Path | None, typer.Option("--to", help="A new file; none: standard output.")] = None,
    reports: Annotated[Path, typer.Option("--reports", help="Where runs are kept.")] = HERE,
) -> None:
    """Write what hosts of a run tell of themselves as a list (CSV): of a golden host, or of a delivery as accepted."""
    from gpuburn.controller.manifest import golden
    from gpuburn.controller.run import Run

    text, left_out = golden.made(Run.of(reports, run), time.time(), host)
    if to:
        golden.save(to, text)
    else:
        print(text, end="")
    for why in left_out:
        print(f"left out: {why}", file=sys.stderr)
    print(f"{to or 'standard output'}: {text.count(chr(10)) - 1} row(s)", file=sys.stderr)


@manifests.command("amend")
def amend(
    file: Path,
    replaces: Annotated[
        tuple[str, str], typer.Option("--replaces", metavar="OLD NEW", help="Serial, UUID or MAC before and now.")
    ],
    by: Annotated[str, typer.Option("--by", help="Who says so.")],
    reason: Annotated[str, typer.Option("--reason", help="Why, for example the RMA's number.")],
) -> None:
    """Note a replaced part in FILE.amendments.yml; FILE stays as the vendor sent it, and every run reads both."""
    from gpuburn.controller.deliveries.overview import day
    from gpuburn.controller.manifest import file as reader
    from gpuburn.manifest import Amendment

    one = Amendment(*replaces, by, reason, day(time.time()))
    rest = reader.amend(file, one)
    print(f"{reader.beside(file)}: {one.old} is now {one.new}, by {one.by}")
    if rest:
        print(f"the same part is listed with {rest}: amend that, too, if it came with the part", file=sys.stderr)
