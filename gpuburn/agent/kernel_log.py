"""The kernel's log, followed record by record; what cannot be read is said, never taken for silence.

Stops at the record: what it means stands in gpuburn/kernel.py, what it leads to is judged elsewhere.
"""

from __future__ import annotations

import os
import stat
import time
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from gpuburn import kernel
from gpuburn.agent.firmware import Firmware
from gpuburn.agent.flood import Flood
from gpuburn.events import LOST, MORE, Weight
from gpuburn.identity import Event

PATH = Path("/dev/kmsg")
RECORD = 8192  # bytes: the kernel's own bound on one record of /dev/kmsg
RECORDS = 100_000  # read in one go at most: more than the kernel keeps, so that a flood cannot hold the supervisor
LISTED = 1000  # events of one kind and part: it repeats itself, and a thousand are as telling as a million
ALL: dict[Weight, int] = {"fail": 2000, "incomplete": 2000, "": 8000}  # events of all kinds and parts
KMSG = os.makedev(1, 11)
NOW, FIRST = -2, -1
OVERRUN = "kernel_log.overrun"
KERNEL = 0  # facility of what the kernel itself says; a process that writes to /dev/kmsg is given another


@dataclass(frozen=True, slots=True)
class Record:
    """One record of /dev/kmsg: "priority,sequence,microseconds,flags;text" (Documentation/ABI/testing/dev-kmsg).

    priority: 0 (emergency) to 7 (debug). facility: KERNEL, or who else wrote. uptime: seconds of the boot.
    """

    facility: int
    priority: int
    number: int
    uptime: float
    text: str

    @classmethod
    def read(cls, data: str) -> Record | None:
        """The record; None for what is none. Lines after the first name the device; the text names it as well."""
        head, _, rest = data.partition(";")
        fields = head.split(",")
        if len(fields) < 3 or not all(one.isascii() and one.isdecimal() and len(one) < 20 for one in fields[:3]):
            return None
        level, number, stamp = (int(one) for one in fields[:3])
        return cls(level >> 3, level & 7, number, stamp / 1e6, rest.partition("\n")[0])


class KernelLog:
    """Follows the log after the record of that number; NOW: what comes from now on; FIRST: all since the boot.

    why is "" while the log can be read, else the reason that it cannot. last: the number of the last record read.
    """

    def __init__(self, path: Path = PATH, after: int = NOW) -> None:
        self.last, self._overrun, self._firmware = after, False, Firmware()
        self._flood = Flood(MORE, LOST, LISTED, ALL)
        self._descriptor, self.why = opened(path)
        self._seen = 0.0  # unix time of the last look that read to the end: a newer record was not there then
        if self._descriptor >= 0 and after == NOW:
            for _ in self._records():  # to know the number of the last one before the run
                pass

    def events(self) -> Iterator[Event]:
        """What happened since the last call."""
        for record in self._firmware.joined(self._records()):
            if isinstance(record, Event):
                if not self._overrun:  # one gap is as telling as many
                    yield record
                self._overrun = True
                continue
            told = kernel.told(record.text, record.priority) if record.facility == KERNEL else None
            if told is None:
                continue
            yield from self._flood.heard(Event(told.code, self._moment(record.uptime), told.about, told.text))

    def totals(self) -> Iterator[Event]:
        """How many there were of what is not listed in full."""
        yield from self._flood.totals(time.time())

    def _moment(self, uptime: float) -> float:
        """Unix time of a record. The kernel's clock drifts, but none is older than the last look that met the end."""
        now = time.time()
        stamped = now - time.clock_gettime(time.CLOCK_MONOTONIC) + uptime
        return min(max(stamped, self._seen), now)

    def _records(self) -> Iterator[Record | Event]:
        """New records in their order, and an event for those that were lost before they were read."""
        for _ in range(RECORDS if self._descriptor >= 0 else 0):
            looked = time.time()
            try:
                text = os.read(self._descriptor, RECORD).decode("utf-8", "replace")
            except BlockingIOError:
                self._seen = looked
                return
            except BrokenPipeError:
                continue  # the kernel overwrote records: the gap shows in the next one's number
            except OSError as error:
                self.close()
                yield _lost(f"cannot be read any more: {error.strerror}")
                return
            record = Record.read(text)
            if record is None:
                self.close()
                yield _lost(f"holds {text[:40]!r}, which is no record")
                return
            if record.number <= self.last:
                continue
            if self.last != NOW and record.number > self.last + 1:
                yield _lost(f"{record.number - self.last - 1} records were overwritten before they were read")
            self.last = record.number
            yield record

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


def tail(size: int, path: Path = PATH) -> tuple[bytes, str]:
    """The last bytes of what the kernel still has of this boot, in whole records; or none, and why."""
    descriptor, why = opened(path)
    kept: deque[bytes] = deque()
    length = 0
    try:
        for _ in range(RECORDS if descriptor >= 0 else 0):
            try:
                kept.append(os.read(descriptor, RECORD))
            except BrokenPipeError:
                continue
            length += len(kept[-1])
            while length > size:
                length -= len(kept.popleft())
    except OSError as error:
        why = "" if isinstance(error, BlockingIOError) else f"{path}: {error.strerror}"
    finally:
        if descriptor >= 0:
            os.close(descriptor)
    return b"".join(kept), why


def _lost(why: str) -> Event:
    return Event(OVERRUN, time.time(), "host", why)
