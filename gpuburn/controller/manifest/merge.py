"""Rows to hosts: the rows of one host are merged, in any order; what they say of it twice must be the same."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NoReturn

from gpuburn.controller.manifest.rows import Heading, Row, place
from gpuburn.controller.run import NAME
from gpuburn.manifest import COLUMNS, EACH, KEYS, KINDS, Kind, Ordered, Part
from gpuburn.strict import Refused


@dataclass
class Merged:
    """Hosts as their rows come. first: {(scope, column, value): the line that said it}."""

    where: str
    headings: dict[str, Heading]
    hosts: dict[str, Ordered] = field(default_factory=dict)
    said: dict[tuple[str, str], tuple[str, int]] = field(default_factory=dict)
    first: dict[tuple[str, str, str], int] = field(default_factory=dict)

    def take(self, row: Row) -> None:
        name = self._name(row)
        host = self.hosts.setdefault(name, Ordered(name))
        by_kind: dict[Kind, dict[str, tuple[str, ...]]] = {}
        for column, found in row.values.items():
            of = COLUMNS[column].of
            if of in KINDS:
                by_kind.setdefault(of, {})[column] = found
            else:
                self._one(host, column, found[0], row.line)
        for kind, mine in by_kind.items():
            if any(COLUMNS[column].identifies for column in mine):
                self._parts(host, kind, mine, row.line)
            else:
                self._each(host, kind, {column: found[0] for column, found in mine.items()}, row.line)

    def refuse(self, line: int, column: str, why: str) -> NoReturn:
        raise Refused(f"{place(self.where, line, self.headings[column])}: {why}")

    def _name(self, row: Row) -> str:
        """The host that a row is about: its name, its place, or its serial, whichever the row has first."""
        for columns in KEYS:
            found = [row.values[column][0] for column in columns if column in row.values]
            if len(found) == len(columns):
                name = found[0] if columns == ("host",) else _plain(columns, found)
                if not NAME.fullmatch(name):
                    self.refuse(row.line, columns[0], f"{name!r} gives the host no plain name; add a column host")
                return name
        raise Refused(
            f"{self.where}: line {row.line}: nothing tells which host this is; wanted is a value in host, or in rack "
            "and unit, or in product_serial or chassis_serial"
        )

    def _one(self, host: Ordered, column: str, value: str, line: int) -> None:
        """A value that a host has once."""
        before, at = self.said.setdefault((host.host, column), (value, line))
        if before != value:
            self.refuse(line, column, f"{value!r} for host {host.host}, and {before!r} in line {at}; wanted is one")
        if column not in host.values and COLUMNS[column].unique:
            self._once("", column, value, line)
        host.values[column] = value

    def _each(self, host: Ordered, kind: Kind, values: dict[str, str], line: int) -> None:
        for column, value in values.items():
            if kind not in EACH:
                self.refuse(line, column, f"nothing in this line tells which {kind} is meant; {NEEDS[kind]}")
            self._one(host, column, value, line)

    def _parts(self, host: Ordered, kind: Kind, mine: dict[str, tuple[str, ...]], line: int) -> None:
        """The parts of one row: several where its cells hold several numbers; the rest of the row is of each."""
        told = {column: found for column, found in mine.items() if COLUMNS[column].identifies}
        longest = max(told, key=lambda column: len(told[column]))
        for column, found in told.items():
            if len(found) != len(told[longest]):
                self.refuse(line, column, f"{len(found)} values, and {longest} has {len(told[longest])}")
        rest = {column: found[0] for column, found in mine.items() if column not in told}
        for index in range(len(told[longest])):
            values = {column: found[index] for column, found in told.items()}
            for column, value in values.items():
                self._once("" if COLUMNS[column].unique else host.host, column, value, line)
            host.parts.append(Part(kind, {**values, **rest}))

    def _once(self, scope: str, column: str, value: str, line: int) -> None:
        key = (scope, column, value.casefold())
        if before := self.first.get(key):
            self.refuse(line, column, f"{value!r} is in line {before} already; a part is listed once")
        self.first[key] = line


NEEDS = {"nic": "wanted is nic_mac beside it", "nvme": "wanted is nvme_serial beside it"}


def _plain(columns: tuple[str, ...], found: list[str]) -> str:
    """A host's name from its place (rack A01, unit U7: a01-u7) or its serial."""
    parts = [re.sub(r"[^a-z0-9._-]+", "-", one.lower()).strip("-") for one in found]
    if columns == ("rack", "unit"):
        parts[1] = parts[1].removeprefix("u")
    return "-u".join(parts)


def merge(rows: Iterable[Row], headings: dict[str, Heading], where: str) -> list[Ordered]:
    """Every host of the file. Raises Refused with line and column."""
    merged = Merged(where, headings)
    for row in rows:
        merged.take(row)
    if not merged.hosts:
        raise Refused(f"{where}: no host; wanted is at least one line below the headings")
    return list(merged.hosts.values())
