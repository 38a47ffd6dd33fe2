"""What only root can read of a host, read by the supervisor just before a step whose probe asks for it.

Workers run as an ordinary account and get it with their assignment: one way, and nothing of theirs is run as root.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from gpuburn.agent import acs, nics, smart, smbios
from gpuburn.agent.look import Look
from gpuburn.strict import known

READERS: dict[str, Callable[[Look], dict[str, Any]]] = {
    "smart": smart.read, "acs": acs.read, "ecc": smbios.ecc, "bridges": nics.bridges,
}  # fmt: skip
NEEDS_ROOT = {"unknown": "needs root"}


def read(names: Iterable[str], root: Path = Path("/")) -> dict[str, Any]:
    """By name: what was read, or {"unknown": why}."""
    found: dict[str, Any] = {}
    for name in names:
        known(name, READERS, "what only root can read")
        found[name] = READERS[name](Look(root)) if os.geteuid() == 0 else NEEDS_ROOT
    return found
