"""The checksum: equal for equal bits, different for any flipped one, whatever the pieces."""

import pytest
import torch
from hypothesis import given, settings, strategies as st

from gpuburn.agent.training import bits

VALUES = torch.randn(1000, generator=torch.Generator().manual_seed(1))


@settings(max_examples=50, deadline=None)
@given(place=st.integers(0, 999), bit=st.integers(0, 31))
def test_any_flipped_bit_is_seen(place, bit):
    flipped = VALUES.clone()
    flipped.view(torch.int32)[place] ^= torch.tensor(-(2**31) if bit == 31 else 2**bit, dtype=torch.int32)
    assert bits.checksum(flipped) != bits.checksum(VALUES)


def test_places_count(monkeypatch):
    swapped = VALUES.clone()
    swapped[[3, 900]] = swapped[[900, 3]]
    whole = bits.checksum(VALUES)
    assert bits.checksum(swapped) != whole
    monkeypatch.setattr(bits, "PIECE", 7)
    assert bits.checksum(VALUES) == whole
    assert bits.checksum(VALUES[:300], VALUES[300:]) == whole


@pytest.mark.parametrize("one, other", [(0.0, -0.0), (float("nan"), float("inf"))])
def test_bits_are_compared_and_not_values(one, other):
    assert bits.checksum(torch.tensor([one])) != bits.checksum(torch.tensor([other]))
    assert bits.checksum(torch.tensor([one])) == bits.checksum(torch.tensor([one]))


def test_memory_is_the_tensor_itself_in_both_directions():
    tensor = torch.arange(4, dtype=torch.int32)
    view = bits.memory(tensor)
    assert bytes(view) == b"".join(n.to_bytes(4, "little") for n in range(4))
    view[:4] = (9).to_bytes(4, "little")
    assert tensor[0] == 9
    with pytest.raises(ValueError):
        bits.memory(torch.zeros(2, 2).t())
