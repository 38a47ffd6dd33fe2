"""A manifest's file: the vendor's CSV, which nobody changes, and FILE.amendments.yml beside it, which only grows."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import yaml

from gpuburn import manifest as words, strict
from gpuburn.controller.manifest import cells, merge, rows, text
from gpuburn.manifest import COLUMNS, Amendment, Manifest, Ordered, Part
from gpuburn.strict import Refused

LIMIT = 256 * strict.MEBIBYTE  # bytes: a million rows of 256
AMENDMENTS = ".amendments.yml"


def beside(path: Path) -> Path:
    """Where the amendments of a manifest stand."""
    return path.with_name(f"{path.name}{AMENDMENTS}")


def load(path: Path) -> Manifest:
    """Read a manifest strictly, with its amendments applied. Raises Refused with file, line, column and wish."""
    try:
        data = strict.load_file(Path(os.path.realpath(path, strict=True)), LIMIT)
    except OSError as error:
        raise Refused(f"{path}: cannot be read: {error.strerror}") from None
    return amended(parse(data, str(path)), amendments(beside(path)), str(beside(path)))


def parse(data: bytes, where: str) -> list[Ordered]:
    """The hosts of a CSV file's bytes."""
    headings, found = rows.read(text.text(data, where), where)
    return merge.merge(found, headings, where)


def amendments(path: Path) -> list[Amendment]:
    """The amendments of a file; none where there is no such file."""
    if not path.exists():
        return []
    return strict.build(list[Amendment], strict.load_yaml(path), path.name)


def amended(hosts: Iterable[Ordered], amends: list[Amendment], where: str) -> Manifest:
    """The manifest with every amendment applied, first one first."""
    if not amends:
        return words.settled(hosts)
    known = list(hosts)
    places = {(column, value): host.host for host in known for column, value in words.identities(host)}
    by_host = {one.host: one for one in known}
    for index, one in enumerate(amends):
        try:
            column, host = _place(one, places)
            new = cells.canonical(column, cells.plain(column, one.new))
            if any(value.casefold() == new.casefold() for _, value in places):
                raise Refused(f"new is {one.new!r}, which the manifest has already")
        except Refused as error:
            raise Refused(f"{where}[{index}]: {error}") from None
        old = _old(column, one.old, places)
        by_host[host] = _replaced(by_host[host], column, old, new)
        del places[(column, old)]
        places[(column, new)] = host
    return words.settled(by_host.values(), amends)


def _old(column: str, said: str, places: dict[tuple[str, str], str]) -> str:
    """The old number as the manifest writes it."""
    return next(value for name, value in places if name == column and _same(name, value, said))


def _same(column: str, value: str, said: str) -> bool:
    if COLUMNS[column].form == "mac":
        try:
            return value == cells.mac(said)
        except Refused:
            return False
    return value.casefold() == said.strip().casefold()


def _place(one: Amendment, places: dict[tuple[str, str], str]) -> tuple[str, str]:
    found = [(column, host) for (column, value), host in places.items() if _same(column, value, one.old)]
    if len(found) != 1:
        many = f"{len(found)} times: {', '.join(column for column, _ in found)}" if found else "not at all"
        raise Refused(f"old is {one.old!r}, which the manifest has {many}; wanted is a serial, UUID or MAC that it has")
    return found[0]


def _replaced(host: Ordered, column: str, old: str, new: str) -> Ordered:
    def swapped(values: dict[str, str]) -> dict[str, str]:
        return {**values, column: new} if values.get(column) == old else values

    return replace(host, values=swapped(host.values), parts=[Part(p.kind, swapped(p.values)) for p in host.parts])


def amend(path: Path, one: Amendment) -> str:
    """Add an amendment beside a manifest, when it applies; the manifest itself stays. Returns what else names the part.

    The list is written as a whole, and what it held stays in it as it was.
    """
    manifest = load(path)
    kept = [*manifest.amended, one]
    changed = amended(parse(strict.load_file(path.resolve(), LIMIT), str(path)), kept, str(beside(path)))
    new = beside(path).with_name(f".{beside(path).name}.new")
    new.write_text(
        yaml.safe_dump([strict.plain(entry) for entry in kept], sort_keys=False, allow_unicode=True, width=120),
        encoding="utf-8",
    )
    new.replace(beside(path))
    return others(changed, one)


def others(changed: Manifest, one: Amendment) -> str:
    """The part's other numbers, which a replaced part no longer has; "" where the manifest lists none."""
    for host in changed.hosts:
        for part in host.parts:
            told = {name: value for name, value in part.values.items() if COLUMNS[name].form in ("serial", "mac")}
            mine = [name for name, value in told.items() if _same(name, value, one.new)]
            if mine and len(told) > 1:
                return ", ".join(f"{name} {value}" for name, value in told.items() if name not in mine)
    return ""
