"""One test for every probe there is and will be: with its smoke parameters it keeps what it declares."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from gpuburn import percentile, plan
from gpuburn.evidence import amounts, declared
from gpuburn.measurement import PERCENTILE, UNTOLD, Metric, Observed, Point, Reading
from gpuburn.plan import HOST
from gpuburn.probe import Probe, Taken, discover
from tests.agent.training import three_ranks
from tests.agent.training.alone import device
from tests.agent.training.forked_ranks import ForkedHost

PROBES = discover()
KIND = "rehearsal"
RANKS = ("ranks", "group")


def on_ranks(device: object) -> Iterator[tuple[str, Iterator[Taken]]]:
    """Every probe of many ranks, one after the other in the same three processes."""
    for name, one in sorted(PROBES.items()):
        if one.scope in RANKS:
            yield name, one.run(device, **one.settled(one.smoke, "test"))


@pytest.fixture(scope="module")
def ranks(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[list[Taken]]]:
    return three_ranks.run(on_ranks, tmp_path_factory.mktemp("ranks"))


@pytest.fixture
def taken(request: pytest.FixtureRequest, tmp_path: Path):
    """What a probe yields, once per process that it runs in."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)

    def take(one: Probe) -> list[list[Taken]]:
        if one.scope in RANKS:
            return request.getfixturevalue("ranks")[one.name]
        (tmp_path / "scratch").mkdir()
        cpus = [plan.Device(f"cpu{index}", "cpu") for index in range(3)]
        host = ForkedHost("host", tmp_path / "scratch", cpus, 1, 1)
        return [list(one.run(host if one.scope == "host" else device(tmp_path), **one.settled(one.smoke, "test")))]

    yield take
    torch.set_num_threads(threads)


def promised(one: Probe) -> Iterator[tuple[str, Metric | Observed, Point]]:
    settled = one.settled(one.smoke, "test")
    for name, promise in one.promises.items():
        if KIND in promise.kinds:
            yield from ((name, promise, point) for point in one.points(promise, settled))


@pytest.mark.parametrize("name", sorted(PROBES))
def test_a_probe_yields_what_it_declares_at_every_point_and_nothing_else(name, taken):
    one = PROBES[name]
    for number, said in enumerate(taken(one)):
        own = ["", HOST, *plan.pairs(f"cpu{rank}" for rank in range(3))]
        assert declared(said, [one], own) == said, "all of it is declared, and about the process's own subject"
        readings = [entry for entry in said if isinstance(entry, Reading)]
        assert all(math.isfinite(reading.value) for reading in readings)
        measurements, facts, work = amounts(said, [one])
        seen = {(entry.name, entry.point) for entry in (*measurements, *facts)}
        # What many ranks know of their host one of them tells.
        mine = [one for one in promised(one) if number == 0 or one[1].per != "host"]
        wanted = {(f"{name}.{metric}", point) for metric, _, point in mine}
        everywhere = {(f"{name}.{p}", at) for p in one.promises for at in one.points(one.promises[p], one.smoke)}
        assert seen <= everywhere, "an undeclared point"
        told = {fact.name for fact in facts if fact.value.startswith(UNTOLD)}
        excused = {f"{name}.{key}" for key, metric in one.metrics.items() if f"{name}.{metric.unless}" in told}
        missing = {(metric, point) for metric, point in wanted - seen if metric not in excused}
        assert {metric for metric, _ in missing} <= {f"{name}.{metric}" for metric in unprovable(one, readings)}
        assert {counter for counter in one.work if getattr(work[""], counter) > 0} == set(one.work)


def unprovable(one: Probe, readings: list[Reading]) -> Iterator[str]:
    """Percentiles that were measured, but fewer times than they need."""
    for name, metric in one.metrics.items():
        match = PERCENTILE.fullmatch(metric.reduce)
        count = sum(reading.metric == name for reading in readings)
        if match and count > 0 and min_count(readings, name) < percentile.floor(float(f"0.{match[1]}{match[2]}")):
            yield name


def min_count(readings: list[Reading], name: str) -> int:
    points = [reading.point for reading in readings if reading.metric == name]
    return min(points.count(point) for point in set(points))
