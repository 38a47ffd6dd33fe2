"""Bounds that protect the host while a step runs; crossing one ends the step, and is a finding."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

from gpuburn.outcome import GuardTrip
from gpuburn.plan import HOST, Guard

GIB = 2**30


class Watch:
    """Looks at the host and at what the sampler wrote since the last look; touches no GPU itself."""

    def __init__(self, guards: list[Guard], folder: Path, telemetry: Path) -> None:
        self._guards, self._folder, self._telemetry, self._offset = guards, folder, telemetry, 0

    def trips(self) -> list[GuardTrip]:
        """The guards that are crossed now."""
        seen = [*self._host(), *self._sampled()]
        return [
            GuardTrip(guard.name, subject, value, _why(guard, subject, value))
            for guard in self._guards
            for name, subject, value in seen
            if name == guard.name and not _within(guard, value)
        ]

    def _host(self) -> Iterator[tuple[str, str, float]]:
        disk = os.statvfs(self._folder)
        yield "disk_free", HOST, disk.f_bavail * disk.f_frsize / GIB

    def _sampled(self) -> Iterator[tuple[str, str, float]]:
        """New whole lines of the sampler. It is checked strictly when the step ends; here only numbers matter."""
        if not self._telemetry.exists():
            return
        with self._telemetry.open("rb") as file:
            file.seek(self._offset)
            whole, newline, _ = file.read(2**20).rpartition(b"\n")
        self._offset += len(whole) + len(newline)
        for text in whole.splitlines():
            reading = json.loads(text).get("reading", {})
            if reading.get("metric") in ("temperature", "memory_available"):
                yield reading["metric"], reading["subject"], float(reading["value"])


def _within(guard: Guard, value: float) -> bool:
    return (guard.min is None or value >= guard.min) and (guard.max is None or value <= guard.max)


def _why(guard: Guard, subject: str, value: float) -> str:
    bound = f"at least {guard.min:g}" if guard.min is not None else f"at most {guard.max:g}"
    return f"{guard.name} of {subject} was {value:.4g} {guard.unit}; wanted is {bound}: {guard.because}"
