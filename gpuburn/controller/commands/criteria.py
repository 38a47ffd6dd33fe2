"""gpuburn criteria: what a delivery will be judged by, as a bilingual document to annex to the contract."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

from gpuburn.controller import options


def add(app: typer.Typer) -> None:
    app.command()(criteria)


def criteria(
    out: Annotated[Path, typer.Option(help="A file .html, or a folder where hosts have different criteria.")] = Path(
        "criteria.html"
    ),
    run: options.Run = "", reports: options.Reports = options.HERE, inventory: options.Inventory = "",
    pattern: options.Pattern = "", extra: options.Extra = None,
    sku: options.Sku = "", count: options.Count = 0, profile: options.Profiles = None,
    level: options.Level = "", kind: options.Kind = "", environment: options.Environment = "",
    limits: options.Limits = None, host: options.Hosts = None,
) -> None:  # fmt: skip
    """Write what hosts will be judged by as a document in English and Chinese, with its digest, to annex to a contract.

    Of -l in an --inventory, of an order (--sku, --count, --profile, --level), or of a --run. The canonical JSON is
    written beside it.
    """
    from gpuburn.controller import chosen, criteria_page

    groups = chosen.groups(
        chosen.Selection(inventory, pattern, extra or [], sku, count, profile or [], level, kind, environment, limits,
                         run, host or [], reports)
    )  # fmt: skip
    for one, path in zip(groups, criteria_page.write(groups, out, time.time()), strict=True):
        print(f"{one.digest}  {path}" + (f"  {', '.join(one.hosts)}" if one.hosts else ""))
