"""One control group per step, where the supervisor has one of its own (cgroup v2): it ends a whole tree for sure."""

from __future__ import annotations

import os
from pathlib import Path


def own(proc: Path = Path("/proc/self")) -> Path | None:
    """The folder of this process's cgroup v2, if it is mounted and writable."""
    mounted = [
        fields[4]
        for fields in (line.split() for line in (proc / "mountinfo").read_text().splitlines())
        if fields[fields.index("-") + 1] == "cgroup2"
    ]
    paths = [line[3:] for line in (proc / "cgroup").read_text().splitlines() if line.startswith("0::")]
    if not mounted or not paths:
        return None
    folder = Path(mounted[0] + paths[0].rstrip("/"))
    return folder if os.access(folder, os.W_OK) and (folder / "cgroup.procs").exists() else None


class Group:
    """folder is None where there is no cgroup of our own: then processes are ended by their recorded pids."""

    def __init__(self, name: str) -> None:
        parent = own() if os.geteuid() == 0 else None
        self.folder: Path | None = None
        if parent is None:
            return
        folder = parent / f"gpuburn-{name}"
        try:
            folder.mkdir(exist_ok=True)
        except OSError:
            return  # a read-only or full hierarchy: the recorded pids do it
        if (folder / "cgroup.kill").exists():
            self.folder = folder

    def join(self) -> None:
        """Move the calling process in; all its children will be in too."""
        if self.folder:
            (self.folder / "cgroup.procs").write_text(str(os.getpid()))

    def pids(self) -> list[int]:
        return [int(line) for line in (self.folder / "cgroup.procs").read_text().split()] if self.folder else []

    def kill(self) -> None:
        """SIGKILL for every process in the group, at once."""
        if self.folder:
            (self.folder / "cgroup.kill").write_text("1")

    def remove(self) -> None:
        """Remove the group if it is empty; one with an unkillable process stays."""
        if self.folder and not self.pids():
            self.folder.rmdir()
