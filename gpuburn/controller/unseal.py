"""Open what a host sealed, trusting nothing in it: bounded, regular files under safe names, written by us."""

from __future__ import annotations

import gzip
import shutil
import tarfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, cast

from gpuburn import result as results, strict
from gpuburn.strict import Refused

PACKED = 256 * strict.MEBIBYTE
UNPACKED = 512 * strict.MEBIBYTE
FILES = 10_000
BROKEN = (tarfile.TarError, EOFError, OSError, zlib.error, ValueError)  # what reading a file that is no archive raises


def unseal(archive: Path, folder: Path) -> None:
    """Unpack into a new folder, as a whole or not at all. Raises Refused for anything but plain evidence."""
    check(archive)
    temporary = folder.with_name(f".{folder.name}.tmp")
    # Mostly there is none; one that cannot be removed makes the next line, or the last of this function, fail.
    shutil.rmtree(temporary, ignore_errors=True)
    temporary.mkdir(parents=True)
    try:
        _unpack(archive, temporary)
    except BROKEN as error:
        shutil.rmtree(temporary)
        if isinstance(error, Refused):
            raise
        raise Refused(f"{archive.name}: not a sealed run: {error}") from None
    shutil.rmtree(folder, ignore_errors=True)
    temporary.rename(folder)


def check(archive: Path) -> None:
    """Refuse what is no regular file of bounded size, before a byte of it is read."""
    if archive.is_symlink() or not archive.is_file() or archive.stat().st_size > PACKED:
        raise Refused(f"{archive.name}: a sealed file is a regular one of at most {PACKED} bytes")


class _Bounded:
    """What gzip unpacks, up to a bound: a header may claim gigabytes, which tarfile would read before we see it."""

    def __init__(self, packed: gzip.GzipFile) -> None:
        self._packed, self._left = packed, UNPACKED + FILES * 2 * tarfile.BLOCKSIZE

    def read(self, size: int = -1) -> bytes:
        data = self._packed.read(min(size, self._left + 1) if size >= 0 else self._left + 1)
        self._left -= len(data)
        if self._left < 0:
            raise Refused(f"more than {UNPACKED} bytes are packed in it")
        return data


def same(archive: Path, folder: Path) -> bool:
    """Whether the folder holds exactly what is packed in the archive: every file, byte for byte, and no other."""
    left = {path for path in folder.rglob("*") if path.is_symlink() or not path.is_dir()}
    try:
        for name, source in _members(archive):
            path = folder / name
            if path not in left or path.is_symlink() or not path.is_file() or not _equal(source, path):
                return False
            left.remove(path)
    except BROKEN:
        return False
    return not left


def holds(archive: Path, name: str) -> bool:
    """Whether a file of this name is packed in the archive; what cannot be read holds nothing."""
    try:
        return any(one == name for one, _ in _members(archive))
    except BROKEN:
        return False


def _equal(source: IO[bytes], path: Path) -> bool:
    with path.open("rb") as file:
        while data := source.read(strict.MEBIBYTE):
            if file.read(len(data)) != data:
                return False
        return not file.read(1)


def _unpack(archive: Path, folder: Path) -> None:
    for name, source in _members(archive):
        target = folder / name
        if target.exists():
            raise Refused(f"{archive.name}: {name} is in it twice")
        target.parent.mkdir(parents=True, exist_ok=True)
        with target.open("wb") as out:
            shutil.copyfileobj(source, out)


def _members(archive: Path) -> Iterator[tuple[str, IO[bytes]]]:
    """Every file in the archive, to its end, where gzip's own checksum stands. Refuses all but plain evidence."""
    check(archive)
    with gzip.open(archive) as packed:
        bounded, total = _Bounded(packed), 0
        with tarfile.open(fileobj=cast("Any", bounded), mode="r|") as tar:
            for count, member in enumerate(tar, 1):
                total += member.size
                if not member.isreg() or member.size < 0 or not results.NAME.fullmatch(member.name):
                    raise Refused(f"{archive.name}: {member.name[:100]!r} is not a plain file under a safe name")
                if count > FILES or total > UNPACKED:
                    raise Refused(f"{archive.name}: more than {FILES} files or {UNPACKED} bytes")
                source = tar.extractfile(member)
                assert source is not None  # a regular member has contents
                with source:
                    yield member.name, source
        while bounded.read(strict.MEBIBYTE):
            pass
