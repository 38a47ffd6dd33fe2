"""What gemm must see: wrong bits in any buffer, a device always wrong in one way, a wrong library, fading speed."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch

from gpuburn.agent.device import Cpu
from gpuburn.agent.probes import gemm as probed
from gpuburn.evidence import amounts
from gpuburn.measurement import Reading, Work
from gpuburn.plan import Device as Planned
from gpuburn.probe import Taken, discover
from tests.agent.threads import one_thread  # noqa: F401  the fixture, found here by name

GEMM = discover()["gemm"]
Harm = Callable[[torch.Tensor], None]
Matmul = Callable[..., torch.Tensor]


class Stopped(Cpu):
    """A CPU whose clock a test turns on: each timed block takes as long as the test says, and is worked once."""

    def __init__(self, folder: Path, blocks: list[float], memory: int = 2**20) -> None:
        super().__init__(Planned("cpu0", "cpu"), 0, 1, folder, 7)
        self.blocks, self.memory, self.calls = blocks, memory, 0
        self.checking = 0.01

    def calibrate(self, work: Callable[[], object], seconds: float) -> int:
        return 1

    def until(self, seconds: float) -> Iterator[int]:
        yield from range(len(self.blocks))

    def timed(self, work: Callable[[], object], rounds: int = 1) -> float:
        for _ in range(rounds):
            work()
        if getattr(work, "__name__", "") != "step":
            return self.checking
        self.calls += 1
        return self.blocks[self.calls - 1]


def flip(out: torch.Tensor) -> None:
    """The lowest bit of one number: no comparison with a tolerance would see it."""
    out.view(torch.int16).flatten()[7] ^= 1


def poison(out: torch.Tensor) -> None:
    out.flatten()[7] = math.nan


def swap(out: torch.Tensor) -> None:
    """Two elements change places: a plain sum would not see it."""
    flat = out.flatten()
    flat[7], flat[8] = flat[8].clone(), flat[7].clone()


def harmed(honest: Matmul, harm: Harm, calls: set[int] | range) -> Matmul:
    """The function, whose results of those calls (from 1) are harmed."""
    count = itertools.count(1)

    def harmful(*given: torch.Tensor, **named: torch.Tensor) -> torch.Tensor:
        out = honest(*given, **named)
        if next(count) in calls:
            harm(out)
        return out

    return harmful


def taken(device: object, **params: object) -> list[Taken]:
    return list(GEMM.run(device, **GEMM.settled({**GEMM.smoke, **params}, "test")))


def numbers(said: list[Taken]) -> tuple[dict[str, float], dict[str, str]]:
    measurements, facts, _ = amounts(said, [GEMM])
    return {m.name: m.value for m in measurements}, {f.name: f.value for f in facts}


def alone(folder: Path, blocks: int = 4, **params: object) -> tuple[dict[str, float], dict[str, str]]:
    return numbers(taken(Stopped(folder, [1.0] * blocks), **params))


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32", "float64", "fp8"])
def test_a_sound_device_is_without_fault_in_every_format_and_repeats_its_bits(dtype, tmp_path):
    values, facts = alone(tmp_path, dtype=dtype)
    assert values["gemm.wrong"] == values["gemm.not_finite"] == 0 and 0 < values["gemm.off"] <= 1
    assert values["gemm.tflops"] > 0 and facts["gemm.mismatch"] == "nothing"
    assert facts == alone(tmp_path, dtype=dtype)[1]


@pytest.mark.parametrize("harm", [flip, poison, swap])
@pytest.mark.parametrize("buffer", range(4))
def test_one_wrong_product_in_any_buffer_is_found_and_placed(harm, buffer, tmp_path, monkeypatch):
    """Call 1 is the first product, 2 to 5 fill the ring, 6 to 9 are the timed ones."""
    monkeypatch.setattr(torch, "matmul", harmed(torch.matmul, harm, {6 + buffer}))
    values, facts = numbers(taken(Stopped(tmp_path, [1.0] * 4, 4 * 64 * 64 * 4), share=1.0))
    assert values["gemm.wrong"] == (2 if harm is swap else 1) and (values["gemm.not_finite"] > 0) == (harm is poison)
    assert facts["gemm.mismatch"].startswith(f"buffer {buffer}, row 0, column {3 if harm is flip else 7}: ")


def test_a_wrong_product_while_the_ring_is_filled_is_found_before_it_is_written_over(tmp_path, monkeypatch):
    monkeypatch.setattr(torch, "matmul", harmed(torch.matmul, flip, {3}))
    assert alone(tmp_path)[0]["gemm.wrong"] == 1


def test_a_device_that_stops_writing_is_wrong(tmp_path, monkeypatch):
    """The buffers of the ring stay as they came."""
    monkeypatch.setattr(torch, "empty", torch.zeros)
    monkeypatch.setattr(torch, "matmul", harmed(torch.matmul, torch.Tensor.zero_, range(2, 99)))
    assert alone(tmp_path)[0]["gemm.wrong"] > 0


@pytest.mark.parametrize("harm", [flip, poison, swap])
def test_a_device_that_is_always_wrong_repeats_itself_and_has_another_checksum(harm, tmp_path, monkeypatch):
    sound = alone(tmp_path)[1]
    monkeypatch.setattr(torch, "matmul", harmed(torch.matmul, harm, range(1, 99)))
    values, facts = alone(tmp_path)
    assert values["gemm.wrong"] == 0 and facts["gemm.checksum"] != sound["gemm.checksum"]
    assert (values["gemm.not_finite"] > 0) == (harm is poison), "the first product is looked at too"


def short(a: torch.Tensor, b: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
    """A library that leaves out the last sixteenth of every sum."""
    most = len(b) - len(b) // 16
    return out.copy_(a[:, :most] @ b[:most])


def turned(a: torch.Tensor, b: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
    return out.copy_((a @ b).t())


@pytest.mark.parametrize("library", [short, turned])
@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32"])
def test_a_wrong_library_agrees_with_itself_everywhere_and_is_off(library, dtype, tmp_path, monkeypatch):
    monkeypatch.setattr(torch, "matmul", library)
    values, _ = alone(tmp_path, dtype=dtype, spots=256)
    assert values["gemm.wrong"] == 0 and values["gemm.off"] > 1


def test_the_ring_covers_the_share_of_the_memory_that_was_asked_for(tmp_path):
    nbytes = 64 * 64 * 4
    for share, buffers in ((0.0, 2), (0.5, 5), (0.8, 8), (1.0, 10)):
        said = taken(Stopped(tmp_path, [1.0] * 40, 10 * nbytes), share=share)
        assert numbers(said)[0]["gemm.coverage"] == buffers / 10
        checks = [one.bytes for one in said if isinstance(one, Work) and one.bytes]
        assert checks and set(checks) == {buffers * nbytes}


def test_comparing_takes_no_larger_share_of_the_time_than_it_may(tmp_path):
    """0.01 s a check: at most one in each second at 1 %, whatever the ring."""
    for checking, checks in ((0.01, 20), (0.001, 2), (0.0, 0)):
        device = Stopped(tmp_path, [0.5] * 41)
        said = taken(device, checking=checking)
        assert sum(isinstance(one, Reading) and one.metric == "wrong" for one in said) == checks + 2  # first and last
        values = numbers(said)[0]
        assert values["gemm.checked"] == pytest.approx((2 * checks + 2 + (1 if checks else 2)) / 43)


def test_the_speed_is_that_of_the_timed_blocks_alone(tmp_path):
    values, _ = numbers(taken(Stopped(tmp_path, [0.5, 0.25, 0.5])))
    assert values["gemm.tflops"] == pytest.approx(2 * 64**3 / 0.5 / 1e12)


def test_duty_is_what_was_worked_of_the_time_that_passed(tmp_path, monkeypatch):
    ticks = iter([100.0, 101.0, 104.0, 108.0])  # the start, then after each block of one second
    monkeypatch.setattr(probed.time, "monotonic", lambda: next(ticks))
    said = taken(Stopped(tmp_path, [1.0] * 3))
    assert [one.value for one in said if isinstance(one, Reading) and one.metric == "duty"] == [1.0, 0.5, 3 / 8]


@pytest.mark.parametrize(
    ("late", "ratio"), [(1.0, 1.0), (1.25, 0.8), (0.5, 2.0)], ids=["steady", "fading", "slow at first"]
)
def test_what_is_held_to_the_end_is_the_last_quarter_over_minutes_five_to_ten(late, ratio, tmp_path):
    quick = [1.0] * 299  # five minutes of boost that no cooled machine holds
    blocks = [*quick, *[10.0] * 30, *[10 * late] * int(150 / late)]
    values, _ = numbers(taken(Stopped(tmp_path, blocks)))
    assert values["gemm.sustained"] == pytest.approx(ratio)


def test_a_step_of_less_than_a_quarter_of_an_hour_does_not_tell_what_is_held(tmp_path):
    assert "gemm.sustained" not in numbers(taken(Stopped(tmp_path, [10.0] * 89)))[0]
    assert "gemm.sustained" in numbers(taken(Stopped(tmp_path, [10.0] * 90)))[0]
