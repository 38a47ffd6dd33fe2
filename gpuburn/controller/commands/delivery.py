"""gpuburn delivery: an order or a lot over all its runs."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Annotated

import typer

deliveries = typer.Typer(no_args_is_help=True, help="An order or a lot over all its runs: yield, attempts, acceptance.")
Id = Annotated[str, typer.Argument(metavar="ID", help="The delivery, as gpuburn_delivery names it.")]
Reports = Annotated[Path, typer.Option("--reports", help="Where runs are kept.")]
HERE = Path("reports")


def add(app: typer.Typer) -> None:
    app.add_typer(deliveries, name="delivery")


@deliveries.command("list")
def listed(reports: Reports = HERE) -> None:
    """Every delivery that a run names, with its runs and hosts."""
    from gpuburn.controller.deliveries import overview

    for name, (runs, hosts) in overview.listed(reports).items():
        print(f"{name:32} {runs} run(s), {hosts} host(s)")


@deliveries.command("show")
def show(
    delivery: Id, reports: Reports = HERE, machine: Annotated[bool, typer.Option("--json")] = False
) -> None:  # fmt: skip
    """Yield, first-pass yield, every attempt, what is open. Exit: the decisions."""
    from gpuburn.controller import status
    from gpuburn.controller.deliveries import acceptance, overview, words

    one = overview.of(reports, delivery, time.time())
    before = acceptance.read(reports, delivery)
    accepted = acceptance.listed(before)
    if machine:
        print(json.dumps(overview.document(one, accepted), indent=1, sort_keys=True))
    else:
        print(words.shown(one, accepted, acceptance.withdrawn(one, before)))
    code = status.of(host.decision for host in one.hosts)
    raise status.Ended(status.UNDECIDED if one.unreadable and code != status.REJECTED else code)


@deliveries.command("accept")
def accept(
    delivery: Id,
    by: Annotated[str, typer.Option("--by", help="Who accepts.")],
    reason: Annotated[str, typer.Option("--reason", help="Why, or under which contract.")],
    reports: Reports = HERE,
) -> None:
    """Write down, with all serials, the hosts that are accepted now and no acceptance lists yet."""
    from gpuburn.controller.deliveries import acceptance, overview, words

    now = time.time()
    made, path = acceptance.accept(reports, overview.of(reports, delivery, now), by, reason, now)
    page = words.page(made, path, now)
    print(f"{len(made.accepted)} accepted, {len(made.conditional)} on a condition, {made.parts} serials: {path}")
    print(f"{len(made.held)} not accepted now; page: {page}", file=sys.stderr)
