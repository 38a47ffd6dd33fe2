"""Three ranks send to each other in pairs: a changed bit, a lost message, a slow direction, no peer access."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from unittest import mock

import pytest
import runs
import torch
import torch.distributed as dist

from gpuburn import plan as plans
from gpuburn.agent.device import Cpu, Device
from gpuburn.agent.probes import pairs
from gpuburn.evidence import amounts
from gpuburn.measurement import Fact, Point, Reading
from gpuburn.plan import Plan
from gpuburn.probe import Taken, discover
from tests.agent.training import three_ranks

PROBE = discover()["pairs"]
PARAMS = PROBE.settled({**PROBE.smoke, "sizes_mib": [1, 2]}, "test")
ALL = plans.pairs(["cpu0", "cpu1", "cpu2"])
Harm = Callable[[torch.Tensor], None]


def flip(into: torch.Tensor) -> None:
    into[7] ^= 1 << 50


def lose(into: torch.Tensor) -> None:
    """The message counts as received, and nothing was written."""
    into.zero_()


def received(harm: Harm, source: int, target: int) -> Callable[[bool, torch.Tensor, int], None]:
    """What arrives from one rank at one other is harmed; small messages are not."""
    honest = pairs.transfer

    def transfer(send: bool, tensor: torch.Tensor, other: int) -> None:
        honest(send, tensor, other)
        if not send and len(tensor) > 1 and (other, dist.get_rank()) == (source, target):
            harm(tensor)

    return transfer


def slow(self: Cpu, work: Callable[[], object], rounds: int = 1, honest: object = Cpu.timed) -> float:
    """Each message takes a second, and what goes from 2 to 0 a hundred, whatever the machine's own pace is."""
    elapsed: float = honest(self, work, rounds)  # type: ignore[operator]
    lane = getattr(getattr(work, "func", None), "__self__", None)
    if not isinstance(lane, pairs.Lane):
        return elapsed
    return rounds * (100.0 if (lane.source, lane.target) == (2, 0) else 1.0)


def apart(self: Cpu, place: int) -> bool:
    """0 and 2 have no direct way to each other."""
    return {self.rank, place} != {0, 2}


FAULTS = {
    "sound": [],
    "flip": [mock.patch.object(pairs, "transfer", received(flip, 0, 2))],
    "lost": [mock.patch.object(pairs, "transfer", received(lose, 1, 0))],
    "slow": [mock.patch.object(Cpu, "timed", slow)],
    "apart": [mock.patch.object(Cpu, "reaches", apart)],
}


def cases(device: Device) -> Iterator[tuple[str, Iterator[Taken]]]:
    for name, patches in FAULTS.items():
        with ExitStack() as stack:
            for one in patches:
                stack.enter_context(one)
            yield name, map(partial(named, device), PROBE.run(device, **PARAMS))


def named(device: Device, one: Taken) -> Taken:
    """As the worker stamps it."""
    return dataclasses.replace(one, subject=one.subject or device.name)


@pytest.fixture(scope="module")
def taken(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Taken]]:
    by_rank = three_ranks.run(cases, tmp_path_factory.mktemp("pairs"))
    return {name: [one for rank in ranks for one in rank] for name, ranks in by_rank.items()}


def numbers(taken: list[Taken], metric: str) -> dict[tuple[str, str], float]:
    measured, _, _ = amounts(taken, [PROBE])
    return {(one.subject, str(one.point)): one.value for one in measured if one.name == f"pairs.{metric}"}


@functools.cache
def planned(kind: str) -> Plan:
    of = runs.plan((runs.request if kind == "rehearsal" else runs.hardware)(count=3), ("pairs",))
    return dataclasses.replace(of, steps=[dataclasses.replace(of.steps[0], params=PARAMS)])


def bad(taken: list[Taken], kind: str = "rehearsal") -> set[tuple[str, str, str]]:
    """(code, about, subject) of what keeps the plan's host from passing, by the shipped limits."""
    of = planned(kind)
    [step] = of.steps
    beside = [one for one in runs.answers(of)[step.name] if getattr(one, "metric", "") not in PROBE.promises]
    beside = [one for one in beside if isinstance(one, (Reading, Fact)) and getattr(one, "name", "") not in PROBE.facts]
    mine = [dataclasses.replace(one, subject=one.subject.replace("cpu", of.devices[0].name[:3])) for one in taken]
    found = runs.judged(of, {step.name: runs.outcome(of, step, [*mine, *beside])})
    return {(f.code, f.about, f.subject) for f in found if str(f.verdict) in ("fail", "incomplete")}


def test_every_ordered_pair_is_measured_and_a_sound_host_is_without_finding(taken):
    sound = taken["sound"]
    at = {(pair, f"mib={mib}") for pair in ALL for mib in (1, 2)}
    for metric in ("bandwidth", "wrong", "asymmetry"):
        assert set(numbers(sound, metric)) == at
    assert set(numbers(sound, "latency")) == {(pair, "") for pair in ALL}
    assert set(numbers(sound, "wrong").values()) == {0} and min(numbers(sound, "latency").values()) > 0
    assert {one.value for one in sound if isinstance(one, Fact)} == {"between processes of the host"}
    assert bad(sound) == set()


@pytest.mark.parametrize(
    ("case", "pair", "count"), [("flip", "cpu0>cpu2", [3, 3]), ("lost", "cpu1>cpu0", [3 * 2**17, 3 * 2**18])]
)
def test_words_that_arrive_wrong_are_counted_on_their_pair_and_direction(case, pair, count, taken):
    found = numbers(taken[case], "wrong")
    assert [found.pop((pair, f"mib={mib}")) for mib in (1, 2)] == count
    assert set(found.values()) == {0}
    assert bad(taken[case]) == {("limit.failed", "pairs.wrong", pair)}


def test_a_direction_that_is_slower_than_its_opposite_shows_on_both(taken):
    found = numbers(taken["slow"], "asymmetry")
    odd = {pair for (pair, _), value in found.items() if value > 0.9}
    assert odd == {"cpu2>cpu0", "cpu0>cpu2"}
    # On hardware a limit judges it; the facts and peers of the made GPUs are not this test's matter.
    failed = {(about, who) for code, about, who in bad(taken["slow"], "hardware") if code == "limit.failed"}
    assert {("pairs.asymmetry", "gpu2>gpu0"), ("pairs.asymmetry", "gpu0>gpu2")} <= failed


def test_a_pair_that_cannot_access_each_other_is_compared_and_its_speed_not_demanded(taken):
    apart = taken["apart"]
    pairs_without = {"cpu0>cpu2", "cpu2>cpu0"}
    assert {pair for pair, _ in numbers(apart, "bandwidth")} == set(ALL) - pairs_without
    assert {pair for pair, _ in numbers(apart, "wrong")} == set(ALL)
    said = {one.subject: one.value for one in apart if isinstance(one, Fact)}
    assert {pair for pair, value in said.items() if value.startswith("none: ")} == pairs_without
    assert numbers(apart, "direct") == {(pair, ""): float(pair not in pairs_without) for pair in ALL}
    assert bad(apart) == set(), "CUDA's word is evidence"


def test_on_a_board_whose_links_join_all_devices_a_lost_way_fails(taken):
    """H100 SXM: CUDA's word excuses the speed, and the board's own build condemns the loss."""
    failed = {(about, who) for code, about, who in bad(taken["apart"], "hardware") if about == "pairs.direct"}
    assert failed == {("pairs.direct", "gpu0>gpu2"), ("pairs.direct", "gpu2>gpu0")}


@pytest.mark.parametrize(("sku", "least"), [("h100-sxm5-80gb", 1.0), ("rtx-4090", None), ("v100-sxm2-32gb", None)])
def test_direct_ways_are_demanded_where_the_board_is_built_with_them(sku, least):
    of = runs.plan(runs.hardware(count=2, sku=sku), ("pairs",))
    [limit] = [one for one in of.limits if one.about == "pairs.direct"]
    assert limit.min == least and bool(limit.informational) == (least is None)


def test_a_pair_that_is_silent_is_missed_by_name(taken):
    without = [one for one in taken["sound"] if one.subject != "cpu1>cpu2"]
    assert {who for _, _, who in bad(without)} == {"cpu1>cpu2"}


def test_one_device_has_no_pair_and_the_plan_says_so(tmp_path: Path):
    whole = runs.planning.make(runs.request(count=1), runs.NONCE, runs.ISSUED)
    assert "pairs" not in [step.name for step in whole.steps]
    assert [one.why for one in whole.left_out if one.what == "step pairs"] == ["takes 2 devices, planned: 1"]


def test_every_pair_sends_words_of_its_own():
    class Fake:
        seed, torch = 7, torch.device("cpu")

    peers = [pairs.Peer("a", 0), pairs.Peer("b", 1)]
    one, other = (pairs.Lane(Fake(), peers, *way, 0).words(64) for way in ((0, 1), (1, 0)))  # type: ignore[arg-type]
    assert not bool((one == other).any())
    assert Point.of(mib=1) in PROBE.points(PROBE.metrics["wrong"], PARAMS)
