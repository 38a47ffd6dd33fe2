"""Overlay mounts: a host's own layer of changes over read-only trees; it knows nothing of what the trees hold."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from .command import CommandFailed, run
from .packages import Unavailable
from .waiting import until


def mount_overlay(lower: Sequence[Path], upper: Path, work: Path, merged: Path) -> None:
    """Mount `lower` (the undermost first) under `upper` at `merged`; all the folders must exist."""
    stack = ":".join(str(path) for path in reversed(lower))  # the kernel wants the topmost first
    run("mount", "-t", "overlay", "gpuburn-lab", "-o", f"lowerdir={stack},upperdir={upper},workdir={work}", str(merged))


def require_overlay(folder: Path) -> None:
    """Try one overlay below a folder: on some file systems, another overlay among them, the kernel allows none."""
    parts = [folder / "trial" / part for part in ("lower", "upper", "work", "merged")]
    for part in parts:
        part.mkdir(parents=True)
    try:
        mount_overlay(parts[:1], *parts[1:])
    except CommandFailed as error:
        raise Unavailable(f"the file system of {folder} takes no overlay: {error}") from error
    unmount_below(folder / "trial")


def below(folder: Path) -> list[Path]:
    """The mount points at or below a folder, the one mounted last first."""
    lines = Path("/proc/self/mountinfo").read_text().splitlines()
    points = [Path(line.split()[4].encode().decode("unicode_escape")) for line in lines]
    return [point for point in reversed(points) if point.is_relative_to(folder)]


def unmount_below(folder: Path) -> None:
    """Unmount everything at or below a folder; a mount stays busy for a moment after its last process has ended."""
    for point in below(folder):
        until(partial(_unmounted, point), f"{point} to be unmounted", timeout=15)


def _unmounted(point: Path) -> bool:
    try:
        return run("umount", str(point), check=False).returncode == 0
    except subprocess.TimeoutExpired:
        return False
