"""Eight simulated GPUs over SSH: healthy ones pass a trial; one that falls off the bus is named, when and where."""

from __future__ import annotations

from pathlib import Path

import pytest

from . import accepting
from .accepting import start
from .host import Host
from .lab import Lab, Layer
from .simulated import Simulated
from .test_accept import agent  # noqa: F401  (a fixture)
from .waiting import until

EIGHT = {
    "gpuburn_kind": "simulated", "gpuburn_sku": "h200-sxm", "gpuburn_gpu_count": 8,
    "gpuburn_steps": ["idle", "identity", "gpu_health", "gemm", "gpu_health_after"],
}  # fmt: skip
OFF = "3 * !15"  # NVML: "GPU is lost"


@pytest.fixture
def two(lab: Lab, agent: Layer, tmp_path: Path):  # noqa: F811
    made = [Simulated(lab, name, agent, tmp_path) for name in ("whole", "losing")]
    lab.boot(*(one.host for one in made))
    for one in made:
        one.plug()
    yield made
    lab.remove(*(one.host for one in made))


def test_one_of_eight_gpus_falls_off_the_bus(lab: Lab, two: list[Simulated], tmp_path: Path):
    whole, losing = two
    run = start(lab, [whole.host, losing.host], tmp_path / "reports", EIGHT)
    until(lambda: _seen(losing.host), "the sampler to see the GPU at work", timeout=300)
    losing.say(OFF, "3 xid 79")
    output, _ = run.communicate(timeout=900)
    ran = accepting.Ran(run.returncode, output, tmp_path / "reports")
    assert ran.decisions() == {"whole": "trial passed", "losing": "trial failed"}, output[-4000:]
    assert ran.host("whole")["kind"] == "simulated", "labelled, and never accepted"
    failed = [one for one in ran.host("losing")["findings"] if one["verdict"] == "fail"]
    assert {one["subject"] for one in failed if one["subject"].startswith("gpu")} == {"gpu3"}
    assert any(one["about"] == "telemetry.lost" and one["step"] == "gemm" for one in failed)
    assert any("79" in one["why"] and one["step"] == "gemm" and one["subject"] == "gpu3" for one in failed)
    pages = ran.folder / "hosts" / "losing" / "index.html"
    assert "1655023015628" in pages.read_text(), "the serial of the card"
    worked = {one["subject"] for one in ran.host("losing")["findings"]
              if one["step"] == "gemm" and one["code"] == "step.worked"}  # fmt: skip
    assert worked >= {f"gpu{number}" for number in range(8) if number != 3}, "the others finish"


def _seen(host: Host) -> bool:
    """Whether the sampler has read gpu3 during step gemm."""
    found = host.ssh("sh", "-c", "grep -l gpu3 /var/lib/gpuburn/2*/steps/gemm/telemetry.jsonl", check=False)
    return found.returncode == 0
