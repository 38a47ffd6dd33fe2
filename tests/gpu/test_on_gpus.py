"""On a machine with NVIDIA GPUs: every probe at its small size on every GPU there is, by hand and as a plan."""

from __future__ import annotations

import shutil

import pytest

from gpuburn.agent import by_hand, nvml
from gpuburn.outcome import Status
from gpuburn.probe import discover

pytestmark = pytest.mark.gpu
GPUS = len(nvml.look().gpus) if shutil.which("nvidia-smi") else 0


@pytest.fixture(autouse=True)
def needs_gpus():
    if not GPUS:
        pytest.skip("no NVIDIA GPU on this machine")


@pytest.mark.parametrize("name", sorted(discover()))
def test_a_probe_completes_on_every_gpu_with_proof_of_work(name):
    outcome = by_hand.carry_out_one(name, discover()[name].smoke, 0)
    assert outcome.status is Status.COMPLETED, outcome.why
    for one in outcome.subjects:
        assert all(getattr(one.work, counter) > 0 for counter in discover()[name].work), one


def test_bfloat16_products_have_the_same_bits_on_every_gpu():
    outcome = by_hand.carry_out_one("gemm", {"size": 8192, "dtype": "bfloat16", "seconds": 5.0}, 0)
    assert len({fact.value for fact in outcome.facts if fact.name == "gemm.checksum"}) == 1
    assert all(m.value == 0 for m in outcome.measurements if m.name == "gemm.wrong")


def test_the_sampler_reads_every_gpu_while_it_works():
    outcome = by_hand.carry_out_one("gemm", {"size": 8192, "dtype": "bfloat16", "seconds": 5.0}, 0)
    seen = {(m.name, m.subject) for m in outcome.measurements}
    for index in range(GPUS):
        assert {(f"telemetry.{name}", f"gpu{index}") for name in ("temperature", "power", "sm_clock")} <= seen
