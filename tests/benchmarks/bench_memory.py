"""The triad of memory_bandwidth against STREAM's in C, with as many processes and threads. Run by `make bench`.

A ratio is the median over interleaved pairs: identical pairs vary by about a tenth on a small machine.
"""

from __future__ import annotations

import shutil
import statistics
import subprocess
import time
from pathlib import Path

import pytest

from gpuburn.agent import by_hand
from gpuburn.measurement import Measurement

PAIRS = 15
RANKS = 2
MIB = 64
SECONDS = 2.0
# STREAM's triad (J. D. McCalpin, stream.c) in single precision, timed over as many rounds as fill the time.
STREAM = f"""
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#define N ({MIB}L * 1024 * 1024 / 4)
static double now(void) {{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + 1e-9 * t.tv_nsec;
}}
int main(void) {{
    float *a = aligned_alloc(64, N * 4), *b = aligned_alloc(64, N * 4), *c = aligned_alloc(64, N * 4);
    for (long i = 0; i < N; i++) {{ a[i] = 0; b[i] = i % 1024; c[i] = (N - i) % 1024; }}
    volatile float scalar = 3;
    float s = scalar;
    long rounds = 0;
    double start = now();
    while (now() - start < {SECONDS}) {{
        for (long i = 0; i < N; i++) a[i] = b[i] + s * c[i];
        rounds++;
    }}
    double seconds = now() - start;
    for (long i = 0; i < N; i += 4099) if (a[i] != b[i] + 3 * c[i]) return 1;
    printf("%.9f\\n", rounds * 3.0 * N * 4 / seconds / 1e9);
    return 0;
}}
"""


@pytest.mark.skipif(not shutil.which("cc"), reason="no C compiler")
def test_triad_reads_what_a_stream_in_c_reaches(tmp_path: Path) -> None:
    """The probe under supervisor and sampler, against as many C programs at -O3 with one thread each, in turn."""
    (tmp_path / "stream.c").write_text(STREAM)
    program = tmp_path / "stream"
    subprocess.run(["cc", "-O3", "-march=native", "-o", program, tmp_path / "stream.c"], check=True)
    ratios, values = [], []
    for _ in range(PAIRS):
        probe, stream = _probe(), _stream(program)
        ratios.append(probe / stream)
        values.append((probe, stream))
    ratio = statistics.median(ratios)
    probe, stream = (statistics.median(column) for column in zip(*values))
    print(f"\nmemory_bandwidth.triad over STREAM's in C at -O3: {ratio:.3f} (median of {PAIRS} pairs, "
          f"{min(ratios):.3f} to {max(ratios):.3f}; "
          f"{probe:.2f} and {stream:.2f} GB/s a process); wanted at least 0.95")  # fmt: skip
    assert ratio >= 0.95


def _probe() -> float:
    outcome = by_hand.carry_out_one("memory_bandwidth", {"mib": MIB, "seconds": 2 * SECONDS}, RANKS)
    return statistics.median(one.value for one in outcome.measurements if one.name == "memory_bandwidth.triad")


def _stream(program: Path) -> float:
    running = [subprocess.Popen([program], stdout=subprocess.PIPE, text=True) for _ in range(RANKS)]
    return statistics.median(float(one.communicate(timeout=60)[0]) for one in running)


def test_the_cost_of_a_pattern_sweep_is_known() -> None:
    """Seconds a GiB that the pattern test takes, printed for the profile's durations; nothing is demanded."""
    start = time.monotonic()
    outcome = by_hand.carry_out_one("memory_pattern", {"budget_mib": 256, "chunk_mib": 32, "words": 2, "wait": 0.0}, 1)
    checked = sum(one.work.bytes for one in outcome.subjects)
    print(f"\nmemory_pattern: {(time.monotonic() - start) / (checked / 2**30):.2f} s a GiB checked, start included")
    assert _worst(outcome.measurements) == 0 and checked > 0


def _worst(measured: list[Measurement]) -> float:
    return max(one.value for one in measured if one.name == "memory_pattern.wrong")
