"""Spot checks: some elements of a product, computed again in FP64 on the host, against a bound on rounding.

The one detector that a device, or a whole fleet, cannot pass by being wrong in the same way each time.

The bound. An element is a sum of K products of independent N(0, 1) factors; S = |a| |b| / sqrt(K) is the size of such a
sum of random signs (|a|, |b|: norms of its row and column), so that it and its partial sums stay below 8 S but once in
1e15. To first order (Higham, Accuracy and Stability of Numerical Algorithms, 2002, sections 2.2, 3.1 and 4.2) the error
is the sum of
  each factor rounded on its way in:     2 u_in S      (in random directions; cut off in one direction: the same)
  each addition, rounded to nearest:     u_add sqrt(K) S (Higham and Mary, SIAM J. Sci. Comput. 41 (2019), A2815)
  each addition that is cut off:         u_add K / block S more, for all of them err towards zero
  the result rounded on its way out:     u_out |c|
and the first three are taken 8 times: 8 S (2 u_in + u_add (sqrt(K) + K / block)) + u_out |c|.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

    from gpuburn.agent.products import Product

SIGMAS = 8.0  # 1.2e-15 of a normal distribution lie further out
WORST = 1e9  # what an element that is no number is off by: a reading is finite


@dataclass(frozen=True, slots=True)
class Rounding:
    """Unit roundoffs of a way to multiply. block: products under one addition that is cut off; 0: it is rounded."""

    into: float
    add: float
    out: float
    block: int = 0


# Tensor cores add in FP32 and cut off: Fasi, Higham, Mikaitis and Pranesh, "Numerical behavior of NVIDIA tensor cores",
# PeerJ Computer Science 7 (2021) e330: 4 products at a time on the smallest. TF32 drops 13 bits of each factor.
# FP8 adds with 14 bits, 32 products at a time: DeepSeek-V3 technical report (2024), 3.3.2, measured on H800.
ROUNDING = {
    "float64": Rounding(0.0, 2.0**-53, 2.0**-53),
    "float32": Rounding(0.0, 2.0**-24, 2.0**-24),
    "tf32": Rounding(2.0**-10, 2.0**-23, 2.0**-24, block=4),
    "bfloat16": Rounding(0.0, 2.0**-23, 2.0**-8, block=4),
    "float16": Rounding(0.0, 2.0**-23, 2.0**-11, block=4),
    "fp8": Rounding(0.0, 2.0**-13, 2.0**-8, block=32),
}


def bound(rounding: Rounding, k: int, norms: torch.Tensor, wanted: torch.Tensor) -> torch.Tensor:
    """How far a sound element may be from the FP64 one, whose own rounding is in it. norms: |a| |b| of each."""
    adds = k**0.5 * (rounding.add + 2.0**-53) + (k / rounding.block * rounding.add if rounding.block else 0.0)
    spread: torch.Tensor = SIGMAS * norms / k**0.5 * (2 * rounding.into + adds)
    return spread + rounding.out * wanted.abs()


def off(product: Product, out: torch.Tensor, count: int, seed: int) -> float:
    """The largest error of `count` elements drawn by the seed, over its bound: at most 1 on a sound device. Waits."""
    import torch

    draw = torch.Generator().manual_seed(seed)
    rows, columns = (torch.randint(0, product.size, (count,), generator=draw) for _ in range(2))
    a, b = product.row(rows), product.column(columns)
    wanted = (a * b).sum(1)
    found = out[rows.to(out.device), columns.to(out.device)].to("cpu", torch.float64)
    allowed = bound(product.rounding, product.size, a.norm(dim=1) * b.norm(dim=1), wanted)
    return min(WORST, float(torch.nan_to_num((found - wanted).abs() / allowed, nan=WORST, posinf=WORST).max().item()))
