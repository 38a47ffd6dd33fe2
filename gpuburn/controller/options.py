"""The options that choose a plan, shared by the commands that tell of one."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

HERE = Path("reports")

Run = Annotated[str, typer.Option("--run", help="Run id, <UTC>-<4 hex>.")]
Reports = Annotated[Path, typer.Option("--reports", help="Where runs are kept.")]
Hosts = Annotated[list[str] | None, typer.Option("--host", help="Of a run, only this host; may be given again.")]
Inventory = Annotated[str, typer.Option("--inventory", "-i", help="An Ansible inventory (inventory/hosts.yml).")]
Pattern = Annotated[str, typer.Option("--limit", "-l", help="Hosts or groups of the inventory; empty: all.")]
Extra = Annotated[list[str] | None, typer.Option("--extra-vars", "-e", help="Over the inventory's, as Ansible's -e.")]
Sku = Annotated[str, typer.Option("--sku", help="Of an order: the GPU model (gpuburn sku list).")]
Count = Annotated[int, typer.Option("--count", help="Of an order: GPUs per host; of a rehearsal: processes.")]
Profiles = Annotated[list[str] | None, typer.Option("--profile", help="training or inference; may be given again.")]
Level = Annotated[str, typer.Option("--level", help="smoke, quick, standard (if not given) or soak.")]
Kind = Annotated[str, typer.Option("--kind", help="hardware (if not given), rehearsal or simulated.")]
Environment = Annotated[str, typer.Option("--environment", help="bare_metal (if not given), vm or container.")]
Limits = Annotated[Path | None, typer.Option("--limits", help="Of an order: a file of limits, as in an inventory.")]
