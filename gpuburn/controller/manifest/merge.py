"""Rows to hosts: the rows of one host are merged, in any order; what they say of it twice must be the same."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NoReturn

from gpuburn.controller.manifest.rows import Heading, Row, place
from gpuburn.controller.run import NAME
from gpuburn.manifest import COLUMNS, COUNTED, EACH, KEYS, KINDS, Kind, Ordered, Part, place as at
from gpuburn.strict import Refused

PART_OF: dict[str, Kind] = {name: about.of for name, about in COLUMNS.items() if about.of in KINDS}
TELLING = frozenset(name for name, about in COLUMNS.items() if about.identifies)
UNIQUE = frozenset(name for name, about in COLUMNS.items() if about.unique)


@dataclass
class Merged:
    """Hosts as their rows come. first: {(scope, column, value): the line that said it}."""

    where: str
    headings: dict[str, Heading]
    hosts: dict[str, Ordered] = field(default_factory=dict)
    said: dict[tuple[str, str], tuple[str, int]] = field(default_factory=dict)
    first: dict[tuple[str, str, str], int] = field(default_factory=dict)
    lines: dict[str, int] = field(default_factory=dict)

    def take(self, row: Row) -> None:
        host = self._host(row)
        by_kind: dict[Kind, dict[str, tuple[str, ...]]] = {}
        for column, found in row.values.items():
            if kind := PART_OF.get(column):
                by_kind.setdefault(kind, {})[column] = found
            elif host.values.get(column) != found[0]:  # most rows of a host say the same of it
                self._one(host, column, found[0], row.line)
        for kind, mine in by_kind.items():
            if not TELLING.isdisjoint(mine):
                self._parts(host, kind, mine, row.line)
            else:
                self._each(host, kind, {column: found[0] for column, found in mine.items()}, row.line)

    def _host(self, row: Row) -> Ordered:
        """The host of a row, a new one where none has its name."""
        said = row.values.get("host", ("",))[0]
        name = said if said in self.hosts else self._name(row)
        if name not in self.hosts:
            self.hosts[name], self.lines[name] = Ordered(name), row.line
        return self.hosts[name]

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
        told = {column: found for column, found in mine.items() if column in TELLING}
        longest = max(told, key=lambda column: len(told[column]))
        for column, found in told.items():
            if len(found) != len(told[longest]):
                self.refuse(line, column, f"{len(found)} values, and {longest} has {len(told[longest])}")
        rest = {column: found[0] for column, found in mine.items() if column not in told}
        for index in range(len(told[longest])):
            values = {column: found[index] for column, found in told.items()}
            for column, value in values.items():
                self._once("" if column in UNIQUE else host.host, column, value, line)
            host.parts.append(Part(kind, {**values, **rest}))

    def _once(self, scope: str, column: str, value: str, line: int) -> None:
        key = (scope, column, value.casefold())
        if before := self.first.get(key):
            self.refuse(line, column, f"{value!r} is in line {before} already; a part is listed once")
        self.first[key] = line

    def agree(self) -> None:
        """Refuse a list that contradicts itself: two names of one host, two hosts in one place, counts that are not."""
        names: dict[str, str] = {}
        places: dict[tuple[str, str], str] = {}
        for host in self.hosts.values():
            if (other := names.setdefault(host.host.casefold(), host.host)) != host.host:
                why = f"{host.host!r}, and {other!r} in line {self.lines[other]}: they differ in case only"
                self.refuse(self.lines[host.host], "host", f"{why}; wanted is one name for a host")
            self._apart(host, places)
            for column, kind in COUNTED.items():
                self._counted(host, column, kind)

    def _apart(self, host: Ordered, places: dict[tuple[str, str], str]) -> None:
        """One host in one rack unit, but for the hosts of one chassis."""
        if not ("rack" in host.values and "unit" in host.values):
            return
        other = places.setdefault(at(host.values["rack"], host.values["unit"]), host.host)
        chassis = [self.hosts[name].values.get("chassis_serial", "").casefold() for name in (other, host.host)]
        if other == host.host or (chassis[0] and chassis[0] == chassis[1]):
            return
        there = f"rack {host.values['rack']}, unit {host.values['unit']} is of host {host.host}"
        why = f"{there}, and of host {other} in line {self.said[other, 'unit'][1]}"
        wanted = "wanted is one host in a unit, or one chassis_serial"
        self.refuse(self.said[host.host, "unit"][1], "unit", f"{why}; {wanted}")

    def _counted(self, host: Ordered, column: str, kind: Kind) -> None:
        """A list that numbers GPUs numbers all of them; of other parts it may leave some out, never number more."""
        parts, count = host.of(kind), int(host.values.get(column, "-1"))
        if count < 0 or not parts or len(parts) == count or (kind != "gpu" and len(parts) < count):
            return
        value = next((name, one) for name, one in parts[0].values.items() if COLUMNS[name].identifies)
        first = self.first["" if COLUMNS[value[0]].unique else host.host, value[0], value[1].casefold()]
        why = f"{count} for host {host.host}, and {len(parts)} {kind} are listed, the first in line {first}"
        self.refuse(self.said[host.host, column][1], column, f"{why}; wanted is one count")


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
    merged.agree()
    return list(merged.hosts.values())
