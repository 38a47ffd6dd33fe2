"""The raw stream of checkpoint against fio with the same block size, queue and fsync. Run by `make bench`.

A ratio is the median over interleaved pairs: disks of virtual machines swing by a third and more from one to the next.
"""

from __future__ import annotations

import json
import shutil
import statistics
import subprocess
from pathlib import Path

import pytest

from gpuburn.agent import by_hand

PAIRS = 9
MIB = 256
WITHIN = 0.10
# One job as one rank: blocks of 16 MiB one after the other, through the page cache, and one fsync when all are written;
# before reading, the file is turned out of the cache.
FIO = ["fio", "--name=stream", "--bs=16M", f"--size={MIB}M", "--ioengine=psync", "--iodepth=1", "--numjobs=1",
       "--output-format=json", "--fallocate=none", "--refill_buffers=1"]  # fmt: skip


@pytest.mark.skipif(
    not shutil.which("fio"), reason="fio is not installed (apt-get install fio): nothing to compare with"
)
def test_the_raw_stream_reads_what_fio_reaches(tmp_path: Path) -> None:
    taken: dict[str, list[tuple[float, float]]] = {"write": [], "read": []}
    for _ in range(PAIRS):
        ours, theirs = _probe(tmp_path), _fio(tmp_path)
        for way, pairs in taken.items():
            pairs.append((ours[way], theirs[way]))
    print()
    found = {way: _told(way, pairs) for way, pairs in taken.items()}
    assert all(1 - WITHIN <= ratio <= 1 + WITHIN for ratio in found.values()), found


def _told(way: str, pairs: list[tuple[float, float]]) -> float:
    ratios = [ours / theirs for ours, theirs in pairs]
    ours, theirs = (statistics.median(column) for column in zip(*pairs))
    ratio = statistics.median(ratios)
    print(f"checkpoint.{way} over fio's: {ratio:.3f} (median of {len(pairs)} pairs, {min(ratios):.3f} to "
          f"{max(ratios):.3f}; {ours:.2f} and {theirs:.2f} GB/s); wanted within {WITHIN:.0%}")  # fmt: skip
    return ratio


def _probe(folder: Path) -> dict[str, float]:
    outcome = by_hand.carry_out_one("checkpoint", {"mib": MIB, "rounds": 1, "directory": str(folder)}, 1)
    values = {one.name.partition(".")[2]: one.value for one in outcome.measurements if one.name.startswith("check")}
    assert values["wrong"] == 0, "what was read is not what was written"
    return values


def _fio(folder: Path) -> dict[str, float]:
    """GB/s of writing with its fsync, and of reading the same file again."""
    path = folder / "fio.bin"
    found = {}
    for way, more in (("write", ["--end_fsync=1"]), ("read", ["--invalidate=1"])):
        command = [*FIO, f"--filename={path}", f"--rw={way}", *more]
        done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=300)
        [job] = json.loads(done.stdout)["jobs"]
        found[way] = MIB * 2**20 / (job["job_runtime"] / 1e3) / 1e9
    path.unlink()
    return found


@pytest.mark.parametrize("probe, ways", [
    ("distributed_checkpoint", {"write": "write", "read": "read"}), ("dataset", {"sequential": "read"}),
])  # fmt: skip
def test_what_a_training_job_gets_of_the_raw_stream(tmp_path: Path, probe: str, ways: dict[str, str]) -> None:
    """Printed, and judged by nobody: serialisation and small files cost what they cost."""
    small = {"distributed_checkpoint": {"mib": MIB, "rounds": 1}, "dataset": {"mib": MIB}}[probe]
    ratios: dict[str, list[float]] = {way: [] for way in ways}
    for _ in range(PAIRS):
        raw, outcome = _probe(tmp_path), by_hand.carry_out_one(probe, {**small, "directory": str(tmp_path)}, 1)
        found = {one.name.partition(".")[2]: one.value for one in outcome.measurements if one.name.startswith(probe)}
        assert found["wrong"] == 0, "what was read is not what was written"
        for way, raws in ways.items():
            ratios[way].append(found[way] / raw[raws])
    for way, taken in ratios.items():
        print(f"\n{probe}.{way} over checkpoint.{ways[way]}: {statistics.median(taken):.3f} "
              f"({min(taken):.3f} to {max(taken):.3f}, {PAIRS} pairs)")  # fmt: skip
