"""One control group per step, where the supervisor has one of its own (cgroup v2): it ends a whole tree for sure."""

from __future__ import annotations

import errno
import os
import time
from pathlib import Path

EMPTY = 5.0  # seconds that a group has to become empty once all of its processes were ended


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

    def remove(self, seconds: float = EMPTY) -> bool:
        """Remove the group; whether it is gone. One with an unkillable process stays.

        A process that is about to end is listed no more and still holds its group: the kernel says EBUSY until then,
        which is waited for.
        """
        end = time.monotonic() + seconds
        while self.folder and not self.pids():
            try:
                self.folder.rmdir()
            except OSError as error:
                if error.errno != errno.EBUSY:
                    raise
                if time.monotonic() > end:
                    return False  # an empty group harms nobody; what the step came to stands
                time.sleep(0.02)
            else:
                return True
        return self.folder is None
