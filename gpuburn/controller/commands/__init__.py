"""The subcommands of `gpuburn`, one file each: a module with `add(app)`. What a command needs is imported in its body,
so that `gpuburn --help` stays quick.
"""

from __future__ import annotations

import importlib
import pkgutil
from pathlib import Path

import typer


def add(app: typer.Typer) -> None:
    """Add every command that is here, in the order of the files' names."""
    for module in pkgutil.iter_modules([str(Path(__file__).parent)]):
        importlib.import_module(f"{__name__}.{module.name}").add(app)
