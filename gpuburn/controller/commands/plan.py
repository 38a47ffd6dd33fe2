"""gpuburn plan: the playbooks' plans of every host, and for a person what a plan demands (--explain)."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Annotated

import typer

from gpuburn.controller import options


def add(app: typer.Typer) -> None:
    app.command()(plan)


def plan(
    run: options.Run = "", reports: options.Reports = options.HERE, source: str = "inventory/hosts.yml",
    check: bool = False,
    explain: Annotated[bool, typer.Option("--explain", help="Say what is demanded, and what it costs.")] = False,
    inventory: options.Inventory = "", pattern: options.Pattern = "", extra: options.Extra = None,
    sku: options.Sku = "", count: options.Count = 0, profile: options.Profiles = None,
    level: options.Level = "", kind: options.Kind = "", environment: options.Environment = "",
    limits: options.Limits = None, host: options.Hosts = None,
    machine: Annotated[bool, typer.Option("--json", help="With --explain: for machines.")] = False,
) -> None:  # fmt: skip
    """Plan every host that was seen (standard input); prints {host: {plan, text} or {refused}}. --check: no files.

    With --explain: what a plan demands before anything is bought or run, of -l in an --inventory, of an order
    (--sku, --count, --profile, --level), or of a --run.
    """
    from gpuburn.controller import chosen, explain as explained, explain_text

    if not explain:
        only_explained = (
            inventory,
            pattern,
            extra,
            sku,
            count,
            profile,
            level,
            kind,
            environment,
            limits,
            host,
            machine,
        )
        _machine(run, reports, source, check, any(only_explained))
        return
    groups = chosen.groups(
        chosen.Selection(inventory, pattern, extra or [], sku, count, profile or [], level, kind, environment, limits,
                         run, host or [], reports)
    )  # fmt: skip
    print(json.dumps([explained.told(one) for one in groups], indent=1) if machine else explain_text.text(groups))


def _machine(run: str, reports: Path, source: str, check: bool, explains: bool) -> None:
    """The playbooks' form."""
    from gpuburn.controller import preflight, standard_input
    from gpuburn.controller.run import Run
    from gpuburn.strict import Refused

    if explains or not run:
        raise Refused("plan: --explain is missing; without it wanted is --run alone, with hosts on standard input")
    said = standard_input.said()
    hosts = preflight.expect(said.variables, source, said.wrong)
    where = Run.of(reports, run)
    told = preflight.plan(where, hosts, said.looks, time.time(), write=not check, source=source)
    for name, one in told.items():
        if "refused" in one and not check:
            where.note(time.time(), "refused", name, why=one["refused"])
    print(json.dumps(told))
