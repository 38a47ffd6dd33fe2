"""The bits of tensors: a checksum that can be compared over devices, and their bytes for a file."""

from __future__ import annotations

import ctypes

import torch

PIECE = 2**24  # elements summed at a time: their int64 copies stay below 400 MB whatever the tensor's size
WORD = 2**64 - 1
INTEGERS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


def checksum(*tensors: torch.Tensor) -> str:
    """Two 64-bit sums over all bits, plain and weighted by position, in hex: equal bits have equal sums.

    Integer sums wrap, so they depend on no order of summation; any single flipped bit changes the plain one.
    """
    plain = weighted = position = 0
    for tensor in tensors:
        flat = tensor.detach().contiguous().flatten().view(INTEGERS[tensor.element_size()])
        for piece in torch.split(flat, PIECE):
            words = piece.to(torch.int64)
            places = torch.arange(position + 1, position + 1 + words.numel(), device=words.device)
            plain += int(words.sum().item())
            weighted += int((words * places).sum().item())
            position += words.numel()
    return f"{plain & WORD:016x}{weighted & WORD:016x}"


def trace(tensor: torch.Tensor) -> torch.Tensor:
    """The sum of a tensor's bits as integers, left on its device: one pass, no copy, moved by any flipped bit."""
    return tensor.view(INTEGERS[tensor.element_size()]).sum(dtype=torch.int64)


def memory(tensor: torch.Tensor) -> memoryview:
    """The bytes of a contiguous host tensor, without a copy; valid as long as the tensor lives."""
    if tensor.device.type != "cpu" or not tensor.is_contiguous():
        raise ValueError(f"no bytes of a tensor on {tensor.device} with strides {tensor.stride()}")
    size = tensor.numel() * tensor.element_size()
    return memoryview((ctypes.c_char * size).from_address(tensor.data_ptr())).cast("B")
