"""Processes that end with the one that started them, however that came about: the kernel's death signal."""

from __future__ import annotations

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
INIT = 1


def tie(parent: int) -> None:
    """End this process (SIGKILL) when its parent ends. Called in a child before exec, where it outlives the exec.

    parent: the pid that started us; if that is gone already, this process ends now instead of never.
    """
    if ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG)")
    if os.getppid() != parent:
        os._exit(1)


def adopt(orphans: bool = True) -> None:
    """Become the parent of all descendants whose own parent ends, so that none can slip away to init; or no longer."""
    if ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, int(orphans), 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_CHILD_SUBREAPER)")


def die_with_parent() -> None:
    """The same for a process that was started by another's code (torchrun): whoever its parent is now."""
    parent = os.getppid()
    if parent == INIT:
        sys.exit("the parent was gone before the worker began")
    tie(parent)
