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
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from gpuburn import plan, strict
from gpuburn.agent import nvml, sensors
from gpuburn.agent.keeping import Keeper
from gpuburn.agent.lifeline import die_with_parent
from gpuburn.agent.nvml_events import NvmlEvents
from gpuburn.agent.worker import Assignment
from gpuburn.measurement import Reading
from gpuburn.telemetry import TELEMETRY

PERIOD = 1.0


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


def passes(devices: list[plan.Device], since: float, library: nvml.Nvml) -> Iterator[list[Reading]]:
    """One list of readings per pass; each tells how long the sampler had been blind."""
    last = since
    planned = [one for one in devices if one.pci or one.uuid]
    while True:
        now = time.time()
        seen = [Reading("samples", 1.0, subject="host"), Reading("gap", max(0.0, now - last), subject="host")]
        seen += [*sensors.host(), *sensors.gpus(planned, library)]
        last = now
        yield [dataclasses.replace(reading, at=now) for reading in seen]


def main() -> None:
    """telemetry FOLDER: FOLDER holds assignment.json; what is seen until SIGTERM is kept there (keeping.py), and NVML's
    events in nvml_events.jsonl."""
    folder = Path(sys.argv[1])
    die_with_parent()
    signal.signal(signal.SIGTERM, _stop)
    assignment = strict.build(Assignment, json.loads((folder / "assignment.json").read_bytes()), "assignment.json")
    keeper = Keeper(folder, TELEMETRY.metrics)
    with nvml.Nvml() as library, NvmlEvents(folder, assignment.devices, library) as events:
        try:
            for seen in passes(assignment.devices, time.time(), library):
                with _undisturbed():
                    keeper.add(list(seen), seen[0].at)
                events.look()
                time.sleep(max(0.0, PERIOD - (time.time() - seen[0].at)))
        except Stop:
            with _undisturbed():
                keeper.close()


if __name__ == "__main__":
    main()
