"""Findings that accuse a GPU itself: at the first of them what the vendor will ask for is kept. Pure.

What a person or a site set (a mode, a foreign process, a power limit) accuses no board, nor does what was not measured.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from gpuburn.finding import Finding, Verdict
from gpuburn.plan import Device

# What a board counts or says against itself, by telemetry beside a step or by gpu_health before and after the work.
SENSED = (
    "lost", "uncorrected", "remapped", "link_errors", "link_crc", "hw_slowdown", "hw_thermal", "power_brake",
    "pcie_width", "pcie_gen", "pcie_dropped", "memory_peak",
)  # fmt: skip
TOLD = (
    "ecc_uncorrected", "ecc_uncorrected_total", "sram_exceeded", "remapped_uncorrected", "remap_pending",
    "remap_failure", "retired_double", "retire_pending", "nvlink_links", "memory_total", "inforom_state", "recovery",
)  # fmt: skip
ABOUT = {*(f"telemetry.{name}" for name in SENSED), *(f"gpu_health.{name}" for name in TOLD)}


def accused(findings: Iterable[Finding], devices: Iterable[Device]) -> Iterator[str]:
    """Each failure of a GPU, in words: which quantity of which GPU in which step, and how it was seen."""
    gpus = {one.name for one in devices if one.gpu}
    for one in findings:
        if one.verdict is Verdict.FAIL and one.subject in gpus and one.about in ABOUT:
            yield f"{one.about} of {one.subject} in step {one.step}: {one.why}"
