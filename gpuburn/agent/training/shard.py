"""Checkpoints as folders and files: written apart, synced, renamed when whole; found again only if every byte is right.

Standard library only, so that whoever supervises a run can look for its newest checkpoint without a device.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from gpuburn import strict
from gpuburn.strict import Refused

KEEP = 2
NAME = re.compile(r"step-(\d{8})")
OURS = re.compile(r"(step-|\.tmp-)\d{8}")
BLOCK = 2**22


@dataclass(frozen=True, slots=True)
class Part:
    """A run of values in a shard: so many of this type, after the part before."""

    name: str
    dtype: str
    count: int


@dataclass(frozen=True, slots=True)
class Shard:
    """What stands beside a rank's file and says what it must be. config: digest of recipe and number of ranks."""

    config: str
    step: int
    rank: int
    world: int
    bytes: int
    sha256: str
    parts: list[Part]


def name(step: int) -> str:
    return f"step-{step:08d}"


def unfinished(step: int) -> str:
    return f".tmp-{step:08d}"


def data(folder: Path, rank: int) -> Path:
    return folder / f"rank-{rank}.bin"


def words(folder: Path, rank: int) -> Path:
    return folder / f"rank-{rank}.json"


def saving(run: Path, rank: int) -> Path:
    """The file that stands in a run's folder, and holds the step, as long as a rank's save beside the loop lasts."""
    return run / f"saving.{rank}"


def write(path: Path, pieces: Iterable[memoryview]) -> tuple[int, str]:
    """Write and fsync; the number of bytes and their SHA-256, both taken from memory and not from the disk."""
    seen, size = hashlib.sha256(), 0
    with path.open("xb") as file:
        for piece in pieces:
            file.write(piece)
            seen.update(piece)
            size += len(piece)
        file.flush()
        os.fsync(file.fileno())
    return size, seen.hexdigest()


def sync(folder: Path) -> None:
    """fsync a directory: a name in it is then as durable as the file behind it."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def describe(folder: Path, shard: Shard) -> None:
    """Write the words that stand beside a rank's file; last, so that they promise only what is there.

    They appear under their name when they are whole: whoever sees them may commit.
    """
    draft = folder / f"rank-{shard.rank}.draft"
    write(draft, [memoryview(strict.encode(shard))])
    draft.rename(words(folder, shard.rank))
    sync(folder)


def described(folder: Path, rank: int) -> Shard:
    """What a rank's file must be, read strictly."""
    path = words(folder, rank)
    return strict.build(Shard, strict.loads(strict.load_file(path), str(path)), str(path))


def verify(folder: Path, shard: Shard) -> None:
    """Refuse a rank's file that is not byte for byte what was written."""
    path, seen = data(folder, shard.rank), hashlib.sha256()
    if path.is_symlink() or not path.is_file() or path.stat().st_size != shard.bytes:
        raise Refused(f"{path}: not a file of {shard.bytes} bytes")
    with path.open("rb") as file:
        while block := file.read(BLOCK):
            seen.update(block)
    if seen.hexdigest() != shard.sha256:
        raise Refused(f"{path}: SHA-256 {seen.hexdigest()[:16]}..., written was {shard.sha256[:16]}...")


def whole(folder: Path) -> int:
    """The step of a checkpoint of which every rank's shard is there and right; anything else is refused."""
    match = NAME.fullmatch(folder.name)
    if match is None or folder.is_symlink() or not folder.is_dir():
        raise Refused(f"{folder}: not the folder of a checkpoint")
    first = described(folder, 0)
    for rank in range(first.world):
        shard = described(folder, rank)
        if (shard.config, shard.step, shard.world, shard.rank) != (first.config, int(match[1]), first.world, rank):
            raise Refused(f"{folder}: rank {rank} is of another checkpoint")
        verify(folder, shard)
    return first.step


def is_whole(folder: Path) -> bool:
    """Whether a checkpoint is whole; one that is unfinished or damaged is not."""
    try:
        whole(folder)
    except (Refused, OSError):
        return False
    return True


def newest_complete(folder: Path) -> Path | None:
    """The checkpoint of the latest step that is whole."""
    return next(filter(is_whole, sorted(folder.glob("step-*"), reverse=True)), None)


def begin(folder: Path, step: int) -> Path:
    """A fresh place for an unfinished checkpoint; what an earlier attempt at this step left is removed."""
    place = folder / unfinished(step)
    folder.mkdir(parents=True, exist_ok=True)
    remove(place)
    place.mkdir()
    return place


def commit(folder: Path, step: int) -> Path:
    """Rename the finished checkpoint to its name, durably, and keep the newest two."""
    final = folder / name(step)
    remove(final)
    (folder / unfinished(step)).rename(final)
    sync(folder)
    for old in sorted(path for path in folder.iterdir() if NAME.fullmatch(path.name))[:-KEEP]:
        remove(old)
    return final


def remove(path: Path) -> None:
    """Remove one checkpoint; a link, or a name that is not ours, is refused: nothing else is ever touched."""
    if not OURS.fullmatch(path.name) or path.is_symlink():
        raise Refused(f"{path}: not a checkpoint of ours; it is left alone")
    if path.exists():
        shutil.rmtree(path)
