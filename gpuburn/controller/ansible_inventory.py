"""Hosts and their variables as Ansible resolves them, without reaching any: `ansible-inventory --list`.

Groups and patterns are Ansible's. Templates are not filled in: only a playbook can, and whoever needs one is told.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

from gpuburn.controller.site import PREFIX
from gpuburn.strict import Refused

TEMPLATE = ("{{", "{%")
# What a plan does not depend on: where things lie and which software is installed. A template there does no harm.
ELSEWHERE = {
    f"{PREFIX}{name}"
    for name in (
        "user", "home", "state_dir", "python", "torch_version", "torch_index", "wheelhouse", "cache_dir", "reports_dir",
        "wait", "run", "bmc_address", "waivers", "manifest",
    )
}  # fmt: skip


def variables(source: str, pattern: str, extra: Sequence[str] = ()) -> dict[str, dict[str, Any]]:
    """{host: its gpuburn_ variables} of every host that matches the pattern; an empty one matches all. extra: as -e."""
    listed = _listed(source, pattern, extra)
    known = listed.get("_meta", {}).get("hostvars", {})
    names = {*known, *(host for group in listed.values() for host in group.get("hosts", []))}
    return {name: _ours(known.get(name, {}), name, source, pattern) for name in sorted(names)}


def _listed(source: str, pattern: str, extra: Sequence[str]) -> dict[str, Any]:
    chosen = [*(["-l", pattern] if pattern else []), *(word for one in extra for word in ("-e", one))]
    command = [sys.executable, "-m", "ansible", "inventory", "-i", source, "--list", *chosen]
    done = subprocess.run(command, capture_output=True, check=False)
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip().splitlines() or ["no reason was given"]
        raise Refused(f"{source}: Ansible cannot read it: {said[-1]}")
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def _ours(given: dict[str, Any], host: str, source: str, pattern: str) -> dict[str, Any]:
    """The variables that a plan depends on. Others that hold a template are left out."""
    ours = {name: value for name, value in given.items() if name.startswith(PREFIX)}
    for name, value in ours.items():
        if name not in ELSEWHERE and (found := _template(value)):
            raise Refused(
                f"{source}: host {host}: {name} is {found!r}, a template that only a playbook can fill in; wanted is "
                f"its value, or `ansible-playbook accept.yml -i {source} -l {pattern or host} --check`"
            )
    return {name: value for name, value in ours.items() if not _template(value)}


def _template(value: Any) -> str:
    """The first text in a value that is a template; "" if there is none."""
    if isinstance(value, str):
        return value[:80] if any(mark in value for mark in TEMPLATE) else ""
    inside = [*value, *value.values()] if isinstance(value, dict) else value if isinstance(value, list) else []
    return next((found for one in inside if (found := _template(one))), "")
