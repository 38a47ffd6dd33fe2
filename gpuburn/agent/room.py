"""How long the files of a step may become while it runs: a worker that writes without end must not fill the disk."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from gpuburn import evidence
from gpuburn.strict import MEBIBYTE

LOG = 64 * MEBIBYTE  # bytes of one log while its step runs; step.py keeps the end of it
RUN = 384 * MEBIBYTE  # bytes of all steps' evidence: with result.json it can still be sealed and taken home
FILES = 10_000  # looked at in one go: a folder with more is too full as well
SCRATCH = "scratch"
DATA = "gpuburn-"  # how a folder in scratch begins that holds a step's test data (place.py): thousands of files, no log


class Room:
    """What a step may still write. Looks at names and sizes only, and follows no link."""

    def __init__(self, run: Path, folder: Path) -> None:
        self._folder = folder
        self._left = RUN - sum(size for path, size in files(run) if SCRATCH not in path.relative_to(run).parts)

    def exceeded(self) -> str:
        """Which bound is exceeded; "" while none is."""
        total = 0
        for number, (path, size) in enumerate(files(self._folder), 1):
            name = path.relative_to(self._folder)
            if number >= FILES:
                return f"it left more than {FILES} files"
            if path.suffix == ".log" and size > LOG:
                return f"its log {name} is longer than {LOG} bytes"
            if SCRATCH in name.parts:
                continue
            total += size
            if path.suffix == ".jsonl" and size > evidence.LINES:
                return f"its evidence {name} is longer than {evidence.LINES} bytes"
        return f"the run's evidence would be longer than {RUN} bytes" if total > max(self._left, 0) else ""


def files(folder: Path) -> Iterator[tuple[Path, int]]:
    """Regular files under the folder with their sizes, FILES at most; what vanishes meanwhile is left out."""
    return islice(_files(folder), FILES)


def _files(folder: Path) -> Iterator[tuple[Path, int]]:
    for place, folders, names in os.walk(folder):
        if Path(place).name == SCRATCH:
            folders[:] = [one for one in folders if not one.startswith(DATA)]
        for name in names:
            path = Path(place) / name
            try:
                seen = path.lstat()
            except OSError:
                continue
            if stat.S_ISREG(seen.st_mode):
                yield path, seen.st_size


def tail(path: Path, size: int) -> bytes:
    """The last bytes of a file, whatever its length."""
    with path.open("rb") as file:
        file.seek(max(0, os.fstat(file.fileno()).st_size - size))
        return file.read(size)
