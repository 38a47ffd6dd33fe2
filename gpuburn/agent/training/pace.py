"""Work of a fixed length for a step of a loop: matrix products, as many as fill the time at rest."""

from __future__ import annotations

import torch

from gpuburn.agent.device import Device


class Products:
    """size x size products in a number format, about so many seconds of them; calibrated on the device when made."""

    def __init__(self, device: Device, size: int, dtype: str, seconds: float) -> None:
        kind = getattr(torch, dtype)
        self._left, self._right = (torch.ones(size, size, dtype=kind, device=device.torch) for _ in range(2))
        self._rounds = device.calibrate(self._multiply, seconds)

    def __call__(self) -> None:
        for _ in range(self._rounds):
            self._multiply()

    def _multiply(self) -> None:
        torch.matmul(self._left, self._right)
