"""What the sampler promises beside every step: declared like a probe, so that limits can demand it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

from gpuburn.measurement import Metric, Observed, Part
from gpuburn.probe import Probe, Taken

GPU = ("hardware", "simulated")


def _sampled(host: Any) -> Iterator[Taken]:
    """Never called: the sampler runs in a process of its own beside the step (agent/telemetry.py)."""
    yield from ()


HOST = {
    "samples": Metric("count", "sum", "passes of the sampler over all sensors", per="host"),
    "gap": Metric("s", "max", "longest time between two passes; a blind sampler must not look calm", per="host"),
    "load": Metric("1", "max", "one-minute load average", per="host"),
    "memory_available": Metric("GiB", "min", "host memory that could still be had", per="host"),
    "silent": Metric("count", "sum", "passes in which NVML as a whole did not answer", per="host", kinds=GPU),
}


def _of_gpu(
    unit: str, reduce: str, doc: str, absent: str = "", part: Part = "", better: Literal["", "higher", "lower"] = ""
) -> Metric:
    return Metric(unit, reduce, doc, per="device", kinds=GPU, better=better, absent=absent, part=part)


LINK = "what the PCIe link could carry one way: its highest generation's rate a lane, less the encoding, x its lanes"
PEAK = "what the memory could carry: 2 x maximum memory clock x bus width / 8 (NVML)"
NO_ECC, NO_LINK = "boards without ECC, or with ECC off", "boards without NVLink"
OLD = "some boards and drivers do not tell it"
# Why the sampler cannot tell whose a process on a GPU is; what a declared container may say, and no bare metal.
CONTAINED = "this /proc is a container's own and does not show the host's processes"
PULSES = "looked at while a load comes and goes faster than once a second, on boards that tell it"
HIDDEN = "superchips are not on PCIe, and virtual machines hide the link"
STATE = {
    "temperature": _of_gpu("C", "max", "GPU core (nvmlDeviceGetTemperature)"),
    "power": _of_gpu("W", "median", "board power (nvmlDeviceGetPowerUsage)"),
    "power_low": _of_gpu("W", "min", "least momentary power, seen 20 times a second (NVML field 186)", PULSES),
    "power_peak": _of_gpu("W", "max", "most momentary power, seen 20 times a second (NVML field 186)", PULSES),
    "power_looks": _of_gpu("count", "sum", "how often the momentary power was told", PULSES),
    "power_limit": _of_gpu("W", "min", "power limit in force (nvmlDeviceGetEnforcedPowerLimit)"),
    "power_limit_high": _of_gpu("W", "max", "the highest that it was while the step ran"),
    "power_limit_default": _of_gpu("W", "last", "power limit as the vendor sets it", OLD),
    "memory_peak": _of_gpu("GB/s", "last", PEAK),
    "sm_clock": _of_gpu("MHz", "min", "SM clock (nvmlDeviceGetClockInfo)", better="higher"),
    "pcie_gen": _of_gpu("count", "max", "highest generation of its PCIe link; at rest it falls back", HIDDEN, "pcie"),
    "pcie_gen_max": _of_gpu("count", "last", "generation that GPU and slot can hold together", HIDDEN, "pcie"),
    "pcie_width": _of_gpu("count", "min", "fewest lanes of its PCIe link", HIDDEN, "pcie"),
    "pcie_width_max": _of_gpu("count", "last", "lanes that GPU and slot can hold together", HIDDEN, "pcie"),
    "pcie_peak": _of_gpu("GB/s", "last", LINK, HIDDEN, "pcie"),
    "memory_temperature": _of_gpu("C", "max", "memory (NVML field 82)", "boards with GDDR do not tell it", "hbm"),
    "slowdown_at": _of_gpu("C", "last", "GPU temperature at which it slows down, by its own word", OLD),
    "memory_max_at": _of_gpu("C", "last", "highest memory temperature at full speed, by its own word", OLD),
    "margin": _of_gpu("C", "min", "distance to the slowdown temperature", "GPUs before Hopper do not tell it"),
    "fan": _of_gpu("%", "max", "fastest fan", "boards without fans of their own"),
    "thermal_resistance": Metric(
        "C/W", "median", "degrees over the step's coolest reading per watt more, under load", per="device",
        kinds=("hardware",), better="lower",
    ),
    "foreign": _of_gpu("count", "max", "processes on the GPU that are not of this run"),
    "lost": _of_gpu("count", "sum", "passes in which the GPU was silent, after it had answered"),
}  # fmt: skip
ADDED = {
    "corrected": _of_gpu("count", "sum", "memory errors corrected by ECC while the step ran", NO_ECC, "ecc"),
    "uncorrected": _of_gpu(
        "count", "sum", "memory errors that ECC could not correct, while the step ran", NO_ECC, "ecc"
    ),
    "remapped": _of_gpu(
        "count", "sum", "memory rows remapped while the step ran", "GPUs before Ampere, and GDDR", "rows"
    ),
    "replays": _of_gpu("count", "sum", "PCIe packets sent again while the step ran", OLD),
    "link_errors": _of_gpu("count", "sum", "NVLink replays and recoveries while the step ran", NO_LINK, "nvlink"),
    "link_crc": _of_gpu("count", "max", "most NVLink checksum errors in a second", NO_LINK, "nvlink_crc"),
    "pcie_dropped": _of_gpu(
        "s", "sum", "under load with the PCIe link below the highest generation seen in the step", HIDDEN, "pcie"
    ),
    "capped": _of_gpu("s", "sum", "clocks held by the power limit", OLD),
    "hw_slowdown": _of_gpu("s", "sum", "clocks held by the hardware, neither for heat nor for the power supply", OLD),
    "sync_boost": _of_gpu("s", "sum", "clocks held to those of another GPU", OLD),
    "sw_thermal": _of_gpu("s", "sum", "clocks held by the driver for heat", OLD),
    "hw_thermal": _of_gpu("s", "sum", "clocks held by the hardware for heat", OLD),
    "power_brake": _of_gpu("s", "sum", "clocks held by the power supply's brake signal", OLD),
    "energy": _of_gpu("J", "sum", "energy drawn (nvmlDeviceGetTotalEnergyConsumption)", "GPUs before Volta"),
}
TELEMETRY = Probe(
    name="telemetry",
    doc="Sensors of the host and its GPUs, read once a second while a step runs.",
    scope="host",
    revision=5,
    work=(),
    needs=(),
    smoke={},
    run=_sampled,
    metrics={**HOST, **STATE, **ADDED},
    facts={
        "throttle_source": Observed(
            "which seconds of held clocks NVML counts, and which are seen once a second", per="device", kinds=GPU
        ),
        "unread": Observed(
            "which sensors and counters the GPU does not tell, and why", per="device", kinds=GPU, explains=True
        ),
    },
)
