"""The table "Would we have caught it?" of docs/methods.md, from the rows that the tests of this folder register."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from pathlib import Path

from caught.registry import BEFORE, ROWS, Row
from gpuburn.controller import documents

FOLDER = Path(__file__).parent
PAGE = FOLDER.parents[1] / "docs" / "methods.md"
NAME = "caught"
HEAD = ("peer", "fault", "our finding", "decision", "test")


def rows() -> list[Row]:
    """Every row, in the order of the files and of their tests."""
    for path in sorted(FOLDER.glob("test_*.py")):
        importlib.import_module(f"caught.{path.stem}")
    return sorted(ROWS.values(), key=lambda row: row.test.partition("::")[0])


def table() -> str:
    return documents.table(HEAD, list(_shown()))


def _shown() -> Iterator[tuple[str, ...]]:
    for row in rows():
        finding = row.finding if row.finding == BEFORE else f"`{row.finding}`"
        fault = f"accuses: {row.fault}" if row.accuses else row.fault
        file, _, test = row.test.partition("::")
        short = test.removeprefix("test_").replace("_", " ")
        yield link(row.peer, row.where), fault, finding, row.decision or "nothing starts", f"`{file}`: {short}"


def link(peer: str, where: str) -> str:
    """repo, repo#issue, repo!pull request or repo:file, as a link."""
    if not where:
        return peer
    for mark, place in (("#", "issues"), ("!", "pull"), (":", "blob/HEAD")):
        repo, found, rest = where.partition(mark)
        if found:
            text = f"{peer} {mark}{rest}" if mark != ":" else f"{peer} {rest.rpartition('/')[2]}"
            return f"[{text.replace('!', '#')}](https://github.com/{repo}/{place}/{rest})"
    return f"[{peer}](https://github.com/{where})"


def filled(text: str) -> str:
    """The page with the table made anew between its markers."""
    begin, end = documents.BEGIN.format(NAME), documents.END.format(NAME)
    head, found, rest = text.partition(begin)
    return f"{head}{begin}\n\n{table()}\n\n{end}{rest.partition(end)[2]}" if found else text
