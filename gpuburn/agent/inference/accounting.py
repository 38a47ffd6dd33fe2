"""How many bytes of tensors exist, counted where no allocator tells: on a CPU.

Counts each storage that an operator returns until it is freed. Does not see what an operator takes and frees inside.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


class Account(TorchDispatchMode):  # type: ignore[no-untyped-call]  # torch leaves its hooks untyped
    """While entered, new storages are entered in the account; live and peak are bytes."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.live = self.peak = 0
        self._known: set[int] = set()

    def __torch_dispatch__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        out = func(*args, **(kwargs or {}))
        for leaf in tree_leaves(out):
            if isinstance(leaf, torch.Tensor) and leaf.device.type != "meta":
                self._enter(leaf.untyped_storage())
        return out

    def _enter(self, storage: torch.UntypedStorage) -> None:
        address, size = storage.data_ptr(), storage.nbytes()
        if not size or address in self._known:
            return
        self._known.add(address)
        self.live += size
        self.peak = max(self.peak, self.live)
        weakref.finalize(storage, self._leave, address, size).atexit = False

    def _leave(self, address: int, size: int) -> None:
        self._known.discard(address)
        self.live -= size
