"""One square matrix product per number format, with operands from the shared seed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from gpuburn.agent.spot import ROUNDING, Rounding
from gpuburn.strict import known

if TYPE_CHECKING:
    import torch

    from gpuburn.agent.device import Device

LARGEST_FP8 = 448.0  # of e4m3 (OCP 8-bit Floating Point Specification 1.0, table 1)


@dataclass(frozen=True, slots=True)
class Product:
    """a @ b, times scale, as often as one likes. multiply: writes into a buffer that empty() made.

    row, column: operands of given elements, in FP64 on the host, one element a line, as the device multiplies them.
    """

    size: int
    rounding: Rounding
    kind: torch.dtype
    a: torch.Tensor
    b: torch.Tensor
    scale: float
    multiply: Callable[[torch.Tensor], object]

    @property
    def operations(self) -> int:
        """Multiplications and additions of one product."""
        return 2 * self.size**3

    def empty(self) -> torch.Tensor:
        import torch

        return torch.empty(self.size, self.size, dtype=self.kind, device=self.a.device)

    def row(self, rows: torch.Tensor) -> torch.Tensor:
        return _exact(self.a, rows) * self.scale

    def column(self, columns: torch.Tensor) -> torch.Tensor:
        return _exact(self.b.t(), columns)


def _exact(x: torch.Tensor, lines: torch.Tensor) -> torch.Tensor:
    """Some lines in FP64 on the host. Through bytes: not every format can be indexed."""
    import torch

    some = x.contiguous().view(torch.uint8)[lines.to(x.device)].to("cpu")
    return some.view(x.dtype).to(torch.float64)


def made(device: Device, dtype: str, size: int) -> Product:
    """N(0, 1) operands: zeros would switch few bits and draw little power. The bits are the same on every device of a
    SKU. tf32 is FP32 with the tensor cores allowed, which float32 forbids."""
    import torch

    known(dtype, ROUNDING, "dtype")
    device.arithmetic(tf32=dtype == "tf32")
    draw = torch.Generator(device.torch).manual_seed(device.seed)
    if dtype == "fp8":
        return _fp8(device, size, draw)
    kind = torch.float32 if dtype == "tf32" else getattr(torch, dtype)
    a, b = (torch.randn(size, size, generator=draw, device=device.torch, dtype=kind) for _ in range(2))
    return Product(size, ROUNDING[dtype], kind, a, b, 1.0, lambda out: torch.matmul(a, b, out=out))


def _fp8(device: Device, size: int, draw: torch.Generator) -> Product:
    """E4M3 with one scale per tensor, results in BF16, added as exactly as the device can (no fast accumulation)."""
    import torch

    whole = (torch.randn(size, size, generator=draw, device=device.torch) for _ in range(2))
    (a, first), (b, second) = (_scaled(one) for one in whole)
    b = b.t()  # the second operand is wanted by columns
    multiply = partial(torch._scaled_mm, a, b, scale_a=first, scale_b=second, out_dtype=torch.bfloat16)
    return Product(
        size, ROUNDING["fp8"], torch.bfloat16, a, b, float(first.double() * second.double()),
        lambda out: multiply(use_fast_accum=False, out=out),
    )  # fmt: skip


def _scaled(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """A tensor in E4M3, and what to multiply it with to have it back."""
    import torch

    scale = x.abs().max() / LARGEST_FP8
    return (x / scale).to(torch.float8_e4m3fn), scale
