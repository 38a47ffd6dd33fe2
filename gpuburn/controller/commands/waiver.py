"""gpuburn waiver: make an entry from a run, check a file of them."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Annotated

import typer

waivers = typer.Typer(no_args_is_help=True, help="A person's dated, expiring acceptance of what failed, by serial.")
HERE = Path("reports")


def add(app: typer.Typer) -> None:
    app.add_typer(waivers, name="waiver")


@waivers.command("generate")
def generate(
    run: Annotated[str, typer.Argument(metavar="RUN")],
    about: Annotated[str, typer.Option(help="What failed, for example gemm.tflops.")],
    by: Annotated[str, typer.Option("--by", help="Who waives it.")],
    reason: Annotated[str, typer.Option(help="Why it may be waived.")],
    expires: Annotated[str, typer.Option(help="The last day that it holds, YYYY-MM-DD.")],
    host: Annotated[list[str] | None, typer.Option(help="Only hosts of this name (* and ? match).")] = None,
    rack: Annotated[list[str] | None, typer.Option(help="Only hosts of this rack.")] = None,
    sku: Annotated[list[str] | None, typer.Option(help="Only hosts of this GPU model.")] = None,
    code: Annotated[str, typer.Option(help="Only findings with this code; empty: any that failed.")] = "",
    name: Annotated[str, typer.Option("--id", help="Its id; empty: made from the quantity and the day.")] = "",
    out: Annotated[str, typer.Option(help="File to add it to; empty: standard output.")] = "",
    reports: Annotated[Path, typer.Option("--reports", help="Where runs are kept.")] = HERE,
) -> None:
    """Write the waiver of everything that fails a quantity in a run, with explicit serials, and say how many."""
    from dataclasses import replace

    from gpuburn import waiver
    from gpuburn.controller import account, waiving
    from gpuburn.controller.deliveries.overview import day
    from gpuburn.controller.run import Run

    scope = waiving.Scope(about, code, tuple(host or ()), tuple(rack or ()), tuple(sku or ()))
    now = time.time()
    found = waiving.failing(account.alone(Run.of(reports, run), now), scope)
    made = waiving.entry(scope, found, by, reason, day(now), expires)
    made = replace(made, id=name or made.id)
    if out:
        kept = waiver.load(Path(out)) if Path(out).exists() else []
        text = waiver.dump(waiver.check([*kept, made], out))
        Path(out).write_text(text, encoding="utf-8")
    else:
        print(waiver.dump([made]), end="")
    print(f"{made.id}: {len(found.serials)} serial(s), {found.parts} part(s) that fail {about}", file=sys.stderr)


@waivers.command("check")
def check(file: Path) -> None:
    """Refuse a file of waivers by name, or say what each of them does and whether it holds today."""
    from gpuburn import waiver
    from gpuburn.controller.deliveries.overview import day

    for one in waiver.load(file):
        why = waiver.unusable(one, day(time.time())).partition(";")[0]
        print(f"{one.id:24} {one.about:28} {len(one.serials):5} serial(s)  {one.person}, {one.date} to {one.expires}"
              f"{f'  {why}' if why else ''}")  # fmt: skip
