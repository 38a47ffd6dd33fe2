"""What NVML's counters and clock reasons added since the last pass, GPU by GPU, and which GPU has gone silent.

A counter misses no moment between two passes; a reason seen at a pass stands for the time since the pass before.
"""

from __future__ import annotations

from collections.abc import Iterator

from gpuburn.agent.nvml import Gpu
from gpuburn.measurement import Fact, Reading
from gpuburn.probe import Taken

PERIOD = 1.0  # seconds that the first pass stands for
TOGETHER = 10  # passes
LOADED = 0.25  # of the power limit: a GPU that draws more is at work (an H100 at rest draws a tenth)
COUNTED = {
    "corrected": ("ecc_corrected",), "uncorrected": ("ecc_uncorrected",), "replays": ("replays",),
    "remapped": ("remapped_corrected", "remapped_uncorrected"), "link_errors": ("link_errors",), "energy": ("energy",),
}  # fmt: skip
# Seconds in which the clocks are held, by cause: NVML's counter of that name, or this bit of the clock reasons
# (nvmlClocksEventReason*: a mask, so that several hold at once). A slowdown by the hardware is set together with its
# cause; counted here is one without.
HELD = {
    "capped": 0x4, "hw_slowdown": 0x8, "sync_boost": 0x10, "sw_thermal": 0x20, "hw_thermal": 0x40, "power_brake": 0x80,
}  # fmt: skip


class Counters:
    """Remembers every GPU's counters over the passes of one sampler."""

    def __init__(self) -> None:
        self._values: dict[tuple[str, str], float] = {}
        self._at: dict[str, float] = {}
        self._passes: dict[str, int] = {}
        self._energy: dict[str, float] = {}
        self._cool: dict[str, tuple[float, float]] = {}
        self._fastest: dict[str, float] = {}
        self._slow: set[str] = set()

    def taken(self, subject: str, gpu: Gpu | None, now: float) -> Iterator[Taken]:
        """The readings of one pass. gpu: None where the planned GPU did not answer; now: unix seconds.

        A GPU that never answered is not read; one that did, and no longer does, is lost.
        """
        if gpu is None:
            if subject in self._at:
                yield Reading("lost", 1.0, subject=subject)
            return
        first = subject not in self._at
        elapsed = PERIOD if first else max(0.0, now - self._at[subject])
        self._at[subject] = now
        found = {
            "lost": 0.0, **self._counted(subject, gpu), **self._held(subject, gpu, elapsed),
            **self._dropped(subject, gpu, elapsed),
        }  # fmt: skip
        self._passes[subject] = self._passes.get(subject, 0) + 1
        found |= self._gathered(subject, found)
        for name, value in found.items():
            if first or value:
                yield Reading(name, value, subject=subject)
        yield from self._checksums(subject, gpu, elapsed)
        yield from self._resistance(subject, gpu)
        if first:
            yield Fact("throttle_source", _source(gpu), subject=subject)

    def _whole(self, subject: str, name: str, gpu: Gpu) -> bool:
        """Whether a sum is of as many counters as before: one of fewer is passed over, one of more begins anew."""
        count, key = float(gpu.values.get(f"{name}_of", 0.0)), (subject, f"{name}_of")
        before = self._values.setdefault(key, count)
        if count > before:
            self._values[key] = count
            self._values.pop((subject, name), None)
        return count >= before

    def _added(self, subject: str, name: str, value: float) -> float:
        """What was added since the last pass; a counter that fell began anew, and all that it says is new."""
        before = self._values.get((subject, name), value)
        self._values[subject, name] = value
        return value - before if value >= before else value

    def _gathered(self, subject: str, found: dict[str, float]) -> dict[str, float]:
        """Energy grows at every pass: after the first few it is written for ten of them together."""
        if "energy" not in found:
            return {}
        total = self._energy.get(subject, 0.0) + found["energy"]
        now = self._passes[subject] <= TOGETHER or self._passes[subject] % TOGETHER == 0
        self._energy[subject] = 0.0 if now else total
        return {"energy": total if now else 0.0}

    def _counted(self, subject: str, gpu: Gpu) -> dict[str, float]:
        return {
            name: self._added(subject, name, sum(float(gpu.values[one]) for one in counters))
            for name, counters in COUNTED.items()
            if all(one in gpu.values for one in counters) and self._whole(subject, name, gpu)
        }

    def _held(self, subject: str, gpu: Gpu, elapsed: float) -> dict[str, float]:
        found = {}
        for name, bit in HELD.items():
            if name in gpu.values:
                found[name] = self._added(subject, name, float(gpu.values[name]))
            elif "reasons" in gpu.values:
                reasons = int(gpu.values["reasons"])
                named = name == "hw_slowdown" and reasons & (HELD["hw_thermal"] | HELD["power_brake"])
                found[name] = elapsed if reasons & bit and not named else 0.0
        return found

    def _dropped(self, subject: str, gpu: Gpu, elapsed: float) -> dict[str, float]:
        """Seconds under load below the fastest generation of the PCIe link that was seen. A link at rest falls back
        and takes a moment to come up: only from the second such look in a row on."""
        if "pcie_gen" not in gpu.values:
            return {}
        now = float(gpu.values["pcie_gen"])
        fastest = self._fastest[subject] = max(now, self._fastest.get(subject, 0.0))
        slow = now < fastest and _loaded(gpu)
        again = slow and subject in self._slow
        (self._slow.add if slow else self._slow.discard)(subject)
        return {"pcie_dropped": elapsed if again else 0.0}

    def _checksums(self, subject: str, gpu: Gpu, elapsed: float) -> Iterator[Reading]:
        """NVLink checksum errors a second; they come by the thousand where they come, and a few are normal."""
        if "link_crc" in gpu.values and self._whole(subject, "link_crc", gpu):
            added = self._added(subject, "link_crc", float(gpu.values["link_crc"]))
            yield Reading("link_crc", added / (elapsed or PERIOD), subject=subject)

    def _resistance(self, subject: str, gpu: Gpu) -> Iterator[Reading]:
        """Degrees over the step's coolest reading, per watt over the power at that moment; only under real load."""
        told = [gpu.values.get(name) for name in ("temperature", "power", "power_limit")]
        if None in told:
            return
        temperature, power, limit = (float(one) for one in told if one is not None)
        cool = min(self._cool.get(subject, (temperature, power)), (temperature, power))
        self._cool[subject] = cool
        if power - cool[1] >= limit * LOADED:
            yield Reading("thermal_resistance", (temperature - cool[0]) / (power - cool[1]), subject=subject)


def _loaded(gpu: Gpu) -> bool:
    told = [gpu.values.get(name) for name in ("power", "power_limit")]
    return None not in told and float(told[0] or 0.0) >= LOADED * float(told[1] or 0.0)


def _source(gpu: Gpu) -> str:
    """Which seconds come from NVML's own counters, and which from what was seen once a second."""
    sampled = [name for name in HELD if name not in gpu.values and "reasons" in gpu.values]
    counted = [name for name in HELD if name in gpu.values]
    said = [f"{how}: {', '.join(names)}" for how, names in (("counted", counted), ("sampled", sampled)) if names]
    return "; ".join(said) or "none: no counters and no clock reasons"
