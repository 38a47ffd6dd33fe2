"""The same product into one buffer after the other, over as much of a device's memory as is wanted, and its check."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from gpuburn.agent import detect
from gpuburn.measurement import Reading, Work

if TYPE_CHECKING:
    import torch

    from gpuburn.agent.device import Device
    from gpuburn.agent.products import Product

FEWEST = 2  # buffers: with one, a device that does not write at all would be right from the second product on


class Ring:
    """Outputs over device memory, each of them full from the start. first: what all of them are held to."""

    def __init__(self, device: Device, product: Product, first: torch.Tensor, share: float) -> None:
        self._device, self._product, self._first = device, product, first
        self._buffers = [product.empty() for _ in range(max(FEWEST, int(share * device.memory / first.nbytes)))]
        self._next = self._fresh = 0
        self._cost = 0.0
        self.products = self.compared = 0
        self.mismatch = detect.NOWHERE
        for _ in self._buffers:
            self.step()

    def __len__(self) -> int:
        return len(self._buffers)

    @property
    def bytes(self) -> int:
        return len(self) * self._first.nbytes

    @property
    def newest(self) -> torch.Tensor:
        return self._buffers[self._next - 1]

    def step(self) -> None:
        """One product into the next buffer: all there is of this project in the timed work."""
        self._product.multiply(self._buffers[self._next])
        self._next = (self._next + 1) % len(self._buffers)
        self._fresh += 1

    def due(self, worked: float, checking: float) -> bool:
        """Whether every buffer is new, and the seconds worked since the last check are enough for it to take no larger
        share of the time than `checking`."""
        return self._fresh >= len(self) and worked * checking >= self._cost

    def check(self) -> Iterator[Reading | Work]:
        """Hold every bit of every buffer to the first product. One number comes to the host, more if it is not 0."""
        self.products += self._fresh
        self.compared += min(self._fresh, len(self))
        self._fresh = 0
        found: list[torch.Tensor] = []
        self._cost = self._device.timed(lambda: found.append(detect.unequal(self._first, self._buffers)))
        differing = found[0].item()
        yield Reading("wrong", float(detect.wrong(self._first, self._buffers)) if differing else 0.0)
        yield Work(bytes=self.bytes)
        if differing:
            yield Reading("not_finite", float(sum(detect.not_finite(one) for one in self._buffers)))
            self.mismatch = detect.where(self._first, self._buffers)
