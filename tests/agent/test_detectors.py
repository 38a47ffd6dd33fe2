"""What memory_bandwidth and allreduce must see: one flipped bit, a constant error, NaN, the sign of a zero."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from unittest import mock

import pytest
import torch
import torch.distributed as dist

from gpuburn.evidence import amounts
from gpuburn.probe import Taken, discover
from tests.agent.training import three_ranks
from tests.agent.training.alone import device

PROBES = discover()
Harm = Callable[[torch.Tensor], None]


def flip(out: torch.Tensor) -> None:
    """The lowest bit of one number: no comparison with a tolerance would see it."""
    out.view(torch.int32).flatten()[7] ^= 1


def poison(out: torch.Tensor) -> None:
    out.flatten()[7] = math.nan


def harmed(honest: Callable[..., torch.Tensor], harm: Harm, first: int = 1) -> Callable[..., torch.Tensor]:
    """The function, whose results are harmed from that call on."""
    calls = [0]

    def harmful(*given: object, **named: object) -> torch.Tensor:
        out = honest(*given, **named)
        calls[0] += 1
        if calls[0] >= first:
            harm(out)
        return out

    return harmful


def numbers(name: str, folder: Path, **params: object) -> tuple[dict[str, float], dict[str, str]]:
    """What the probe measures and observes in this process."""
    one = PROBES[name]
    measurements, facts, _ = amounts(one.run(device(folder), **one.settled({**one.smoke, **params}, "test")), [one])
    return {m.name: m.value for m in measurements}, {f.name: f.value for f in facts}


@pytest.mark.parametrize("harm", [flip, poison])
def test_a_wrong_sum_of_the_triad_is_counted(harm, tmp_path, monkeypatch):
    assert numbers("memory_bandwidth", tmp_path)[0]["memory_bandwidth.wrong"] == 0
    monkeypatch.setattr(torch, "add", harmed(torch.add, harm))
    assert numbers("memory_bandwidth", tmp_path)[0]["memory_bandwidth.wrong"] == 1


@pytest.mark.parametrize("bit", [0, 31, 63])
def test_a_word_that_is_read_wrong_gives_another_sum(bit, tmp_path, monkeypatch):
    assert numbers("memory_bandwidth", tmp_path)[0]["memory_bandwidth.read_wrong"] == 0
    honest = torch.sum

    def misread(words, *given, **named):
        """Only on its way: the memory itself holds the right bits."""
        if words.dtype != torch.int64:
            return honest(words, *given, **named)
        seen = words.clone()
        seen[7] ^= -(2**63) if bit == 63 else 1 << bit
        return honest(seen, *given, **named)

    monkeypatch.setattr(torch, "sum", misread)
    values = numbers("memory_bandwidth", tmp_path)[0]
    assert values["memory_bandwidth.read_wrong"] == 1 and values["memory_bandwidth.wrong"] == 0


def test_bits_are_compared_and_not_values(tmp_path, monkeypatch):
    """-0.0 == 0.0, but a memory that returns the one for the other has flipped a bit."""
    honest = torch.add
    zeros: list[int] = []

    def negating(*given: object, **named: object) -> torch.Tensor:
        out = honest(*given, **named)
        out[:1], zeros[:] = -0.0, [int((out[:1] == 0).sum())]
        return out

    monkeypatch.setattr(torch, "randint", lambda *_, **__: torch.zeros(64, dtype=torch.int32))
    monkeypatch.setattr(torch, "add", negating)
    assert numbers("memory_bandwidth", tmp_path)[0]["memory_bandwidth.wrong"] == 1 and zeros == [1]


def cases(device: object) -> Iterator[tuple[str, Iterator[Taken]]]:
    """All-reduce on three ranks: sound, and with one rank's sum harmed."""
    one = PROBES["allreduce"]
    run = partial(one.run, device, **one.settled({**one.smoke, "sizes_mib": [1, 2], "seconds": 0.2}, "test"))
    yield "sound", run()
    for name, harm in {"flip": flip, "nan": poison}.items():
        honest = dist.all_reduce

        def on_rank_one(x, *given, honest=honest, harm=harm, **named):
            honest(x, *given, **named)
            if dist.get_rank() == 1 and x.dtype == torch.float32:
                harm(x)

        with mock.patch.object(dist, "all_reduce", on_rank_one):
            yield name, run()


@pytest.fixture(scope="module")
def sums(tmp_path_factory) -> dict[str, list[list[Taken]]]:
    return three_ranks.run(cases, tmp_path_factory.mktemp("sums"))


@pytest.mark.parametrize(("case", "wrong"), [("sound", [0, 0, 0]), ("flip", [0, 1, 0]), ("nan", [0, 1, 0])])
def test_a_wrong_sum_of_an_all_reduce_is_counted_on_its_rank_at_every_size(case, wrong, sums):
    for rank, taken in enumerate(sums[case]):
        measurements, _, work = amounts(taken, [PROBES["allreduce"]])
        counted = [m.value for m in measurements if m.name == "allreduce.wrong"]
        assert len(counted) == 2
        assert sum(counted) == wrong[rank] * (work[""].iterations + 2), "once in every round, the first of a size too"


def test_sums_of_real_numbers_are_the_same_bits_on_every_rank(sums):
    for rank, taken in enumerate(sums["flip"]):
        measurements, _, _ = amounts(taken, [PROBES["allreduce"]])
        assert [m.value for m in measurements if m.name == "allreduce.differing"] == [2 if rank == 1 else 1] * 2
    sound = [m.value for taken in sums["sound"] for m in amounts(taken, [PROBES["allreduce"]])[0]
             if m.name == "allreduce.differing"]  # fmt: skip
    assert sound == [0] * 6


OPS = {
    "all_gather": "all_gather_single", "reduce_scatter": "reduce_scatter_single", "all_to_all": "all_to_all_single",
    "broadcast": "broadcast",
}  # fmt: skip


def exchanges(device: object) -> Iterator[tuple[str, Iterator[Taken]]]:
    """Each of the other collectives on three ranks: sound, and with one bit of rank 1's answer flipped."""
    one = PROBES["collectives"]
    run = partial(one.run, device, **one.settled({**one.smoke, "sizes_mib": [1], "seconds": 0.4}, "test"))
    yield "sound", run()
    for op, name in OPS.items():
        honest = getattr(dist, name)

        def on_rank_one(out, *given, honest=honest, **named):
            honest(out, *given, **named)
            if dist.get_rank() == 1 and out.dtype == torch.float32:
                flip(out)

        with mock.patch.object(dist, name, on_rank_one):
            yield op, run()


@pytest.fixture(scope="module")
def exchanged(tmp_path_factory) -> dict[str, list[list[Taken]]]:
    return three_ranks.run(exchanges, tmp_path_factory.mktemp("exchanges"))


@pytest.mark.parametrize("case", ["sound", *OPS])
def test_a_flipped_bit_of_any_collective_is_counted_on_its_rank_for_that_collective_alone(case, exchanged):
    for rank, taken in enumerate(exchanged[case]):
        measurements, _, work = amounts(taken, [PROBES["collectives"]])
        wrong = {str(m.point): m.value for m in measurements if m.name == "collectives.wrong"}
        assert len(wrong) == len(OPS) and work[""].bytes > 0
        bad = {point.partition("op=")[2].split(",")[0].split(" ")[0] for point, count in wrong.items() if count}
        assert bad == ({case} if rank == 1 and case != "sound" else set()), wrong


def test_bus_bandwidth_is_what_the_links_carry_of_it(exchanged):
    measurements, _, _ = amounts(exchanged["sound"][0], [PROBES["collectives"]])
    speeds = {(m.name, str(m.point)): m.value for m in measurements}
    for name, point in [key for key in speeds if key[0] == "collectives.busbw"]:
        share = 1 if "broadcast" in point else 2 / 3
        assert speeds[name, point] == pytest.approx(share * speeds["collectives.algbw", point]), point


def test_in_every_round_one_rank_takes_longest(exchanged):
    shares = [m.value for taken in exchanged["sound"] for m in amounts(taken, [PROBES["collectives"]])[0]
              if m.name == "collectives.slowest"]  # fmt: skip
    assert len(shares) == 3 * len(OPS) and all(0 <= one <= 1 for one in shares) and sum(shares) > 0
