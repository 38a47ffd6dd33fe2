"""What may stand where a file of ours is expected: JSON that is none, and things that are no files."""

from __future__ import annotations

import gzip
import io
import os
import tarfile
from collections.abc import Callable
from pathlib import Path

HUGE = 2 * 2**30
Bytes = Callable[[bytes], bytes]


def _first_key(data: bytes, entry: bytes) -> bytes:
    """The object with one entry more, before its first."""
    return data.replace(b"{", b"{" + entry + b", ", 1)


# Each is refused whatever the document is: {what: (change, words of the refusal)}
TEXTS: dict[str, tuple[Bytes, str]] = {
    "half of it": (lambda data: data[: len(data) // 2], "not strict JSON"),
    "a key twice": (lambda data: _first_key(data, b'"a": 1, "a": 1'), "a key is written twice"),
    "NaN": (lambda data: _first_key(data, b'"a": NaN'), "NaN is not a finite number"),
    "Infinity": (lambda data: _first_key(data, b'"a": -Infinity'), "Infinity is not a finite number"),
    "1e999": (lambda data: _first_key(data, b'"a": 1e999'), "inf is not a finite number"),
    "a depth of 100,000": (lambda data: b"[" * 100_000 + b"]" * 100_000, "nested deeper than 32"),
    "a depth of 100,000 objects": (lambda data: b'{"a":' * 100_000, "nested deeper than 32"),
    "a depth of 33": (lambda data: b"[" * 40 + b"]" * 40, "nested deeper than 32"),
    "an integer of 5,000 digits": (lambda data: _first_key(data, b'"a": ' + b"9" * 5000), "not strict JSON"),
    "an integer of 4,000 digits": (lambda data: _first_key(data, b'"a": ' + b"9" * 4000), "beyond 2"),
    "a lone surrogate": (lambda data: _first_key(data, b'"a": "\\ud800"'), "lone surrogate"),
    "NUL": (lambda data: _first_key(data, b'"a": "\\u0000"'), "NUL"),
    "a byte order mark": (lambda data: b"\xef\xbb\xbf" + data, "BOM"),
    "other bytes than UTF-8": (lambda data: b"\xff\xfe" + data, "utf-8"),
    "nothing": (lambda data: b"", "not strict JSON"),
    "a name of a megabyte": (lambda data: _first_key(data, b'"' + b"a" * 2**20 + b'": 1'), "unknown"),
}
# Refused for what they are, where an object with a schema is expected.
OTHERS: dict[str, tuple[Bytes, str]] = {
    "another schema": (lambda data: data.replace(b"/1", b"/9", 1) if b"/1" in data else b"{}", "schema"),
    "a list of a megabyte": (lambda data: b"[" + b"1," * 2**19 + b"1]", "schema"),
    "a text": (lambda data: b'"' + b"x" * 2**20 + b'"', "schema"),
    "null": (lambda data: b"null", "schema"),
}


def sparse(path: Path) -> None:
    path.unlink(missing_ok=True)
    with path.open("wb") as file:
        file.truncate(HUGE)


def link(path: Path) -> None:
    """To the very file that stood there: the bytes are right, the place is not."""
    path.rename(path.with_name("elsewhere"))
    path.symlink_to(path.with_name("elsewhere"))


def pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def device(path: Path) -> None:
    path.unlink()
    path.symlink_to("/dev/zero")


# {what: how it comes to stand there}
THINGS: dict[str, Callable[[Path], None]] = {
    "2 GiB": sparse, "a link": link, "a pipe": pipe, "a folder": folder, "a device": device,
}  # fmt: skip


def archive(path: Path, **member: object) -> None:
    """A sealed file whose result.json is something else. member: fields of its header."""
    one = tarfile.TarInfo("result.json")
    for name, value in member.items():
        setattr(one, name, value)
    path.write_bytes(gzip.compress(one.tobuf(tarfile.USTAR_FORMAT) + bytes(2 * tarfile.BLOCKSIZE)))


def bomb(path: Path, claimed: int = HUGE) -> None:
    """A sealed file of a few megabytes that unpacks to more than 2 GiB."""
    one = tarfile.TarInfo("result.json")
    one.size = claimed
    head = gzip.compress(one.tobuf(tarfile.USTAR_FORMAT), mtime=0)
    zeros = gzip.compress(bytes(64 * 2**20), 1, mtime=0)
    path.write_bytes(head + zeros * 33)


def sealed(path: Path, name: str, data: bytes) -> None:
    """The same sealed file with other bytes in one of its members."""
    made = io.BytesIO()
    with tarfile.open(path) as old, tarfile.open(fileobj=made, mode="w:gz") as new:
        for one in old:
            held = old.extractfile(one)
            assert held is not None
            content = data if one.name == name else held.read()
            one.size = len(content)
            new.addfile(one, io.BytesIO(content))
    path.write_bytes(made.getvalue())
