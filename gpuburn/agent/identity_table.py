"""Who this host is, for a person: every source by itself, and why a value is not there."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from typing import Any, get_args

from gpuburn import identity, strict
from gpuburn.agent import hardware, nvml
from gpuburn.agent.nvml import Seen
from gpuburn.identity import Identity
from gpuburn.plan import Environment
from gpuburn.strict import known

UNREADABLE = 2


def told(environment: str, as_json: bool) -> tuple[str, int]:
    """The table or JSON, and the exit status: 0, or 2 where something demanded cannot be read."""
    known(environment, get_args(Environment), "--environment")
    seen, cards = hardware.look(), nvml.look()
    lacking = demanded(seen, environment)
    status = UNREADABLE if lacking else 0
    if as_json:
        return json.dumps({**strict.plain(seen), "nvml": strict.plain(cards), "lacking": lacking}), status
    lines = [*table(seen.sources, seen.missing), *_cards(cards)]
    lines += [f"demanded and not known: {name}: {seen.missing.get(name, 'absent')}" for name in lacking]
    return "\n".join(lines), status


def demanded(seen: Identity, environment: str) -> list[str]:
    """What a run here would demand and this look does not have: as verdict.judge asks for it."""
    blind = os.geteuid() != 0 or environment != "bare_metal"
    wanted = identity.REQUIRED if blind else (*identity.REQUIRED, *identity.NEEDS_ROOT)
    return [name for name in wanted if not seen.value(name)]


def table(sources: dict[str, dict[str, Any]], missing: dict[str, str]) -> Iterator[str]:
    """One group of lines for each source: what it says, then what it does not say and why."""
    gaps: dict[str, dict[str, str]] = {}
    for name, why in missing.items():
        source, _, key = name.rpartition(".")
        gaps.setdefault(source or name, {})[key if source else "(all)"] = why
    for source in sorted({*sources, *gaps}):
        said, absent = sources.get(source, {}), gaps.get(source, {})
        width = max(len(key) for key in (*said, *absent))
        yield source
        yield from (f"  {key.ljust(width)}  {value}" for key, value in said.items())
        yield from (f"  {key.ljust(width)}  - ({why})" for key, why in sorted(absent.items()))


def _cards(cards: Seen) -> Iterator[str]:
    if cards.absent:
        yield from ("nvml", f"  (all)  - ({cards.absent})")
        return
    yield from ("nvml", f"  driver  {cards.driver or '-'}")
    for gpu in cards.gpus:
        source = f"nvml.{gpu.index}"
        names = {name: gpu.values[name] for name in nvml.IDENTITY if name in gpu.values}
        missing = {f"{source}.{name}": why for name, why in gpu.missing.items() if name in nvml.IDENTITY}
        yield from table({source: names}, missing)
