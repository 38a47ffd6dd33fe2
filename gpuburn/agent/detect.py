"""Bits against bits: how many differ, where, what is no number, and one checksum for all of them.

Everything is read through integer views, so that NaN equals itself, -0 is not 0, and no tolerance hides a bit. Results
stay on the device until somebody asks for their value: nothing here belongs into timed work, and little waits.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

CHUNK = 2**24  # elements that are widened at a time: what a detector takes of memory must not grow with the tensor
# Sign and mantissa aside, the bits of the exponent: all of them are set in infinities and NaNs, and nowhere else.
EXPONENT = {
    "bfloat16": 0x7F80, "float16": 0x7C00, "float32": 0x7F80_0000, "float64": 0x7FF0_0000_0000_0000,
}  # fmt: skip
NOWHERE = "nothing"


def bits(x: torch.Tensor) -> torch.Tensor:
    """One integer per element, in memory order."""
    import torch

    width = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[x.element_size()]
    return x.view(width).flatten()


def words(x: torch.Tensor) -> torch.Tensor:
    """The same bits as the fewest integers: eight bytes at a time are compared faster than two."""
    import torch

    flat = bits(x)
    return flat.view(torch.int64) if x.nbytes % 8 == 0 else flat


def unequal(first: torch.Tensor, others: Iterable[torch.Tensor]) -> torch.Tensor:
    """How many words of the others are not the first's: a number that stays on the device. 0: not one bit differs."""
    import torch

    wanted = words(first)
    found = torch.zeros((), dtype=torch.int64, device=first.device)
    for one in others:
        found += (words(one) != wanted).sum()  # one pass over the differences, in one kernel
    return found


def wrong(first: torch.Tensor, others: Iterable[torch.Tensor]) -> int:
    """How many elements of the others have other bits than the first's. Waits; asked only once something differs."""
    import torch

    return sum(int(torch.count_nonzero(bits(one) != bits(first)).item()) for one in others)


def where(first: torch.Tensor, others: Iterable[torch.Tensor]) -> str:
    """The first element that differs: buffer, place, and both bit patterns, which hint at the part that failed."""
    for number, one in enumerate(others):
        differing = (bits(one) != bits(first)).nonzero()
        if len(differing):
            index = int(differing[0].item())
            row, column = divmod(index, first.shape[-1])
            mask = (1 << 8 * first.element_size()) - 1
            wanted, found = (int(bits(x)[index].item()) & mask for x in (first, one))
            place = f"buffer {number}, row {row}, column {column}"
            return f"{place}: {found:#x} for {wanted:#x}, differing in {wanted ^ found:#x}"
    return NOWHERE


def not_finite(x: torch.Tensor) -> int:
    """How many elements are infinite or no number."""
    import torch

    mask = EXPONENT[str(x.dtype).removeprefix("torch.")]
    return sum(int(torch.count_nonzero((part & mask) == mask).item()) for part in torch.split(bits(x), CHUNK))


def checksum(x: torch.Tensor) -> str:
    """Two 64-bit sums of the bits, plain and weighted by position, in hex: cheap, and equal for equal bits.

    Any single flip changes the first, two elements that change places the second (but not always both flips of a pair).
    """
    import torch

    plain = weighted = 0
    for number, part in enumerate(torch.split(bits(x), CHUNK)):
        wide = part.to(torch.int64)
        begin = number * CHUNK + 1
        weights = torch.arange(begin, begin + wide.numel(), device=x.device, dtype=torch.int64)
        plain += int(wide.sum().item())
        weighted += int((wide * weights).sum().item())
    return f"{plain & 0xFFFFFFFFFFFFFFFF:016x}{weighted & 0xFFFFFFFFFFFFFFFF:016x}"
