"""The cache of finished trees, shared by all lab runs of this machine; it knows folders and locks, not what is in them.

A tree appears under its key in one rename, so an interrupted making is never used. Whoever uses a tree holds a shared
lock on it, which the kernel drops with the process, so nothing in use is ever pruned.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
from collections.abc import Callable
from pathlib import Path

from .mounts import below

KEEP = {"base": 2, "layer": 6}  # every change of what is baked in is another layer, of up to a gigabyte


class Store:
    """Takes finished trees, making them first where they do not exist; close() gives them back."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._held = contextlib.ExitStack()
        folder.mkdir(parents=True, exist_ok=True)
        folder.chmod(0o700)

    def take(self, kind: str, digest: str, make: Callable[[Path], None]) -> Path:
        """The tree of this kind and content; if there is none, `make` makes it by creating the folder it is given."""
        tree = self.folder / f"{kind}-{digest}"
        with contextlib.ExitStack() as stack:
            lock = stack.enter_context((self.folder / f"{tree.name}.lock").open("w"))
            fcntl.flock(lock, fcntl.LOCK_SH)
            while not tree.is_dir():
                fcntl.flock(lock, fcntl.LOCK_EX)  # not an atomic upgrade: another run may be first, so look again
                if not tree.is_dir():
                    self._make(tree, make)
                fcntl.flock(lock, fcntl.LOCK_SH)
            self._held.push(stack.pop_all())  # a making that failed keeps nothing locked
            os.utime(lock.name)
        self._prune(kind)
        return tree

    def close(self) -> None:
        self._held.close()

    def _make(self, tree: Path, make: Callable[[Path], None]) -> None:
        unfinished = tree.with_name(f"{tree.name}.unfinished")
        discard(unfinished)
        try:
            make(unfinished)
            unfinished.rename(tree)
        finally:
            discard(unfinished)

    def _prune(self, kind: str) -> None:
        """Drop the trees of this kind that were not used for longest, but none that anybody holds."""
        locks = sorted(self.folder.glob(f"{kind}-*.lock"), key=lambda path: path.stat().st_mtime, reverse=True)
        for path in [path for path in locks if path.with_suffix("").is_dir()][KEEP[kind] :]:
            with path.open("a") as lock, contextlib.suppress(BlockingIOError):
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                discard(path.with_suffix(""))


def discard(folder: Path) -> None:
    """Delete a folder, never through a mount: with anything mounted below it this raises instead."""
    if mounted := below(folder):
        raise RuntimeError(f"{folder} is not deleted: {mounted[0]} is still mounted")
    if folder.exists():
        shutil.rmtree(folder)
