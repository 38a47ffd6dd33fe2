"""What happened in one run: lines that are only ever appended, each naming the digest of the line before it.

One writer module for playbook and command line. A changed, removed or reordered line is found by read().
"""

from __future__ import annotations

import fcntl
import functools
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from gpuburn import strict
from gpuburn.strict import Refused

GENESIS = strict.digest(b"")
LIMIT = 64 * strict.MEBIBYTE
TAIL = 65536  # bytes: more than the longest line that is written


@dataclass(frozen=True, slots=True)
class Entry:
    """number counts from 1; at is unix seconds; host is "" for the run as a whole."""

    number: int
    at: float
    event: str
    previous: str
    host: str = ""
    details: dict[str, str] = field(default_factory=dict)


def append(book: Path, at: float, event: str, host: str = "", details: dict[str, str] | None = None) -> Entry:
    """Add one line under a lock, flushed to the disk before this returns."""
    if book.exists() and (not book.is_file() or book.stat().st_size > LIMIT):
        raise Refused(f"{book}: not a regular file of at most {LIMIT} bytes; a journal that is read is no longer")
    with book.open("a+b") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        number, previous = _last(file)
        entry = Entry(number + 1, at, event, previous, host, details or {})
        file.write(strict.line(entry))
        file.flush()
        os.fsync(file.fileno())
    return entry


def _last(file: BinaryIO) -> tuple[int, str]:
    """The number and the digest of the last line; from the end of the file, which grows long over a large fleet."""
    end = file.seek(0, os.SEEK_END)
    file.seek(max(0, end - TAIL))
    tail = file.read()
    if tail.endswith(b"\n"):
        line = tail[:-1].rpartition(b"\n")[2]
        try:
            if len(line) + 1 < len(tail) or end <= TAIL:
                return strict.build(Entry, strict.loads(line, "journal"), "journal").number, strict.digest(line)
        except Refused:
            pass  # a line that does not hold stays, for read() to find; the lines are counted instead
    file.seek(0)
    data = file.read()
    if data and not data.endswith(b"\n"):  # a writer was cut short
        file.write(b"\n")
    lines = data.splitlines()
    return len(lines), strict.digest(lines[-1]) if lines else GENESIS


def read(book: Path) -> list[Entry]:
    """Every entry, or Refused with the first line that does not hold."""
    entries, broken = follow(book)
    if broken:
        raise Refused(broken)
    return entries


def follow(book: Path) -> tuple[list[Entry], str]:
    """The entries up to the first line that does not hold, and what is wrong with that line; "" where all hold."""
    try:
        entries, broken = _follow(book.name, strict.load_file(book, LIMIT))
    except Refused as error:
        return [], str(error)
    return list(entries), broken


@functools.lru_cache(maxsize=4)
def _follow(name: str, data: bytes) -> tuple[tuple[Entry, ...], str]:
    """Kept by the bytes: an account of many hosts asks for the same journal a dozen times over."""
    entries: list[Entry] = []
    previous = GENESIS
    try:
        for number, text in enumerate(data.splitlines(), 1):
            entry = strict.build(Entry, strict.loads(text, f"{name}:{number}"), f"{name}:{number}")
            if entry.number != number or entry.previous != previous:
                raise Refused(f"{name}:{number}: a line before it is missing or changed")
            previous = strict.digest(text)
            entries.append(entry)
    except Refused as error:
        return tuple(entries), str(error)
    return tuple(entries), ""
