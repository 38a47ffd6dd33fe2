"""The sampler: one process beside each step that reads all sensors once a second and appends what it saw.

A process of its own, because a driver in trouble blocks whoever asks it; the supervisor never asks.
"""

from __future__ import annotations

import dataclasses
import json
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from gpuburn import plan, strict
from gpuburn.agent import nvml, sensors
from gpuburn.agent.counters import PERIOD, Counters
from gpuburn.agent.family import Family
from gpuburn.agent.keeping import Keeper
from gpuburn.agent.lifeline import die_with_parent
from gpuburn.agent.nvml_events import NvmlEvents
from gpuburn.agent.pulses import Pulses
from gpuburn.agent.worker import Assignment
from gpuburn.measurement import Fact, Reading, absences
from gpuburn.plan import HOST
from gpuburn.probe import Taken, discover
from gpuburn.telemetry import CONTAINED, TELEMETRY

# Whether a value says something new, by how its metric is reduced: only then is it written at once. A long step's file
# stays within its bound so (eight GPUs for eight hours); every TENTH pass shows the course between the extremes.
NEW: dict[str, Callable[[float, float], bool]] = {
    "min": lambda value, before: value < before, "max": lambda value, before: value > before,
    "last": lambda value, before: value != before,
}  # fmt: skip
TENTH = 10


class Stop(Exception):
    """SIGTERM: the step is over."""


def _stop(number: int, frame: FrameType | None) -> None:
    raise Stop


@contextmanager
def _undisturbed() -> Iterator[None]:
    """Files are not left half written: SIGTERM waits."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})


class Sampler:
    """Everything that one step's sampler remembers from pass to pass."""

    def __init__(self, devices: list[plan.Device], library: nvml.Nvml, family: Family | None = None) -> None:
        self._planned = [one for one in devices if one.gpu]
        self._library, self._counters, self._family = library, Counters(), family or Family()
        self._extreme: dict[tuple[str, str], float] = {}
        self._last: dict[tuple[str, str], float] = {}
        self._told: set[str] = set()
        self._dark: set[str] = set()
        self._passes = 0
        self._looks = 0
        self._silent = False

    def gpus(self, now: float) -> Iterator[Taken]:
        """What the planned GPUs tell at this pass; where NVML as a whole tells nothing, none of them is to blame."""
        if not self._planned:
            return
        whole = self._looks % TENTH == 0 or len(self._told) < len(self._planned)
        self._looks += 1
        look = self._library.look(sensors.ASKED if whole else sensors.USUAL)
        yield Reading("silent", float(bool(look.absent)), subject=HOST)
        if look.absent:
            if not self._silent:
                yield Fact("unread", absences({"silent": look.absent}), subject=HOST)
            self._silent = True
            return
        for subject, seen in sensors.found(self._planned, look):
            yield from self._counters.taken(subject, seen, now)
            if seen is None:
                if subject not in self._told | self._dark:
                    self._dark.add(subject)
                    yield sensors.dark(subject, look)
                continue
            yield from sensors.gpu(subject, seen)
            yield from self._foreign(subject, seen)
            if subject not in self._told:
                self._told.add(subject)
                yield sensors.unread(subject, seen)

    def _foreign(self, subject: str, seen: nvml.Gpu) -> Iterator[Taken]:
        if "processes" in seen.values and "graphics" in seen.values:
            found = self._family.foreign(subject, f"{seen.values['processes']} {seen.values['graphics']}")
            if found is None:
                seen.missing["processes"] = CONTAINED
            else:
                yield Reading("foreign", float(found), subject=subject)

    def news(self, now: float) -> Iterator[Taken]:
        """What one pass adds to the evidence: nothing that it already says."""
        self._passes += 1
        for one in (*sensors.host(), *self.gpus(now)):
            if not isinstance(one, Reading) or self._new(one):
                yield one

    def _new(self, one: Reading) -> bool:
        new = NEW.get(TELEMETRY.metrics[one.metric].reduce)
        key = (one.metric, one.subject)
        if one.metric == "silent" and key in self._extreme:
            return one.value > 0  # a sum: noughts after the first add nothing
        if new is None or key not in self._extreme:
            self._extreme[key] = self._last[key] = one.value
            return True
        extreme = new(one.value, self._extreme[key])
        if extreme:
            self._extreme[key] = one.value
        course = self._passes % TENTH == 0 and one.value != self._last[key]
        if extreme or course:
            self._last[key] = one.value
        return extreme or course


def passes(devices: list[plan.Device], since: float, library: nvml.Nvml) -> Iterator[list[Taken]]:
    """One list per pass, a reading of the host first; each tells how long the sampler had been blind."""
    last, sampler = since, Sampler(devices, library)
    while True:
        now = time.time()
        seen: list[Taken] = [
            Reading("samples", 1.0, subject="host"), Reading("gap", max(0.0, now - last), subject="host")
        ]  # fmt: skip
        seen += sampler.news(now)
        last = now
        yield [dataclasses.replace(one, at=now) if isinstance(one, Reading) else one for one in seen]


def main() -> None:
    """telemetry FOLDER: FOLDER holds assignment.json; what is seen until SIGTERM is kept there (keeping.py), and NVML's
    events in nvml_events.jsonl."""
    folder = Path(sys.argv[1])
    die_with_parent()
    signal.signal(signal.SIGTERM, _stop)
    assignment = strict.build(Assignment, json.loads((folder / "assignment.json").read_bytes()), "assignment.json")
    keeper, brisk = Keeper(folder, TELEMETRY.metrics), discover()[assignment.probe].pulses
    with nvml.Nvml() as library, NvmlEvents(folder, assignment.devices, library) as events:
        pulses = Pulses(assignment.devices if brisk else [], library)
        try:
            begun = time.time()
            for seen in passes(assignment.devices, begun, library):
                with _undisturbed():
                    keeper.add([*seen, *pulses.told(begun)], begun)
                events.look()
                pulses.watch(begun + PERIOD)
                begun = time.time()
        except Stop:
            with _undisturbed():
                keeper.close()


if __name__ == "__main__":
    main()
