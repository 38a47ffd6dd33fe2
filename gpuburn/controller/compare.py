"""Two sides beside each other: per quantity the ratio of medians with its interval, or why there is none."""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from gpuburn import strict
from gpuburn.controller.ratio import FEWEST, Ratio, ratio
from gpuburn.controller.sides import Quantity, Side
from gpuburn.resolve import TOGETHER, unlike
from gpuburn.strict import Refused

SCHEMA = "gpuburn/comparison/1"
TOLD = ("kind", "sku", "level", "driver", "torch", "run")


@dataclass(frozen=True, slots=True)
class Row:
    """One quantity on both sides. n: devices; hosts: theirs. word: what B is against A; why: it is not comparable."""

    step: str
    about: str
    point: str
    unit: str = ""
    better: str = ""
    n: tuple[int, int] = (0, 0)
    hosts: tuple[int, int] = (0, 0)
    ratio: Ratio | None = None
    word: str = ""
    why: str = ""


def compare(a: Side, b: Side) -> list[Row]:
    """Every quantity that either side has, comparable ones first in A's order."""
    kinds = (a.told.get("kind", set()), b.told.get("kind", set()))
    if kinds[0] != kinds[1]:
        said = " and ".join(" ".join(sorted(kind)) for kind in kinds)
        raise Refused(f"{a.name} and {b.name} are of kind {said}; wanted are two of one kind")
    rows = [row for where in dict.fromkeys([*a.quantities, *b.quantities]) for row in _rows(where, a, b)]
    return sorted(rows, key=lambda row: row.why != "")


def _rows(where: tuple[str, str, str], a: Side, b: Side) -> Iterator[Row]:
    ours, theirs = a.quantities.get(where, {}), b.quantities.get(where, {})
    if not ours or not theirs:
        yield Row(*where, why=f"only in {a.name if ours else b.name}")
        return
    pairs = [(x, y) for key, x in ours.items() for other, y in theirs.items() if _alike(key, x, other)]
    if not pairs:
        yield Row(*where, why=_difference(next(iter(ours.values())), next(iter(theirs.values()))))
    for one, same in pairs:
        yield _row(where, one, same)


def _alike(key: str, one: Quantity, other: str) -> bool:
    """The same method; steps of all devices together also need as many devices."""
    together = one.step is None or one.step.scope in TOGETHER
    return key == other if together else key.partition("/")[0] == other.partition("/")[0]


def _difference(one: Quantity, other: Quantity) -> str:
    said = unlike(one.step, other.step) if one.step and other.step else "another method"
    return said or f"devices of a host were {one.count}, are {other.count}"


def _row(where: tuple[str, str, str], one: Quantity, other: Quantity) -> Row:
    if one.unit != other.unit:
        return Row(*where, why=f"unit was {one.unit!r}, is {other.unit!r}")
    row = Row(*where, one.unit, one.better or other.better, (_median(one)[1], _median(other)[1]),
              (len(one.values), len(other.values)))  # fmt: skip
    if one.values and other.values:
        made = ratio(list(one.values.values()), list(other.values.values()))
        word = made.word(row.better)
    else:  # a baseline that kept no device values
        x, y = _median(one)[0], _median(other)[0]
        made = Ratio(x, y, y / x if x > 0 and y > 0 else None)
        word = "no interval: one side kept medians only"
    if made.of is None:
        return replace(row, ratio=made, why="a median is not above 0: there is no ratio")
    return replace(row, ratio=made, word=word)


def _median(side: Quantity) -> tuple[float, int]:
    pooled = [value for many in side.values.values() for value in many]
    return (statistics.median(pooled), len(pooled)) if pooled else (side.median, side.devices)


def document(a: Side, b: Side, rows: list[Row]) -> dict[str, Any]:
    return {
        "schema": SCHEMA, "a": _told(a), "b": _told(b),
        "compared": [strict.plain(row) for row in rows if not row.why],
        "not_comparable": [strict.plain(row) for row in rows if row.why],
    }  # fmt: skip


def _told(side: Side) -> dict[str, Any]:
    return {
        "name": side.name, **{what: sorted(side.told.get(what, ())) for what in TOLD},
        "hosts": len(side.hosts), "not_passed": sorted(host for host, passed in side.hosts.items() if not passed),
        "left_out": dict(sorted(side.left_out.items())),
    }  # fmt: skip


def text(a: Side, b: Side, rows: list[Row]) -> str:
    """For a person: who is compared, the ratios, and what has none."""
    lines = [*_head("A", a), *_head("B", b), ""]
    compared = [row for row in rows if not row.why]
    if compared:
        lines.append(
            f"{'step':16} {'metric':28} {'point':18} {'A':>11} {'n':>6} {'B':>11} {'n':>6} {'unit':8} {'B/A':>7} "
            f"{'95 %':>15}  B is"
        )
    lines += map(_line, compared)
    if any(row.word == "not enough hosts" for row in compared):
        lines.append(
            f"not enough hosts: an interval needs {FEWEST} on either side; devices of one host are alike and prove less"
        )
    other: dict[str, list[str]] = {}
    for row in rows:
        if row.why:
            name = f"{row.about} in {row.step}{f' at {row.point}' if row.point else ''}"
            other.setdefault(row.why, []).append(name)
    lines += [f"not comparable: {', '.join(names)}: {why}" for why, names in other.items()]
    return "\n".join(lines)


def _head(letter: str, side: Side) -> list[str]:
    told = _told(side)
    about = "; ".join(f"{what} {', '.join(told[what])}" for what in TOLD if told[what])
    lines = [f"{letter}: {side.name}: {len(side.hosts)} hosts; {about}"]
    if told["not_passed"]:
        lines.append(f"   of these {len(told['not_passed'])} did not pass and are counted: {_some(told['not_passed'])}")
    if side.left_out:
        lines.append(f"   left out, without verified numbers: {_some(list(told['left_out']))}")
    return lines


def _some(names: list[str]) -> str:
    return ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")


def _line(row: Row) -> str:
    one = row.ratio
    assert one is not None and one.of is not None  # a row that has none says why
    between = f"{one.low:.4f}..{one.high:.4f}" if one.low is not None and one.high is not None else "-"
    return (
        f"{row.step:16} {row.about:28} {row.point:18} {one.a:11.5g} {row.n[0]:6} {one.b:11.5g} {row.n[1]:6} "
        f"{row.unit:8} {one.of:7.4f} {between:>15}  {row.word}"
    )
