"""Power between two passes of the sampler, where a probe's load comes and goes faster than they do."""

from __future__ import annotations

import time
from collections.abc import Iterator

from gpuburn import plan
from gpuburn.agent import nvml, sensors
from gpuburn.measurement import Reading

BRISK = 0.05  # seconds between two looks: 20 Hz, enough for a burst of 50 ms; a look asks a GPU three things
ASKED = ("uuid", "pci", "power_now")


class Pulses:
    """Looks at the planned GPUs' power while the sampler waits for its next pass, and keeps the ends of what it saw.

    NVML's usual power is a mean over about a second from Ampere on (nvml.h, nvmlDeviceGetPowerUsage), in which a burst
    drowns: asked is the momentary one. A GPU that does not tell it gives no reading.
    """

    def __init__(self, devices: list[plan.Device], library: nvml.Nvml) -> None:
        self._planned, self._library = [one for one in devices if one.gpu], library
        self._seen: dict[str, list[float]] = {}

    def watch(self, end: float) -> None:
        """Until then (unix s): look, at least once, or wait where there is nothing to look at."""
        if not self._planned:
            time.sleep(max(0.0, end - time.time()))
        while self._planned:
            self._look()
            left = end - time.time()
            if left <= 0:
                return
            time.sleep(min(BRISK, left))

    def _look(self) -> None:
        for subject, gpu in sensors.found(self._planned, self._library.look(ASKED)):
            if gpu and "power_now" in gpu.values:
                self._seen.setdefault(subject, []).append(float(gpu.values["power_now"]))

    def told(self, at: float) -> Iterator[Reading]:
        """The least and the most of each GPU since it was asked last, and how often it told."""
        for subject, seen in self._seen.items():
            yield Reading("power_low", min(seen), subject=subject, at=at)
            yield Reading("power_peak", max(seen), subject=subject, at=at)
            yield Reading("power_looks", float(len(seen)), subject=subject, at=at)
        self._seen.clear()
