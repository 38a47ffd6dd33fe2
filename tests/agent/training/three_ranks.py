"""Three ranks that run something of a test and leave what it yielded: with two, no order of sums could be wrong."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

import torch.multiprocessing as processes

from gpuburn import evidence
from gpuburn.agent.device import Device
from gpuburn.probe import Taken
from tests.agent.training.alone import device, group
from tests.agent.training.forked_ranks import SERVER

WORLD = 3
Cases = Callable[[Device], Iterable[tuple[str, Iterable[Taken]]]]


def run(cases: Cases, folder: Path) -> dict[str, list[list[Taken]]]:
    """Per case, what each rank yielded. cases is a function of a test module: the ranks import it by name."""
    # from the server that has imported torch already
    processes.start_processes(_rank, (cases, folder), WORLD, start_method=SERVER.get_start_method())
    names = sorted({path.name.partition(".")[0] for path in folder.glob("*.*.jsonl")})
    return {
        name: [evidence.parse((folder / f"{name}.{rank}.jsonl").read_bytes(), name) for rank in range(WORLD)]
        for name in names
    }


def _rank(rank: int, cases: Cases, folder: Path) -> None:
    with group(folder, rank, WORLD):
        for name, taken in cases(device(folder, rank, WORLD)):
            (folder / f"{name}.{rank}.jsonl").write_bytes(b"".join(map(evidence.dump, taken)))
