"""A cgroup for each host. Two systemd-nspawn started from one cgroup would share `payload` and fight over its units.

They are also the kernel's own record of which processes belong to the lab, for what is left after a crash.
"""

from __future__ import annotations

import contextlib
from pathlib import Path

from .packages import Unavailable
from .waiting import until


def own() -> list[Path]:
    """This process's folder in each hierarchy that systemd-nspawn uses: cgroup v2, then v1's name=systemd if any."""
    places = dict(line.split(":", 2)[1:] for line in Path("/proc/self/cgroup").read_text().splitlines())
    found: dict[str, Path] = {}
    for line in Path("/proc/mounts").read_text().splitlines():
        _, point, kind, options = line.split()[:4]
        if kind == "cgroup2" and "" in places:
            found.setdefault("2", Path(point + places[""]))
        elif kind == "cgroup" and "name=systemd" in options.split(",") and "name=systemd" in places:
            found.setdefault("1", Path(point + places["name=systemd"]))
    if "2" not in found or not (found["2"] / "cgroup.procs").exists():
        raise Unavailable("the lab needs a mounted cgroup v2 hierarchy (alone or beside v1), and there is none here")
    return [found[version] for version in sorted(found, reverse=True)]


def create(name: str) -> list[Path]:
    """The lab's own cgroups, below those of this process."""
    folders = [folder / name for folder in own()]
    for folder in folders:
        try:
            folder.mkdir()
        except OSError as error:
            raise Unavailable(f"this machine gives the lab no cgroup: {error}") from error
    return folders


def kill(folder: Path) -> None:
    """End every process at or below a cgroup of the lab's, where the kernel can (cgroup v2)."""
    if (folder / "cgroup.kill").exists():
        (folder / "cgroup.kill").write_text("1")


def remove(folder: Path) -> None:
    """Remove a cgroup with all below it; the kernel takes a moment to let go of processes that have just ended."""
    until(lambda: _removed(folder), f"the cgroup {folder} to be empty and removed", timeout=15)


def _removed(folder: Path) -> bool:
    if not folder.is_dir():
        return True
    with contextlib.suppress(OSError):
        for path in sorted((path for path in folder.rglob("*") if path.is_dir()), reverse=True):
            path.rmdir()
        folder.rmdir()
    return not folder.exists()
