"""The sampler: one process beside each step that reads all sensors once a second and appends what it saw.

A process of its own, because a driver in trouble blocks whoever asks it; the supervisor never asks.
"""

from __future__ import annotations

import dataclasses
import json
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

from gpuburn import evidence, plan, strict
from gpuburn.agent import nvml, sensors
from gpuburn.agent.counters import PERIOD, Counters
from gpuburn.agent.foreign import Family
from gpuburn.agent.lifeline import die_with_parent
from gpuburn.agent.worker import Assignment
from gpuburn.measurement import Reading
from gpuburn.probe import Taken
from gpuburn.telemetry import TELEMETRY

STEADY = ("min", "max", "last")  # reductions of which a repeated value changes nothing


class Stop(Exception):
    """SIGTERM: the step is over."""


def _stop(number: int, frame: FrameType | None) -> None:
    raise Stop


class Sampler:
    """Everything that one step's sampler remembers from pass to pass."""

    def __init__(self, devices: list[plan.Device], library: nvml.Nvml) -> None:
        self._planned = [one for one in devices if one.kind == "cuda"]
        self._library, self._counters, self._family = library, Counters(), Family()
        self._written: dict[tuple[str, str], float] = {}
        self._told: set[str] = set()

    def gpus(self, now: float) -> Iterator[Taken]:
        """What the planned GPUs tell at this pass."""
        for subject, seen in sensors.found(self._planned, self._library):
            yield from self._counters.taken(subject, seen, now)
            if seen is None:
                continue
            yield from sensors.gpu(subject, seen)
            if "processes" in seen.values:
                foreign = self._family.foreign(str(seen.values["processes"]))
                yield Reading("foreign", float(foreign), subject=subject)
            if subject not in self._told:
                self._told.add(subject)
                yield sensors.unread(subject, seen)

    def changed(self, taken: Taken) -> bool:
        """Whether it says anything new: an extreme or a last value is the same without its repetitions."""
        if not isinstance(taken, Reading) or TELEMETRY.metrics[taken.metric].reduce not in STEADY:
            return True
        key = (taken.metric, taken.subject)
        same = self._written.get(key) == taken.value
        self._written[key] = taken.value
        return not same


def passes(devices: list[plan.Device], since: float, library: nvml.Nvml) -> Iterator[list[Taken]]:
    """One list per pass, a reading of the host first; each tells how long the sampler had been blind."""
    last, sampler = since, Sampler(devices, library)
    while True:
        now = time.time()
        seen: list[Taken] = [
            Reading("samples", 1.0, subject="host"), Reading("gap", max(0.0, now - last), subject="host")
        ]  # fmt: skip
        seen += [one for one in (*sensors.host(), *sampler.gpus(now)) if sampler.changed(one)]
        last = now
        yield [dataclasses.replace(one, at=now) if isinstance(one, Reading) else one for one in seen]


def main() -> None:
    """telemetry FOLDER: FOLDER holds assignment.json; appends to telemetry.jsonl until SIGTERM."""
    folder = Path(sys.argv[1])
    die_with_parent()
    signal.signal(signal.SIGTERM, _stop)
    assignment = strict.build(Assignment, json.loads((folder / "assignment.json").read_bytes()), "assignment.json")
    with (folder / "telemetry.jsonl").open("ab") as out, nvml.Nvml() as library:
        try:
            begun = time.time()
            for seen in passes(assignment.devices, begun, library):
                out.write(b"".join(evidence.dump(reading) for reading in seen))
                out.flush()
                time.sleep(max(0.0, PERIOD - (time.time() - begun)))
                begun = time.time()
        except Stop:
            out.flush()


if __name__ == "__main__":
    main()
