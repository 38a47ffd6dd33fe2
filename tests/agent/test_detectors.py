"""What gemm, memory_bandwidth and allreduce must see: one flipped bit, a constant error, NaN, the sign of a zero."""

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


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32", "float64"])
def test_the_products_of_a_sound_device_are_equal(dtype, tmp_path):
    values, facts = numbers("gemm", tmp_path, dtype=dtype)
    assert values["gemm.wrong"] == 0 and values["gemm.tflops"] > 0
    assert facts == numbers("gemm", tmp_path, dtype=dtype)[1]


@pytest.mark.parametrize("harm", [flip, poison])
def test_a_product_that_differs_from_the_first_is_wrong(harm, tmp_path, monkeypatch):
    monkeypatch.setattr(torch, "matmul", harmed(torch.matmul, harm, first=2))
    assert numbers("gemm", tmp_path)[0]["gemm.wrong"] == 1


@pytest.mark.parametrize("harm", [flip, poison])
def test_a_device_that_is_always_wrong_repeats_itself_and_has_another_checksum(harm, tmp_path, monkeypatch):
    sound = numbers("gemm", tmp_path)[1]
    monkeypatch.setattr(torch, "matmul", harmed(torch.matmul, harm))
    values, facts = numbers("gemm", tmp_path)
    assert values["gemm.wrong"] == 0 and facts != sound


def test_the_checksum_sees_two_elements_that_changed_places():
    from gpuburn.agent.probes.gemm import checksum

    bits = torch.tensor([5, -7, 2**31 - 1, -(2**31)], dtype=torch.int32)
    assert checksum(bits) == checksum(bits.clone()) != checksum(bits[[1, 0, 2, 3]])
    assert len(checksum(bits)) == 32


@pytest.mark.parametrize("harm", [flip, poison])
def test_a_wrong_sum_of_the_triad_is_counted(harm, tmp_path, monkeypatch):
    assert numbers("memory_bandwidth", tmp_path)[0]["memory_bandwidth.wrong"] == 0
    monkeypatch.setattr(torch, "add", harmed(torch.add, harm))
    assert numbers("memory_bandwidth", tmp_path)[0]["memory_bandwidth.wrong"] == 1


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
        assert len(counted) == 2 and sum(counted) == wrong[rank] * work[""].iterations, "once in every round"
