"""What the playbooks send on standard input: every host with what its inventory says and, once seen, its look."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass, field
from typing import Any

from gpuburn import strict
from gpuburn.strict import Refused

KEYS = ("variables", "wrong", "look")


@dataclass(frozen=True, slots=True)
class Said:
    """variables: every host's. wrong: those that cannot be resolved, and why. looks: text of hosts that were seen."""

    variables: dict[str, dict[str, Any]] = field(default_factory=dict)
    wrong: dict[str, dict[str, str]] = field(default_factory=dict)
    looks: dict[str, str | None] = field(default_factory=dict)


def said() -> Said:
    """{host: {"variables": {...}, "wrong": {...}, "look": text or null}}, and nothing else, nothing twice."""
    try:
        document = json.loads(sys.stdin.read() or "{}", object_pairs_hook=_once)
    except (ValueError, RecursionError) as error:
        raise Refused(f"standard input: not JSON: {error}") from None
    if not isinstance(document, dict) or not all(isinstance(one, dict) for one in document.values()):
        raise Refused("standard input: wanted is an object of hosts, each with its variables and look")
    found = Said()
    for host, one in document.items():
        for key in one:
            strict.known(key, KEYS, f"standard input: host {host}")
        look = one.get("look")
        if not isinstance(look, str | None):
            raise Refused(f"standard input: host {host}: its look is a {type(look).__name__}, wanted is text")
        found.variables[host] = one.get("variables", {})
        found.wrong[host] = one.get("wrong", {})
        found.looks[host] = look
    return found


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key is written twice")
    return found
