"""gpuburn inventory: make an Ansible inventory from a vendor's list."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

inventories = typer.Typer(no_args_is_help=True, help="An inventory from what was ordered.")


def add(app: typer.Typer) -> None:
    app.add_typer(inventories, name="inventory")


@inventories.callback()
def _group() -> None:
    """An inventory from what was ordered."""


@inventories.command("from")
def from_list(
    file: Path,
    to: Annotated[
        Path | None, typer.Option("--to", help="A new folder (hosts.yml in it); none: standard output.")
    ] = None,
) -> None:
    """Write hosts, racks as groups, units, SKUs and counts of a list as an Ansible inventory; overwrites nothing."""
    from gpuburn.controller.manifest import file as reader, golden, inventory

    manifest = reader.load(file)
    text = inventory.made(manifest, str(file))
    if to:
        golden.save(to / "hosts.yml", text)
        print(f"{to / 'hosts.yml'}: {len(manifest.hosts)} host(s)")
    else:
        print(text, end="")
