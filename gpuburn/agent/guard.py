"""Bounds that protect the host while a step runs; crossing one ends the step, and is a finding."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

from gpuburn import evidence
from gpuburn.agent.foreign import ForeignLoad
from gpuburn.measurement import Reading
from gpuburn.outcome import GuardTrip
from gpuburn.plan import HOST, Guard
from gpuburn.strict import Refused

GIB = 2**30
CHUNK = 2**20  # bytes of the sampler's file that are read at one look
SAMPLED = ("temperature", "memory_available", "hw_slowdown", "hw_thermal", "sw_thermal", "power_brake")


class Watch:
    """Looks at the host and at what the sampler wrote since the last look; touches no GPU itself."""

    def __init__(
        self, guards: list[Guard], folder: Path, telemetry: Path, others: ForeignLoad | None = None
    ) -> None:  # fmt: skip
        """others: who looks for foreign load, where a guard names it."""
        self._guards, self._folder, self._telemetry = guards, folder, telemetry
        self._file = self._offset = 0
        self._others = others if any(guard.name == "foreign_load" for guard in guards) else None

    def trips(self) -> list[GuardTrip]:
        """The guards that are crossed now."""
        seen = [*self._host(), *self._sampled()]
        return [
            GuardTrip(guard.name, subject, value, _why(guard, subject, value) + self._more(guard))
            for guard in self._guards
            for name, subject, value in seen
            if name == guard.name and not _within(guard, value)
        ]

    def _host(self) -> Iterator[tuple[str, str, float]]:
        disk = os.statvfs(self._folder)
        yield "disk_free", HOST, disk.f_bavail * disk.f_frsize / GIB
        share = self._others.sustained() if self._others else None
        if share is not None:
            yield "foreign_load", HOST, share

    def _more(self, guard: Guard) -> str:
        """What a person needs to find the cause, and only /proc knows while it lasts."""
        return self._others.busiest() if self._others and guard.name == "foreign_load" else ""

    def _sampled(self) -> Iterator[tuple[str, str, float]]:
        """New whole lines of the sampler. Judged strictly when the step ends; what is odd is passed over here."""
        for text in self._lines():
            try:
                taken = evidence.parse(text + b"\n", self._telemetry.name)
            except Refused:
                continue
            for one in taken:
                if isinstance(one, Reading) and one.metric in SAMPLED:
                    yield one.metric, one.subject, one.value

    def _lines(self) -> list[bytes]:
        """A pipe in the file's place would hold us, and a link lead us elsewhere: only a regular file is read."""
        try:
            descriptor = os.open(self._telemetry, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW)
        except OSError:
            return []
        try:
            seen = os.fstat(descriptor)
            regular = stat.S_ISREG(seen.st_mode)
            if self._file not in (0, seen.st_ino):
                self._offset = 0  # the sampler let go of what is older
            self._file = seen.st_ino
            data = os.pread(descriptor, CHUNK, self._offset) if regular else b""
        finally:
            os.close(descriptor)
        whole, newline, _ = data.rpartition(b"\n")
        self._offset += len(whole) + len(newline) if newline or len(data) < CHUNK else len(data)
        return whole.split(b"\n")


def _within(guard: Guard, value: float) -> bool:
    return (guard.min is None or value >= guard.min) and (guard.max is None or value <= guard.max)


def _why(guard: Guard, subject: str, value: float) -> str:
    bound = f"at least {guard.min:g}" if guard.min is not None else f"at most {guard.max:g}"
    return f"{guard.name} of {subject} was {value:.4g} {guard.unit}; wanted is {bound}: {guard.because}"
