"""Copies that lose, change or mix up what they carry: each is counted, and only in its own direction."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pytest
import runs
import torch

from gpuburn import evidence
from gpuburn.agent.probes import copies
from gpuburn.measurement import Point, Reading
from gpuburn.probe import Taken, discover
from tests.agent.training.alone import device

PROBE = discover()["copies"]
WORDS = 2**20 // 8
ALONE, TOGETHER = (Point.of(mib=1, way=way) for way in copies.WAYS)
Copy = Callable[[copies.Route, torch.Tensor, torch.Tensor], bool]


def run(tmp_path: Path, **params: object) -> list[Taken]:
    return list(PROBE.run(device(tmp_path), **PROBE.settled({**PROBE.smoke, **params}, "test")))


def wrong(taken: list[Taken], point: Point) -> list[int]:
    """Of host to device, device to host, and both."""
    return [int(one.value) for one in taken if isinstance(one, Reading) and (one.metric, one.point) == ("wrong", point)]


@pytest.fixture
def spoil(monkeypatch: pytest.MonkeyPatch) -> Callable[[Copy], None]:
    """Give every copy of the route to a function that says whether it has done it itself."""
    routes: list[copies.Route] = []
    of, honest = copies.Route.of, torch.Tensor.copy_

    def with_harm(harm: Copy) -> None:
        def copy_(into: torch.Tensor, given: torch.Tensor, *more: object) -> torch.Tensor:
            return into if routes and harm(routes[0], into, given) else honest(into, given, *more)

        monkeypatch.setattr(torch.Tensor, "copy_", copy_)

    monkeypatch.setattr(copies.Route, "of", lambda *given: routes.append(of(*given)) or routes[0])
    return with_harm


def flipped(into: torch.Tensor, given: torch.Tensor) -> bool:
    into[:] = given
    into[7] ^= 1 << 62
    return True


def test_sound_copies_are_without_finding_at_every_point(tmp_path):
    taken = run(tmp_path, sizes_mib=[1, 2])
    for mib in (1, 2):
        for way in copies.WAYS:
            assert wrong(taken, Point.of(mib=mib, way=way)) == [0, 0, 0]
    said = [one.value for one in taken if getattr(one, "name", "") == "node"]
    assert said == ["none: not a PCI device"]


def test_a_bit_that_flips_on_its_way_to_the_device_is_counted(tmp_path, spoil):
    spoil(lambda route, into, given: into is route.there and flipped(into, given))
    # It came wrong and is sent back so: the way back and both bring words that the host never sent.
    assert wrong(run(tmp_path), ALONE) == [1, 1, 1]


def test_a_bit_that_flips_on_its_way_to_the_host_is_counted(tmp_path, spoil):
    spoil(lambda route, into, given: into is route.back and given is route.there and flipped(into, given))
    assert wrong(run(tmp_path), TOGETHER) == [1, 1, 1]


def test_what_fails_only_when_both_directions_are_busy_is_counted_there_alone(tmp_path, spoil):
    spoil(lambda route, into, given: into is route.other and flipped(into, given))
    assert wrong(run(tmp_path), ALONE) == [0, 0, 1]


@pytest.mark.parametrize(("place", "found"), [("there", 3), ("back", 3), ("other", 1)])
def test_a_copy_that_does_nothing_does_not_pass_for_the_one_before(place, found, tmp_path, spoil):
    """Stale data of an earlier copy would look right."""
    taken: list[Taken] = []
    spoil(lambda route, into, given: into is getattr(route, place) and len(taken) >= 10)
    for one in PROBE.run(device(tmp_path), **PROBE.settled({**PROBE.smoke, "ways": ["alone", "alone"]}, "test")):
        taken.append(one)
    # Node and three blocks of three went well; of the second time all that use the lost copy are wrong.
    counts = wrong(taken, ALONE)
    assert counts[:3] == [0, 0, 0] and sum(one > WORDS // 2 for one in counts[3:]) == found


def test_every_device_sends_words_of_its_own(tmp_path):
    first, second = (copies.Route.of(device(tmp_path, rank, 2), 64).sent for rank in range(2))
    assert not bool((first == second).any())


def test_devices_take_turns_and_then_begin_together(tmp_path):
    """Two devices in two threads: nobody copies alone before the one ahead is done."""
    order: list[tuple[int, str, str]] = []

    def work(rank: int) -> None:
        params = PROBE.settled(PROBE.smoke, "test")
        for one in PROBE.run(device(tmp_path, rank, 2), **params):
            if isinstance(one, Reading) and one.metric != "wrong":
                order.append((rank, one.metric, str(one.point.as_data()["way"])))

    threads = [threading.Thread(target=work, args=(rank,)) for rank in (1, 0)]
    for one in threads:
        one.start()
    for one in threads:
        one.join(60)
    alone = [rank for rank, _, way in order if way == "alone"]
    assert alone == [0, 0, 0, 1, 1, 1] and [way for *_, way in order[:6]] == ["alone"] * 6 and len(order) == 12


@pytest.mark.parametrize(("share", "code"), [(0.9, []), (0.72, []), (0.6, ["limit.failed"])])
@pytest.mark.parametrize("metric", ["h2d", "d2h"])
def test_a_link_that_carries_less_than_its_lanes_fails_where_it_copies_alone(metric, share, code):
    plan = runs.plan(runs.hardware(count=2), ("copies",))
    taken = runs.answers(plan)
    changed = []
    for one in taken["copies"]:
        if isinstance(one, Reading) and one.metric == "pcie_peak":
            one = Reading("pcie_peak", 63.008, one.point, one.subject, one.at)
        elif isinstance(one, Reading) and one.metric in ("h2d", "d2h"):
            low = one.metric == metric and one.subject == "gpu1" and "alone" in str(one.point)
            one = Reading(one.metric, 63.008 * (share if low else 0.85), one.point, one.subject, one.at)
        changed.append(one)
    found = runs.bad(runs.judged(plan, runs.outcomes(plan, {"copies": changed})))
    assert [(name, who) for name, _, who, _ in found] == [(name, "gpu1") for name in code]


def test_devices_that_share_an_uplink_are_not_accused_when_all_copy_at_once():
    plan = runs.plan(runs.hardware(count=2), ("copies",))
    limits = [one for one in plan.limits if one.about == "copies.h2d" and TOGETHER.items[1] in one.when.point.items]
    assert limits and not any(one.can_reject for one in limits) and all(one.uncalibrated for one in limits)


def test_evidence_of_copies_is_of_the_device(tmp_path):
    assert evidence.declared(run(tmp_path), [PROBE], [""])
