"""Three ranks send to each other in pairs, alone and all at once: bits, lost messages, slow ways, no peer access."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
import runs
import torch
import torch.distributed as dist

from gpuburn import plan as plans
from gpuburn.agent.device import Cpu, Device
from gpuburn.agent.probes import pairs
from gpuburn.evidence import amounts
from gpuburn.finding import Finding
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


def swapped(harm: Harm, source: int, target: int) -> Callable[[torch.Tensor, int, torch.Tensor, int], None]:
    """What arrives from one rank at one other is harmed, while all send and receive."""
    honest = pairs.swap

    def swap(given: torch.Tensor, to: int, into: torch.Tensor, origin: int) -> None:
        honest(given, to, into, origin)
        if (origin, dist.get_rank()) == (source, target):
            harm(into)

    return swap


def copied(harm: Harm, target: int) -> Callable[[torch.Tensor, torch.Tensor], None]:
    """What a copy engine brings to one rank is harmed."""
    honest = pairs.copy

    def copy(into: torch.Tensor, given: torch.Tensor) -> None:
        honest(into, given)
        if dist.get_rank() == target:
            harm(into)

    return copy


def stale(into: torch.Tensor, given: torch.Tensor, copied: set[int] = set()) -> None:  # noqa: B006
    """The first copy into a place arrives; all later ones report success and bring nothing."""
    if into.data_ptr() not in copied:
        copied.add(into.data_ptr())
        into.copy_(given)


def paced(**seconds: float) -> Callable[[Cpu, Callable[[], object], int], float]:
    """Each message takes a second, whatever the machine's own pace is, or as long as is said of its way: alone_2_0 of
    the message from rank 2 to 0 alone, ring_1 of all messages to the next rank but none, engine_0_1 of a copy."""
    honest = Cpu.timed

    def timed(self: Cpu, work: Callable[[], object], rounds: int = 1) -> float:
        elapsed = honest(self, work, rounds)
        func = getattr(work, "func", None)
        lane = getattr(func, "__self__", None)
        if isinstance(lane, pairs.Lane):
            return rounds * seconds.get(f"alone_{lane.source}_{lane.target}", 1.0)
        if func is pairs.swap:
            return rounds * seconds.get(f"ring_{(work.args[1] - self.rank) % self.world}", 1.0)  # type: ignore[attr-defined]
        return rounds * 1.0 if func is pairs.copy else elapsed

    return timed


def reached(self: Cpu, place: int) -> bool:
    return True


def beside(self: Cpu, place: int) -> torch.device:
    """Stands for another GPU that this process drives."""
    return self.torch


def apart(self: Cpu, place: int) -> bool:
    """0 and 2 have no direct way to each other."""
    return {self.rank, place} != {0, 2}


def gpus(**seconds: float) -> list[Any]:
    """Ranks as if on GPUs that reach each other, at a steady pace."""
    return [
        mock.patch.object(Cpu, "timed", paced(**seconds)), mock.patch.object(Cpu, "reaches", reached),
        mock.patch.object(Cpu, "neighbour", beside),
    ]  # fmt: skip


FAULTS: dict[str, list[Any]] = {
    "sound": [],
    "flip": [mock.patch.object(pairs, "transfer", received(flip, 0, 2))],
    "lost": [mock.patch.object(pairs, "transfer", received(lose, 1, 0))],
    "crossed": [mock.patch.object(pairs, "swap", swapped(flip, 1, 0))],
    "dropped": [mock.patch.object(pairs, "swap", swapped(lose, 0, 2))],
    "apart": [mock.patch.object(Cpu, "reaches", apart)],
    "steady": gpus(),
    "slow": gpus(alone_2_0=100.0),
    "behind": gpus(alone_0_2=1.1, alone_2_0=1.1),
    "near": gpus(alone_0_2=1.04, alone_2_0=1.04),
    "crowded": gpus(ring_2=2.0),
    "engine": [*gpus(), mock.patch.object(pairs, "copy", copied(flip, 2))],
    "engine_stale": [*gpus(), mock.patch.object(pairs, "copy", stale)],
    "engine_apart": [*gpus(), mock.patch.object(Cpu, "reaches", apart)],
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


def found(taken: list[Taken], kind: str) -> list[Finding]:
    """What is said of the plan's host, by the shipped limits."""
    of = planned(kind)
    [step] = of.steps
    beside = [one for one in runs.answers(of)[step.name] if getattr(one, "metric", "") not in PROBE.promises]
    beside = [one for one in beside if isinstance(one, (Reading, Fact)) and getattr(one, "name", "") not in PROBE.facts]
    mine = [dataclasses.replace(one, subject=one.subject.replace("cpu", of.devices[0].name[:3])) for one in taken]
    return runs.judged(of, {step.name: runs.outcome(of, step, [*mine, *beside])})


def bad(taken: list[Taken], kind: str = "rehearsal") -> set[tuple[str, str, str]]:
    """(code, about, subject) of what keeps the plan's host from passing."""
    return {(f.code, f.about, f.subject) for f in found(taken, kind) if str(f.verdict) in ("fail", "incomplete")}


def of_pairs(taken: list[Taken]) -> set[tuple[str, str, str]]:
    """The same of the pairs alone, on GPUs; facts and peers of made ones are not this test's matter."""
    return {one for one in bad(taken, "hardware") if one[1].startswith("pairs.")}


def test_every_ordered_pair_is_measured_and_a_sound_host_is_without_finding(taken):
    sound = taken["sound"]
    at = {(pair, f"mib={mib}") for pair in ALL for mib in (1, 2)}
    for metric in ("bandwidth", "wrong", "asymmetry", "behind", "together", "kept", "together_wrong"):
        assert set(numbers(sound, metric)) == at
    assert set(numbers(sound, "latency")) == {(pair, "") for pair in ALL}
    assert set(numbers(sound, "wrong").values()) == set(numbers(sound, "together_wrong").values()) == {0}
    assert numbers(sound, "engine") == {}, "a CPU has no copy engine"
    assert min(numbers(sound, "latency").values()) > 0
    assert {one.value for one in sound if isinstance(one, Fact)} == {"between processes of the host"}
    assert bad(sound) == set()


@pytest.mark.parametrize(("case", "metric", "pair", "count"), [
    ("flip", "wrong", "cpu0>cpu2", [3, 3]), ("lost", "wrong", "cpu1>cpu0", [3 * 2**17, 3 * 2**18]),
    ("crossed", "together_wrong", "cpu1>cpu0", [3, 3]),
    ("dropped", "together_wrong", "cpu0>cpu2", [3 * 2**17, 3 * 2**18]),
])  # fmt: skip
def test_words_that_arrive_wrong_are_counted_on_their_pair_and_direction(case, metric, pair, count, taken):
    found = numbers(taken[case], metric)
    assert [found.pop((pair, f"mib={mib}")) for mib in (1, 2)] == count
    other = {"wrong": "together_wrong", "together_wrong": "wrong"}[metric]
    assert set(found.values()) == set(numbers(taken[case], other).values()) == {0}
    assert bad(taken[case]) == {("limit.failed", f"pairs.{metric}", pair)}


def test_a_direction_that_is_slower_than_its_opposite_shows_on_both(taken):
    found = numbers(taken["slow"], "asymmetry")
    odd = {pair for (pair, _), value in found.items() if value > 0.9}
    assert odd == {"cpu2>cpu0", "cpu0>cpu2"}
    assert of_pairs(taken["slow"]) == {
        ("limit.failed", about, pair)
        for about, pair in [("pairs.asymmetry", "gpu2>gpu0"), ("pairs.asymmetry", "gpu0>gpu2"),
                            ("pairs.behind", "gpu2>gpu0")]
    }  # fmt: skip


def test_gpus_at_one_pace_are_without_finding_and_every_number_is_there(taken):
    steady = taken["steady"]
    assert of_pairs(steady) == set()
    at = {(pair, f"mib={mib}") for pair in ALL for mib in (1, 2)}
    assert set(numbers(steady, "engine")) == set(numbers(steady, "engine_wrong")) == at
    assert set(numbers(steady, "behind").values()) == {0.0} and set(numbers(steady, "kept").values()) == {1.0}


def test_a_pair_that_is_as_slow_both_ways_is_behind_the_median_of_all(taken):
    """Its two directions agree: asymmetry cannot see it."""
    pairs_of = ("gpu0>gpu2", "gpu2>gpu0")
    assert of_pairs(taken["behind"]) == {("limit.failed", "pairs.behind", pair) for pair in pairs_of}
    assert of_pairs(taken["near"]) == set()


@pytest.mark.parametrize(("sku", "most"), [("h100-sxm5-80gb", 0.05), ("rtx-4090", None), ("v100-sxm2-32gb", None)])
def test_the_median_is_a_demand_where_the_board_gives_all_pairs_one_way(sku, most):
    of = runs.plan(runs.hardware(count=2, sku=sku), ("pairs",))
    [limit] = [one for one in of.limits if one.about == "pairs.behind"]
    assert limit.max == most and bool(limit.informational) == (most is None)


def test_a_ring_that_is_slow_only_while_all_send_is_a_warning_on_each_of_its_pairs(taken):
    """An overloaded switch: each pair alone is as fast as all others."""
    ring = {"gpu0>gpu2", "gpu1>gpu0", "gpu2>gpu1"}
    assert of_pairs(taken["crowded"]) == set()
    warned = {(f.about, f.subject) for f in found(taken["crowded"], "hardware") if f.marginal and "pairs." in f.about}
    assert warned == {("pairs.kept", pair) for pair in ring}
    assert not [f for f in found(taken["steady"], "hardware") if f.marginal and "pairs." in f.about]


def test_words_that_a_copy_engine_brings_wrong_are_counted_on_their_pairs(taken):
    wrong = {pair: value for (pair, _), value in numbers(taken["engine"], "engine_wrong").items()}
    assert wrong == {pair: 3.0 if pair.endswith(">cpu2") else 0.0 for pair in ALL}
    assert of_pairs(taken["engine"]) == {
        ("limit.failed", "pairs.engine_wrong", f"gpu{source}>gpu2") for source in (0, 1)
    }
    assert min(numbers(taken["engine_stale"], "engine_wrong").values()) >= 2 * 2**17


def test_a_pair_that_cannot_access_each_other_is_compared_and_its_speed_not_demanded(taken):
    apart = taken["apart"]
    pairs_without = {"cpu0>cpu2", "cpu2>cpu0"}
    for metric in ("bandwidth", "behind", "asymmetry", "together", "kept"):
        assert {pair for pair, _ in numbers(apart, metric)} == set(ALL) - pairs_without
    assert {pair for pair, _ in numbers(apart, "wrong")} == {pair for pair, _ in numbers(apart, "together_wrong")}
    assert {pair for pair, _ in numbers(taken["engine_apart"], "engine")} == set(ALL) - pairs_without
    for metric in ("wrong", "together_wrong", "engine_wrong"):
        assert {pair for pair, _ in numbers(taken["engine_apart"], metric)} == set(ALL)
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
    one, other = (pairs.Lane(Fake(), peers, *way, 0).words(64, Fake.torch) for way in ((0, 1), (1, 0)))  # type: ignore[arg-type]
    assert not bool((one == other).any())
    assert Point.of(mib=1) in PROBE.points(PROBE.metrics["wrong"], PARAMS)
