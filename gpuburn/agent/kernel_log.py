"""The kernel's log, followed from now on; what cannot be read is said, never taken for silence."""

from __future__ import annotations

import os
import re
import stat
import time
from collections.abc import Iterator
from pathlib import Path

from gpuburn.identity import Event

XID = re.compile(r"NVRM: Xid \(PCI:([0-9A-Fa-f:.]+)\): (\d+)(.*)")
RECORD = 8192  # bytes: the kernel's own bound on one record of /dev/kmsg


def xid(line: str, at: float) -> Event | None:
    """The Xid that a line of the kernel log reports, if it does."""
    match = XID.search(line)
    return Event("kernel.xid", at, match[1], f"Xid {match[2]}{match[3][:200]}") if match else None


class KernelLog:
    """why is "" while the log can be read, else the reason that it cannot."""

    def __init__(self, path: Path = Path("/dev/kmsg")) -> None:
        self.why, self._descriptor = "", -1
        try:
            if not stat.S_ISCHR(path.stat().st_mode):
                self.why = f"{path} is not the kernel's log here"
                return
            self._descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
            os.lseek(self._descriptor, 0, os.SEEK_END)
        except OSError as error:
            self.why = f"{path}: {error.strerror}"

    def events(self) -> Iterator[Event]:
        """What happened since the last call."""
        while self._descriptor >= 0:
            try:
                text = os.read(self._descriptor, RECORD).decode("utf-8", "replace")
            except BlockingIOError:
                return
            except BrokenPipeError:  # the kernel overwrote records before they were read
                yield Event("kernel_log.overrun", time.time(), "host", "records were overwritten before they were read")
                continue
            found = xid(text, time.time())
            if found:
                yield found

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
