"""A vendor's CSV as rows: line by line, every cell with its place. Merges nothing, compares nothing."""

from __future__ import annotations

import csv
import difflib
import io
import re
from collections.abc import Iterator
from dataclasses import dataclass

from gpuburn.controller.manifest import cells, text as texts
from gpuburn.manifest import COLUMNS
from gpuburn.strict import Refused, short

ROWS = 1_000_000  # ten thousand hosts with a row for each of a hundred parts
WIDEST = 100  # columns


@dataclass(frozen=True, slots=True)
class Heading:
    """A column of the file. number: 1 is the first. said: its heading as the file writes it."""

    number: int
    column: str
    said: str


@dataclass(frozen=True, slots=True)
class Row:
    """line: of the file, 1 is its first. values: {column: its values, one but for parts}, without what is absent."""

    line: int
    values: dict[str, tuple[str, ...]]


def key(heading: str) -> str:
    """A heading without what vendors write differently: case, spaces, hyphens, underscores."""
    return re.sub(r"[\s_-]+", "", heading).casefold()


def names() -> dict[str, str]:
    """{key: column} of every heading that is known."""
    return {key(one): column for column, about in COLUMNS.items() for one in (column, *about.aliases)}


def place(where: str, line: int, heading: Heading) -> str:
    return f"{where}: line {line}, column {heading.number} ({heading.said})"


def read(text: str, where: str) -> tuple[dict[str, Heading], Iterator[Row]]:
    """The headings and the rows below them. Raises Refused, while rows are taken too, with line and column."""
    records = _records(text, where)
    line, head = next(records, (1, []))
    headings = _headings(head, where, line)
    return {one.column: one for one in headings}, _rows(records, headings, where)


def _records(text: str, where: str) -> Iterator[tuple[int, list[str]]]:
    """(first line, cells) of every record that is not empty."""
    delimiter = texts.delimiter(text)
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    before = 0
    while True:
        try:
            record = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            raise Refused(f"{where}: {texts.fault(text, before + 1, delimiter)}: not CSV: {error}") from None
        line, before = before + 1, reader.line_num
        if any(map(str.strip, record)):
            yield line, record


def _headings(head: list[str], where: str, line: int) -> list[Heading]:
    if not head:
        raise Refused(f"{where}: line {line}: no heading; wanted is a first line with columns such as host,gpu_serial")
    if len(head) > WIDEST:
        raise Refused(f"{where}: line {line}: {len(head)} columns; wanted are at most {WIDEST}")
    known = names()
    found: dict[str, Heading] = {}
    for number, said in enumerate(head, 1):
        here = Heading(number, known.get(key(said), ""), " ".join(said.split())[:40] or "no heading")
        if not here.column:
            near = difflib.get_close_matches(key(said), known, 1)
            wish = (
                f"did you mean {known[near[0]]!r}?" if near else "`gpuburn manifest columns` lists those that there are"
            )
            raise Refused(f"{place(where, line, here)}: unknown column {short(said)}; {wish}")
        if other := found.get(here.column):
            raise Refused(f"{place(where, line, here)}: is {here.column}, as column {other.number} ({other.said}) is")
        found[here.column] = here
    return list(found.values())


def _rows(records: Iterator[tuple[int, list[str]]], headings: list[Heading], where: str) -> Iterator[Row]:
    for count, (line, record) in enumerate(records, 1):
        if count > ROWS:
            raise Refused(
                f"{where}: line {line}: more than {ROWS} rows; wanted is a file for each part of the delivery"
            )
        if len(record) > len(headings) and any(map(str.strip, record[len(headings) :])):
            raise Refused(f"{where}: line {line}, column {len(headings) + 1}: a cell beyond the last heading")
        taken: dict[str, tuple[str, ...]] = {}
        for heading, cell in zip(headings, record):
            if cell:
                try:
                    found = cells.values(heading.column, cell)
                except Refused as error:
                    raise Refused(f"{place(where, line, heading)}: {error}") from None
                if found:
                    taken[heading.column] = found
        yield Row(line, taken)
