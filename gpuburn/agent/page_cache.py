"""What the kernel keeps of a file in memory: asked for, and dropped, so that a read is a read of the storage."""

from __future__ import annotations

import ctypes
import mmap
import os
from pathlib import Path


def evict(path: Path) -> None:
    """Ask the kernel to drop a file, which must be synced, from its page cache."""
    with path.open("rb") as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def cached(path: Path) -> float:
    """The share of a file's pages that are in the page cache, as mincore(2) says of a file that is ours."""
    size, page = path.stat().st_size, mmap.PAGESIZE
    pages = -(-size // page)
    resident = (ctypes.c_ubyte * pages)()
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mincore.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p]
    how = {"flags": mmap.MAP_PRIVATE, "prot": mmap.PROT_READ | mmap.PROT_WRITE}  # from_buffer wants it writable
    with path.open("rb") as file, mmap.mmap(file.fileno(), size, **how) as view:
        start = ctypes.c_char.from_buffer(view)
        status = libc.mincore(ctypes.addressof(start), size, resident)
        del start  # else the map cannot be closed
    if status != 0:
        raise OSError(ctypes.get_errno(), f"mincore of {path}")
    return sum(one & 1 for one in bytes(resident)) / pages
