"""The journal: a changed, removed, added or reordered line is found, and a crash in the middle of one is survived."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from gpuburn import journal, strict
from gpuburn.journal import GENESIS, append, follow, read
from gpuburn.strict import Refused


@pytest.fixture
def book(tmp_path: Path) -> Path:
    for number in range(5):
        append(tmp_path / "journal.jsonl", float(number), "phase", f"node{number}", {"why": f"line {number}"})
    return tmp_path / "journal.jsonl"


def test_each_line_names_the_digest_of_the_one_before(book: Path) -> None:
    entries, lines = read(book), book.read_bytes().splitlines()
    assert [entry.number for entry in entries] == [1, 2, 3, 4, 5]
    assert entries[0].previous == GENESIS
    assert [entry.previous for entry in entries[1:]] == [strict.digest(line) for line in lines[:-1]]
    assert entries[3].details == {"why": "line 3"}


def test_what_is_appended_is_what_is_returned(book: Path) -> None:
    assert append(book, 9.0, "end") == read(book)[-1]


@given(st.integers(0, 10**6), st.integers(1, 255))
def test_a_changed_byte_is_found_but_in_the_last_line_and_there_read_as_it_is(place: int, change: int) -> None:
    data = bytearray(LINES)
    index = place % LINES.rindex(b"\n", 0, -1)  # not in the last line: nothing after it vouches for it
    data[index] ^= change
    with pytest.raises(Refused):
        read(_written(bytes(data)))


@given(st.permutations(range(4)))
def test_another_order_is_found(order: list[int]) -> None:
    lines = LINES.splitlines(keepends=True)
    mixed = b"".join(lines[index] for index in order)
    if order == sorted(order):
        assert len(read(_written(mixed))) == 4
    else:
        with pytest.raises(Refused, match="missing or changed"):
            read(_written(mixed))


@pytest.mark.parametrize("gone", range(3))
def test_a_removed_line_is_found(book: Path, gone: int) -> None:
    lines = book.read_bytes().splitlines(keepends=True)
    del lines[gone]
    book.write_bytes(b"".join(lines))
    with pytest.raises(Refused, match=rf"journal\.jsonl:{gone + 1}: a line before it is missing or changed"):
        read(book)


def test_a_doubled_line_is_found(book: Path) -> None:
    lines = book.read_bytes().splitlines(keepends=True)
    book.write_bytes(b"".join([*lines, lines[-1]]))
    with pytest.raises(Refused, match=r"journal\.jsonl:6"):
        read(book)


def test_what_holds_before_the_break_is_still_told(book: Path) -> None:
    lines = book.read_bytes().splitlines(keepends=True)
    book.write_bytes(b"".join([*lines[:3], b"garbage\n", *lines[4:]]))
    entries, why = follow(book)
    assert [entry.number for entry in entries] == [1, 2, 3]
    assert why.startswith("journal.jsonl:4: not strict JSON")


def test_a_line_that_a_crash_cut_short_does_not_swallow_the_next(book: Path) -> None:
    book.write_bytes(book.read_bytes()[:-10])
    append(book, 9.0, "after")
    assert len(book.read_bytes().splitlines()) == 6
    entries, why = follow(book)
    assert len(entries) == 4
    assert why.startswith("journal.jsonl:5")


def test_a_journal_that_is_empty_or_not_there(tmp_path: Path) -> None:
    (tmp_path / "journal.jsonl").touch()
    assert read(tmp_path / "journal.jsonl") == []
    with pytest.raises(Refused, match="not a regular file"):
        read(tmp_path / "absent.jsonl")


def test_an_unknown_key_is_refused(book: Path) -> None:
    book.write_bytes(book.read_bytes().replace(b'"event"', b'"evil"', 1))
    with pytest.raises(Refused, match="unknown 'evil'"):
        read(book)


LINES = b""


def _written(data: bytes) -> Path:
    path = FOLDER / "journal.jsonl"
    path.write_bytes(data)
    return path


FOLDER = Path()


@pytest.fixture(scope="module", autouse=True)
def _four_lines(tmp_path_factory: pytest.TempPathFactory) -> None:
    global LINES, FOLDER
    FOLDER = tmp_path_factory.mktemp("journal")
    book = FOLDER / "first.jsonl"
    for number in range(4):
        journal.append(book, float(number), "phase", f"node{number}")
    LINES = book.read_bytes()


@pytest.mark.parametrize("tail", [1, 50, 200, 10_000])
def test_a_long_journal_is_continued_from_its_end(book: Path, monkeypatch: pytest.MonkeyPatch, tail: int) -> None:
    monkeypatch.setattr(journal, "TAIL", tail)
    for number in range(5, 9):
        append(book, float(number), "phase", details={"why": "x" * (number * 40)})
    assert [entry.number for entry in read(book)] == list(range(1, 10))


def test_a_line_that_does_not_hold_is_counted_and_found(book: Path) -> None:
    with book.open("ab") as file:
        file.write(b'{"not": "an entry"}\n')
    assert append(book, 9.0, "end").number == 7
    with pytest.raises(Refused, match=r"journal\.jsonl:6"):
        read(book)
