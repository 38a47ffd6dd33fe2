"""How many hosts write to a shared path at once: each holds one of a few slots, files in that path, while it writes.

A slot is taken by making its next generation with O_EXCL, which one host alone can do, on NFS too. Its holder touches
it; one that nobody touched for STALE seconds is a dead host's, and the next generation may be made beside it. Nobody
removes what another made. Ages are told by the file system's clock alone, for the hosts' may differ.
"""

from __future__ import annotations

import contextlib
import os
import re
import socket
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

STALE = 300.0  # seconds: five times as long as NFS may keep a file's time to itself (acregmax, nfs(5))
TOUCH = 15.0  # seconds between two touches
NAME = re.compile(r"\.gpuburn-writer-(\d{1,4})\.(\d{1,9})")


class Slots:
    """One host's view of the slots of a path. most: other holders seen at once while this host held its own.

    lost: why the own slot was no longer to be had while it was held; "" where it was kept.
    """

    def __init__(self, folder: Path, count: int) -> None:
        self._folder, self._count = folder, count
        self._own: Path | None = None
        self._done = threading.Event()
        self._keeper = threading.Thread(target=self._keep, name="slot", daemon=True)
        self.most = 0
        self.lost = ""

    def take(self) -> bool:
        """One try for any of the slots."""
        now, seen = self._now(), self._seen()
        for slot in range(self._count):
            newest = max((one for one in seen if one[0] == slot), default=(slot, -1))
            if newest in seen and now - seen[newest] <= STALE:
                continue
            if self._make(slot, newest[1] + 1):
                self._watch()
                self._keeper.start()
                return True
        return False

    def holders(self) -> list[str]:
        """Who holds a slot, as they wrote it themselves."""
        now = self._now()
        fresh = [key for key, at in sorted(self._seen().items()) if now - at <= STALE]
        return [self._text(self._path(*key)) for key in fresh]

    def release(self) -> None:
        """Give the slot back. Does nothing where none is held."""
        self._done.set()
        if self._own:
            self._keeper.join()
            self._watch()
            self._own.unlink(missing_ok=True)
            self._own = None

    def _make(self, slot: int, generation: int) -> bool:
        path = self._path(slot, generation)
        try:
            with path.open("x") as file:
                file.write(f"{socket.gethostname()} ({os.getpid()})")
        except FileExistsError:
            return False
        if max(one for one in self._seen() if one[0] == slot) != (slot, generation):
            path.unlink()  # a later generation was made since we looked: its holder has the slot
            return False
        self._own = path
        return True

    def _keep(self) -> None:
        while not self._done.wait(TOUCH):
            self._watch()

    def _watch(self) -> None:
        try:
            self._look()
        except OSError as error:
            self.lost = f"{self._own}: {error.strerror or error}"

    def _look(self) -> None:
        """Touch the own slot, and count the others."""
        assert self._own
        os.utime(self._own)
        now = self._own.stat().st_mtime
        fresh = [key for key, at in self._seen().items() if now - at <= STALE and self._path(*key) != self._own]
        self.most = max(self.most, len(fresh))

    def _seen(self) -> dict[tuple[int, int], float]:
        """{(slot, generation): when it was last touched}."""
        found = {}
        for name in os.listdir(self._folder):
            match = NAME.fullmatch(name)
            if match:
                with contextlib.suppress(FileNotFoundError):  # given back since it was listed
                    found[int(match[1]), int(match[2])] = (self._folder / name).stat().st_mtime
        return found

    def _now(self) -> float:
        """The file system's time: that of a file just made."""
        with tempfile.NamedTemporaryFile(prefix=".gpuburn-clock-", dir=self._folder) as file:
            return os.fstat(file.fileno()).st_mtime

    def _path(self, slot: int, generation: int) -> Path:
        return self._folder / f".gpuburn-writer-{slot}.{generation}"

    @staticmethod
    def _text(path: Path) -> str:
        try:
            return path.read_text(errors="replace")[:100]
        except OSError:
            return path.name


@contextlib.contextmanager
def held(slots: Slots) -> Iterator[Slots]:
    """Gives the slot back whatever happens in the block."""
    try:
        yield slots
    finally:
        slots.release()
