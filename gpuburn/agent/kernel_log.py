"""The kernel's log, followed record by record; what cannot be read is said, never taken for silence."""

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
RECORDS = 100_000  # read in one go at most: more than the kernel keeps, so that a flood cannot hold the supervisor
LISTED = 1000  # events: a GPU in trouble repeats itself, and a thousand are as telling as a million
KMSG = os.makedev(1, 11)
NOW, FIRST = -2, -1
OVERRUN = "kernel_log.overrun"


def xid(line: str, at: float) -> Event | None:
    """The Xid that a line of the kernel log reports, if it does."""
    match = XID.search(line)
    return Event("kernel.xid", at, match[1], f"Xid {match[2]}{match[3][:200]}") if match else None


def sequence(record: str) -> int | None:
    """The running number of a record "priority,sequence,microseconds,flags;text"; None where it has none."""
    fields = record.partition(";")[0].split(",")
    return int(fields[1]) if len(fields) > 2 and fields[1].isdecimal() else None


class KernelLog:
    """Follows the log after the record of that number; NOW: what comes from now on; FIRST: all since the boot.

    why is "" while the log can be read, else the reason that it cannot. last: the number of the last record read.
    """

    def __init__(self, path: Path = Path("/dev/kmsg"), after: int = NOW) -> None:
        self.last, self._told, self._overrun = after, 0, False
        self._descriptor, self.why = opened(path)
        if self._descriptor >= 0 and after == NOW:
            for _ in self._records():  # to know the number of the last one before the run
                pass

    def events(self) -> Iterator[Event]:
        """What happened since the last call."""
        for record in self._records():
            if isinstance(record, Event):
                if not self._overrun:  # one gap is as telling as many
                    yield record
                self._overrun = True
                continue
            found = xid(record, time.time())
            if found and self._told <= LISTED:
                self._told += 1
                more = Event(found.code, found.at, "host", f"more than {LISTED}; the others are not listed")
                yield found if self._told <= LISTED else more

    def _records(self) -> Iterator[str | Event]:
        """New records in their order, and an event for those that were lost before they were read."""
        for _ in range(RECORDS if self._descriptor >= 0 else 0):
            try:
                text = os.read(self._descriptor, RECORD).decode("utf-8", "replace")
            except BlockingIOError:
                return
            except BrokenPipeError:
                continue  # the kernel overwrote records: the gap shows in the next one's number
            except OSError as error:
                self.close()
                yield _lost(f"cannot be read any more: {error.strerror}")
                return
            number = sequence(text)
            if number is None:
                self.close()
                yield _lost(f"holds {text[:40]!r}, which is no record")
                return
            if number <= self.last:
                continue
            if self.last != NOW and number > self.last + 1:
                yield _lost(f"{number - self.last - 1} records were overwritten before they were read")
            self.last = number
            yield text

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def opened(path: Path) -> tuple[int, str]:
    """A descriptor at the first record that the kernel still has; or -1, and why there is none."""
    try:
        status = path.stat()
        if not stat.S_ISCHR(status.st_mode) or status.st_rdev != KMSG:
            return -1, f"{path} is not the kernel's log here"
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        os.lseek(descriptor, 0, os.SEEK_SET)
        return descriptor, ""
    except OSError as error:
        return -1, f"{path}: {error.strerror}"


def _lost(why: str) -> Event:
    return Event(OVERRUN, time.time(), "host", why)
