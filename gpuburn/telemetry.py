"""What the sampler promises beside every step: declared like a probe, so that limits can demand it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from gpuburn.measurement import Metric
from gpuburn.probe import Probe, Taken

GPU = ("hardware", "simulated")


def _sampled(host: Any) -> Iterator[Taken]:
    """Never called: the sampler runs in a process of its own beside the step (agent/telemetry.py)."""
    yield from ()


TELEMETRY = Probe(
    name="telemetry",
    doc="Sensors of the host and its GPUs, read once a second while a step runs.",
    scope="host",
    revision=2,
    work=(),
    needs=(),
    smoke={},
    run=_sampled,
    metrics={
        "samples": Metric("count", "sum", "passes of the sampler over all sensors", per="host"),
        "gap": Metric("s", "max", "longest time between two passes; a blind sampler must not look calm", per="host"),
        "load": Metric("1", "max", "one-minute load average", per="host"),
        "memory_available": Metric("GiB", "min", "host memory that could still be had", per="host"),
        "temperature": Metric("C", "max", "GPU core (nvmlDeviceGetTemperature)", per="device", kinds=GPU),
        "power": Metric("W", "median", "board power (nvmlDeviceGetPowerUsage)", per="device", kinds=GPU),
        "power_limit": Metric(
            "W", "min", "power limit in force (nvmlDeviceGetEnforcedPowerLimit)", per="device", kinds=GPU
        ),
        "memory_peak": Metric(
            "GB/s",
            "last",
            "what the memory could carry: 2 x maximum memory clock x bus width / 8 (NVML)",
            per="device",
            kinds=GPU,
        ),
        "sm_clock": Metric("MHz", "min", "SM clock (nvmlDeviceGetClockInfo)", per="device", kinds=GPU, better="higher"),
    },
    facts={},
)
