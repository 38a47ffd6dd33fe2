"""Binding to a device's memory node, from a made /sys: what is taken, and what is said where nothing is."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuburn.agent import numa

PCI = "0000:18:00.0"


@pytest.fixture
def bound(monkeypatch: pytest.MonkeyPatch) -> list[set[int]]:
    """What the process was bound to; it may use CPUs 0 to 7."""
    calls: list[set[int]] = []
    monkeypatch.setattr(numa.os, "sched_getaffinity", lambda _: set(range(8)))
    monkeypatch.setattr(numa.os, "sched_setaffinity", lambda _, cpus: calls.append(set(cpus)))
    return calls


def root(folder: Path, node: str, listed: str = "4-5,7,40-41\n") -> Path:
    for name, text in {f"bus/pci/devices/{PCI}/numa_node": node, "devices/system/node/node1/cpulist": listed}.items():
        path = folder / "sys" / name
        path.parent.mkdir(parents=True)
        path.write_text(text)
    return folder


def test_a_process_is_bound_to_the_cpus_of_the_node_that_it_may_use(tmp_path, bound):
    assert numa.bind(PCI.upper(), root(tmp_path, "1\n")) == "node 1: 3 CPUs"
    assert bound == [{4, 5, 7}]


@pytest.mark.parametrize(
    ("pci", "node", "listed", "said"),
    [
        ("", "1\n", "0-3", "none: not a PCI device"),
        (PCI, "-1\n", "0-3", "none: the kernel knows of no memory node of the device"),
        (PCI, "1\n", "64-127\n", "unknown: no CPU of node 1 may be used by this process"),
        (PCI, "1\n", "\n", "unknown: no CPU of node 1 may be used by this process"),
        (PCI, "what\n", "0-3", "unknown: invalid literal"),
        (PCI, "1\n", "0-x", "unknown: invalid literal"),
        ("0000:99:00.0", "1\n", "0-3", "unknown: [Errno 2]"),
    ],
)
def test_where_it_is_not_bound_it_says_why(pci, node, listed, said, tmp_path, bound):
    assert numa.bind(pci, root(tmp_path, node, listed)).startswith(said)
    assert bound == []
