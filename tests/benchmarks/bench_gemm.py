"""What gemm costs: its speed against a bare loop with as many processes and threads, and its detectors by format and
shape. Run by `make bench`. A ratio is the median over interleaved pairs, as in bench_speed.py.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from gpuburn import plan, planning
from gpuburn.agent import by_hand, detect, device as devices, products, spot

PAIRS = 15
RANKS = 2
SIZE = 768
SECONDS = 3.0
SHARE = 0.002  # of a process's memory: some ten buffers here
SHAPES = [("float32", 256), ("float32", 768), ("float16", 256), ("bfloat16", 256), ("fp8", 256)]
BARE = f"""
import time, torch
torch.set_num_threads(1)
g = torch.Generator().manual_seed({planning.SEED})
a, b = (torch.randn({SIZE}, {SIZE}, generator=g) for _ in range(2))
out = torch.empty_like(a)
for _ in range(5):
    torch.matmul(a, b, out=out)
rounds, start = 0, time.perf_counter()
while time.perf_counter() - start < {SECONDS}:
    for _ in range(10):
        torch.matmul(a, b, out=out)
    rounds += 10
print(rounds * 2 * {SIZE}**3 / (time.perf_counter() - start) / 1e12)
"""


def test_gemm_reads_what_a_bare_loop_reaches():
    """The probe under supervisor and sampler, with ring and detectors, against bare loops into one buffer, in turn."""
    ratios, duties, shares = [], [], []
    for _ in range(PAIRS):
        measured = _probe()
        ratios.append(measured["gemm.tflops"] / _bare())
        duties.append(measured["gemm.duty"])
        shares.append(measured["gemm.checked"])
    ratio = statistics.median(ratios)
    print(f"\ngemm.tflops over a bare torch.matmul loop: {ratio:.3f} (median of {PAIRS} pairs, {min(ratios):.3f} to "
          f"{max(ratios):.3f}); wanted at least 0.98; duty {statistics.median(duties):.3f}, "
          f"{statistics.median(shares):.1%} of the products compared")  # fmt: skip
    assert ratio >= 0.98


def _probe() -> dict[str, float]:
    params = {"size": SIZE, "dtype": "float32", "seconds": SECONDS, "share": SHARE}
    outcome = by_hand.carry_out_one("gemm", params, RANKS)
    names = {m.name for m in outcome.measurements if m.name.startswith("gemm.")}
    return {name: statistics.median(m.value for m in outcome.measurements if m.name == name) for name in names}


def _bare() -> float:
    env = {**os.environ, "OMP_NUM_THREADS": "1"}
    running = [
        subprocess.Popen([sys.executable, "-c", BARE], stdout=subprocess.PIPE, text=True, env=env) for _ in range(RANKS)
    ]
    return statistics.median(float(one.communicate(timeout=120)[0]) for one in running)


@pytest.mark.parametrize(("dtype", "size"), SHAPES, ids=str)
def test_what_the_detectors_cost(dtype: str, size: int, tmp_path: Path):
    """Printed per format and shape: comparing one buffer over making it, and what is done once a step."""
    torch.set_num_threads(1)
    cpu = devices.make(plan.Device("cpu0", "cpu"), 0, 1, tmp_path, planning.SEED)
    product = products.made(cpu, dtype, size)
    first, out = product.empty(), product.empty()
    product.multiply(first)
    product.multiply(out)
    made, compared = [], []
    for _ in range(PAIRS):
        made.append(cpu.timed(lambda: product.multiply(out)))
        compared.append(cpu.timed(lambda: detect.unequal(first, [out]).item()))
    once = {
        "checksum": _once(lambda: detect.checksum(first)),
        "not finite": _once(lambda: detect.not_finite(first)),
        "256 spots": _once(lambda: spot.off(product, first, 256, 1)),
    }
    ratio = statistics.median(compared) / statistics.median(made)
    told = ", ".join(f"{what} {seconds * 1e3:.2f} ms" for what, seconds in once.items())
    print(f"\n{dtype} {size}: product {statistics.median(made) * 1e3:.2f} ms, comparing it {ratio:.2%} of that; "
          f"comparing is allowed 2 % of the time; once a step: {told}")  # fmt: skip
    assert detect.unequal(first, [out]).item() == 0


def _once(work: object) -> float:
    assert callable(work)
    times = []
    for _ in range(PAIRS):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


@pytest.mark.parametrize("kind", [torch.bfloat16, torch.float16, torch.float32, torch.float64], ids=str)
def test_single_bit_flips_that_are_found(kind: torch.dtype):
    first = torch.randn(SIZE, SIZE, generator=torch.Generator().manual_seed(1)).to(kind)
    near = torch.Generator().manual_seed(2)
    width = 8 * first.element_size()
    harmed, found = first.clone(), 0
    raw = harmed.view(torch.uint8).flatten()
    for _ in range(1000):
        at = int(torch.randint(0, first.numel() * width, (1,), generator=near).item())
        raw[at // 8] ^= 1 << at % 8
        found += int(detect.unequal(first, [harmed]).item()) == 1
        raw[at // 8] ^= 1 << at % 8
    print(f"\n{kind}: {found} of 1000 single-bit flips found; wanted all")
    assert found == 1000
