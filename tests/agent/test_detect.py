"""The detectors by themselves: every flip of every bit of every format is found, and a sound product has no fault."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings, strategies as st

from gpuburn.agent import detect, products, spot
from gpuburn.agent.device import Missing
from tests.agent.threads import one_thread  # noqa: F401  the fixture, found here by name
from tests.agent.training.alone import device

SIZE = 48
KINDS = [torch.bfloat16, torch.float16, torch.float32, torch.float64]
DTYPES = ["bfloat16", "float16", "float32", "float64", "fp8"]
each_kind = pytest.mark.parametrize("kind", KINDS, ids=str)
each_dtype = pytest.mark.parametrize("dtype", DTYPES)


def drawn(kind: torch.dtype, count: int = SIZE) -> torch.Tensor:
    return torch.randn(count, count, generator=torch.Generator().manual_seed(1)).to(kind)


def flipped(x: torch.Tensor, index: int, bit: int) -> torch.Tensor:
    """A copy with one bit of one element turned over."""
    harmed = x.clone()
    raw = harmed.view(torch.uint8).flatten()
    raw[index * x.element_size() + bit // 8] ^= 1 << bit % 8
    return harmed


def found(first: torch.Tensor, *others: torch.Tensor) -> int:
    return int(detect.unequal(first, others).item())


@each_kind
def test_each_of_a_thousand_single_bit_flips_is_found_counted_and_placed(kind):
    first, near = drawn(kind), random.Random(str(kind))
    width = 8 * first.element_size()
    for _ in range(1000):
        index, bit = near.randrange(first.numel()), near.randrange(width)
        harmed = flipped(first, index, bit)
        assert found(first, first, harmed) == 1 and detect.wrong(first, [harmed]) == 1
        row, column = divmod(index, SIZE)
        said = detect.where(first, [first, harmed])
        assert said.startswith(f"buffer 1, row {row}, column {column}: ") and said.endswith(f" {1 << bit:#x}")
        assert detect.checksum(harmed) != detect.checksum(first)


@each_kind
@pytest.mark.parametrize("count", [1, 3, 5])
def test_a_product_whose_bytes_make_no_whole_words_is_compared_to_its_last_bit(kind, count):
    first = drawn(kind, count)
    assert found(first, first.clone()) == 0
    assert found(first, flipped(first, count**2 - 1, 8 * first.element_size() - 1)) == 1


@given(st.lists(st.tuples(st.integers(0, SIZE**2 - 1), st.integers(0, 15)), min_size=1, max_size=8, unique=True))
@settings(deadline=None)
def test_any_set_of_flips_is_found(flips):
    harmed = first = drawn(torch.bfloat16)
    for index, bit in flips:
        harmed = flipped(harmed, index, bit)
    assert detect.wrong(first, [harmed]) == len({index for index, _ in flips}) and found(first, harmed) > 0


@each_kind
def test_what_equals_as_a_number_is_no_more_equal_than_its_bits(kind):
    zero = torch.zeros(SIZE, SIZE, dtype=kind)
    assert found(zero, -zero) > 0 and detect.wrong(zero, [-zero]) == SIZE**2, "-0 is not 0"
    nan = torch.full_like(zero, torch.nan)
    assert found(nan, nan.clone()) == 0, "a NaN that is always there is for not_finite to count"
    one = drawn(kind)
    swapped = one.clone()
    swapped[0, 0], swapped[0, 1] = one[0, 1], one[0, 0]
    assert detect.wrong(one, [swapped]) == 2 and detect.checksum(swapped) != detect.checksum(one)
    assert detect.where(one, [one.clone()]) == "nothing"


@each_kind
def test_infinities_and_what_is_no_number_are_counted_and_the_largest_number_is_not(kind):
    one = drawn(kind)
    one[0, 0], one[0, 1] = torch.finfo(kind).max, torch.finfo(kind).tiny
    assert detect.not_finite(one) == 0
    one[1, 0], one[1, 1], one[1, 2] = torch.inf, -torch.inf, torch.nan
    assert detect.not_finite(one) == 3


def test_the_parts_that_a_tensor_is_read_in_do_not_show(monkeypatch):
    one = drawn(torch.float32)
    one[7, 7] = torch.nan
    whole = detect.checksum(one), detect.not_finite(one)
    monkeypatch.setattr(detect, "CHUNK", 100)
    assert (detect.checksum(one), detect.not_finite(one)) == whole


def made(dtype: str, folder: Path, size: int = SIZE) -> tuple[products.Product, torch.Tensor]:
    product = products.made(device(folder), dtype, size)
    out = product.empty()
    product.multiply(out)
    return product, out


@each_dtype
@pytest.mark.parametrize("size", [16, 64, 256])
def test_a_sound_product_is_within_its_bound_and_the_bound_is_no_blank_cheque(dtype, size, tmp_path):
    product, out = made(dtype, tmp_path, size)
    assert spot.off(product, out, 512, 3) <= 1.0
    assert spot.off(product, out.double() * 2, 512, 3) > 1.0
    assert spot.off(product, torch.zeros_like(out), 512, 3) > 1.0


@each_dtype
def test_an_element_that_is_no_number_is_as_far_off_as_can_be(dtype, tmp_path):
    product, out = made(dtype, tmp_path)
    assert spot.off(product, torch.full_like(out, torch.nan), 8, 3) == spot.WORST
    assert spot.off(product, torch.full_like(out, torch.inf), 8, 3) == spot.WORST


def test_tf32_in_the_place_of_fp32_is_off(tmp_path):
    """Thirteen bits of each factor dropped, as tensor cores do: what float32 forbids."""
    product, out = made("float32", tmp_path, 1024)
    assert spot.off(product, out, 256, 3) <= 1.0
    a, b = ((x.view(torch.int32) & ~0x1FFF).view(torch.float32) for x in (product.a, product.b))
    assert spot.off(product, torch.matmul(a, b), 256, 3) > 1.0


def test_tf32_is_within_the_bound_of_tf32(tmp_path):
    product, _ = made("float32", tmp_path, 256)
    a, b = ((x.view(torch.int32) & ~0x1FFF).view(torch.float32) for x in (product.a, product.b))
    wanted = product.row(torch.arange(256)) @ product.b.double()
    norms = product.a.double().norm(dim=1)[:, None] * product.b.double().norm(dim=0)[None]
    allowed = spot.bound(spot.ROUNDING["tf32"], 256, norms, wanted)
    assert bool(((torch.matmul(a, b).double() - wanted).abs() <= allowed).all())


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_sums_kept_in_sixteen_bits_are_off(dtype, tmp_path):
    """A library that adds in the format of its factors: each addition loses what FP32 would keep."""
    product, out = made(dtype, tmp_path, 256)
    lossy = torch.zeros_like(out)
    for k in range(0, 256, 4):
        lossy = lossy + torch.matmul(product.a[:, k : k + 4], product.b[k : k + 4])
    assert spot.off(product, out, 512, 3) <= 1.0 < spot.off(product, lossy, 512, 3)


def test_the_operands_of_fp8_are_taken_as_the_device_has_them(tmp_path):
    product, out = made("fp8", tmp_path)
    assert product.a.dtype == product.b.dtype == torch.float8_e4m3fn and out.dtype == torch.bfloat16
    assert product.a.double().abs().max() == products.LARGEST_FP8, "the whole range is used"
    lines = torch.arange(SIZE)
    whole = product.row(lines) @ product.b.double()
    assert torch.equal(product.row(lines) * product.column(lines), product.row(lines) * product.b.double().t())
    assert float((out.double() - whole).abs().max() / whole.abs().max()) < 2.0**-7


def test_a_cpu_has_no_tf32_and_nobody_an_unknown_format(tmp_path):
    with pytest.raises(Missing, match="a CPU has no TF32"):
        products.made(device(tmp_path), "tf32", SIZE)
    with pytest.raises(ValueError, match="unknown 'bf16'"):
        products.made(device(tmp_path), "bf16", SIZE)


def test_the_seed_decides_the_operands(tmp_path):
    (_, one), (_, same) = made("float32", tmp_path), made("float32", tmp_path)
    other = products.made(device(tmp_path, seed=8), "float32", SIZE)
    assert torch.equal(one, same) and not torch.equal(other.a, products.made(device(tmp_path), "float32", SIZE).a)
