"""How large a day of telemetry of eight GPUs under load is, compressed as the evidence is sealed.

The sampler and what it keeps are the real ones; the library's answers are made up, each with the jitter and the
resolution that a loaded GPU's have. The clock is not waited for: 86,400 passes are made one after the other.
"""

from __future__ import annotations

import dataclasses
import gzip
import random
from collections.abc import Iterable
from pathlib import Path

from gpuburn import evidence
from gpuburn.agent import nvml, sensors
from gpuburn.agent.keeping import RAW, Keeper
from gpuburn.agent.telemetry import Sampler
from gpuburn.measurement import Reading
from gpuburn.plan import Device
from gpuburn.probe import Taken
from gpuburn.telemetry import TELEMETRY

GPUS, DAY, MEBIBYTES = 8, 86_400, 5.0
DEVICES = [Device(f"gpu{index}", "cuda", pci=f"0000:{index + 16:02x}:00.0") for index in range(GPUS)]
CALM = {
    "power_limit": 700.0, "memory_peak": 4800.0, "pcie_gen": 5.0, "pcie_width": 16.0, "pcie_gen_max": 5.0,
    "pcie_width_max": 16.0, "slowdown_at": 90.0, "memory_max_at": 95.0, "ecc_corrected": 0.0, "ecc_uncorrected": 0.0,
    "reasons": 4, "processes": "", "replays": 0.0, "link_errors": 0.0, "link_crc": 0.0, "remapped_corrected": 0.0,
    "remapped_uncorrected": 0.0, "hw_slowdown": 0.0, "sync_boost": 0.0, "sw_thermal": 0.0, "hw_thermal": 0.0,
    "power_brake": 0.0,
}  # fmt: skip


class Loaded(nvml.Nvml):
    """Eight GPUs at their power limit; each look is a second later than the one before."""

    def __init__(self) -> None:
        super().__init__()
        self._near, self._second = random.Random(1), 0
        self._energy = [0.0] * GPUS

    def look(self, names: Iterable[str] = ()) -> nvml.Seen:
        self._second += 1
        return nvml.Seen([self._gpu(index) for index in range(GPUS)])

    def _gpu(self, index: int) -> nvml.Gpu:
        near = self._near
        power = round(near.gauss(690, 6), 3)
        self._energy[index] += power
        values: dict[str, nvml.Value] = {
            **CALM, "uuid": f"GPU-{index}", "pci": DEVICES[index].pci, "power": power,
            "temperature": float(round(near.gauss(66 + index, 1.5))), "margin": float(round(near.gauss(20, 1.5))),
            "memory_temperature": float(round(near.gauss(80, 2))), "energy": round(self._energy[index], 3),
            "sm_clock": 1980.0 - 15 * abs(round(near.gauss(0, 4))), "capped": 0.9 * self._second,
        }  # fmt: skip
        return nvml.Gpu(index, values, {"fan": "Not Supported"})


def passes(folder: Path, seconds: int) -> int:
    """Everything that the sampler keeps of one step of this length; how many readings it took."""
    sampler, keeper, taken = Sampler(DEVICES, Loaded()), Keeper(folder, TELEMETRY.metrics), 0
    for second in range(seconds):
        now = 1.8e9 + second + random.Random(second).random() / 1000
        seen: list[Taken] = [Reading("samples", 1.0, subject="host"), Reading("gap", 1.0, subject="host")]
        seen += sampler.news(now)
        taken += len(seen)
        keeper.add([dataclasses.replace(one, at=now) if isinstance(one, Reading) else one for one in seen], now)
    keeper.close()
    return taken


def test_a_day_of_eight_gpus_is_less_than_five_mebibytes_compressed(tmp_path: Path) -> None:
    taken = passes(tmp_path, DAY)
    assert {f"telemetry.{name}" for name in (*sensors.GPU, "capped", "energy") if name != "fan"} <= {
        f"telemetry.{one.metric}" for one in evidence.sampled(tmp_path) if isinstance(one, Reading)
    }
    sizes = {path.name: len(gzip.compress(path.read_bytes())) / 2**20 for path in sorted(tmp_path.iterdir())}
    plain = sum(path.stat().st_size for path in tmp_path.iterdir()) / 2**20
    print(f"\na day of {GPUS} GPUs: {taken:,} readings taken, {plain:.1f} MiB kept, {sum(sizes.values()):.2f} MiB "
          f"compressed ({', '.join(f'{name} {size:.2f}' for name, size in sizes.items())}); wanted below "
          f"{MEBIBYTES:g} MiB")  # fmt: skip
    assert RAW in sizes and sum(sizes.values()) < MEBIBYTES
