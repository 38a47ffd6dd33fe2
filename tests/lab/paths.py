"""Paths of a host seen from this machine: links are followed inside the host's tree and never out of it."""

from __future__ import annotations

import os
from collections import deque
from pathlib import Path, PurePosixPath


def inside(root: Path, path: str) -> Path:
    """Where an absolute path of the host lies below `root`; an absolute link starts again at the host's own root."""
    if not path.startswith("/"):
        raise ValueError(f"a path on a host is absolute, and {path!r} is not")
    at, rest, links = root, deque(PurePosixPath(path).parts[1:]), 0
    while rest:
        part = rest.popleft()
        step = at / part
        if part == "..":
            at = at if at == root else at.parent
        elif step.is_symlink():
            links += 1
            if links > 40:
                raise OSError(f"too many links on the way to {path}")
            target = PurePosixPath(os.readlink(step))
            at = root if target.is_absolute() else at
            rest.extendleft(reversed([part for part in target.parts if part != "/"]))
        else:
            at = step
    return at
