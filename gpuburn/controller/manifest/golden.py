"""A manifest made from what hosts of a run tell of themselves: CSV that the reader takes. Adds nothing of its own."""

from __future__ import annotations

import csv
import fnmatch
import io
from collections.abc import Iterable, Iterator
from pathlib import Path

from gpuburn.controller.account import ways
from gpuburn.controller.manifest import cells
from gpuburn.controller.manifest.shown import Shown
from gpuburn.controller.run import Expected, Run
from gpuburn.manifest import COLUMNS, KINDS
from gpuburn.plan import HOST
from gpuburn.strict import Refused

Rows = list[dict[str, str]]
Taken = dict[tuple[str, str], str]


def made(run: Run, now: float, pattern: str = "*") -> tuple[str, list[str]]:
    """The CSV of every host that matches and told who it is, and what was left out and why."""
    chosen = [one for one in ways(run, now) if fnmatch.fnmatchcase(one.expected.host, pattern)]
    if not chosen:
        raise Refused(f"run {run.id}: no host matches {pattern!r}; wanted is one of its hosts, or a pattern with *")
    rows: Rows = []
    left_out: list[str] = []
    taken: Taken = {}
    for one in chosen:
        if one.judged is None or one.judged.refused:
            left_out.append(f"{one.expected.host}: no evidence of it counts")
            continue
        rows += host(one.expected, Shown.read(one.judged.shown), left_out, taken)
    if not rows:
        raise Refused(f"run {run.id}: {left_out[0]}; wanted is a host whose result came home")
    return table(rows), left_out


def host(e: Expected, shown: Shown, left_out: list[str], taken: Taken) -> Iterator[dict[str, str]]:
    """The host's own row, with its place as the inventory has it, and a row for each part that has a number.

    taken: {(column, value): whose} of what may stand in a list once; it grows.
    """
    own = {"host": e.host, "rack": e.rack, "unit": e.unit, "power_domain": e.power_domain, "delivery": e.delivery}
    own |= {name: value for name, value in shown.parts.get(HOST, {}).items() if COLUMNS[name].of == "host"}
    mine = _written(own, e.host, left_out, taken)
    rows: Rows = []
    for kind in KINDS:
        for part, values in shown.of(kind).items():
            row = _written(values, f"{e.host} {part}", left_out, taken)
            if any(COLUMNS[name].identifies for name in row):
                rows.append({"host": e.host, **row})
                continue
            left_out.append(f"{e.host} {part}: it tells no number of its own")
            if kind == "gpu" and mine.pop("gpu_count", ""):
                left_out.append(f"{e.host}: gpu_count: not each of them tells a number of its own")
    yield mine
    yield from rows


def _written(values: dict[str, str], whose: str, left_out: list[str], taken: Taken) -> dict[str, str]:
    """The values that the reader takes as they are; a host may say anything of itself."""
    row = {}
    for name, value in values.items():
        try:
            if value and cells.values(name, value) != (value,):
                raise Refused(f"{value!r} is read otherwise than it is written")
            if COLUMNS[name].unique and (other := taken.setdefault((name, value.casefold()), whose)) != whose:
                raise Refused(f"{value!r} is told by {other}, too")
        except Refused as error:
            left_out.append(f"{whose}: {name}: {error}")
            continue
        row[name] = value
    return row


def table(rows: Iterable[dict[str, str]]) -> str:
    """CSV with the columns that some row has, in the order of their table."""
    held = [*rows]
    columns = [name for name in COLUMNS if any(row.get(name) for row in held)]
    out = io.StringIO()
    writer = csv.DictWriter(out, columns, extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    writer.writerows(held)
    return out.getvalue()


def save(path: Path, text: str) -> None:
    """Write a new file; one that is there is never overwritten."""
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise Refused(f"{path}: exists already, and is never overwritten; choose another name") from None
