"""Which file system a path lies on, as /proc/self/mountinfo says, and whether other hosts may write to it as well."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

MOUNTS = Path("/proc/self/mountinfo")
LOCAL = "local disk only"  # how a fact begins where the site names no path
OWN, SHARED = "this host's own", "shared with other hosts"
# File systems of a network, of a cluster, or of the machine around a virtual one; and all of FUSE but block devices'.
NETWORKS = frozenset(
    [
        "nfs",
        "nfs4",
        "cifs",
        "smb3",
        "9p",
        "virtiofs",
        "lustre",
        "ceph",
        "gpfs",
        "beegfs",
        "beegfs_nodev",
        "wekafs",
        "glusterfs",
        "panfs",
        "pvfs2",
        "orangefs",
        "afs",
        "gfs2",
        "ocfs2",
        "daos",
        "vastnfs",
        "quobyte",
    ]
)
OCTAL = re.compile(r"\\([0-7]{3})")


@dataclass(frozen=True, slots=True)
class Mount:
    """kind: the file system's type in the kernel's word. point: where it is mounted."""

    kind: str
    point: str

    @property
    def shared(self) -> bool:
        return self.kind in NETWORKS or self.kind.startswith("fuse.")

    def __str__(self) -> str:
        return f"{self.kind} at {self.point}, {SHARED if self.shared else OWN}"


def of(path: Path, mounts: Path = MOUNTS) -> Mount:
    """The mount that a path lies on: the innermost, and of two at one place the later. Raises OSError where none is."""
    place, found = path.resolve(), None
    for mount in parse(mounts.read_text(errors="replace")):
        if place.is_relative_to(mount.point) and (not found or len(mount.point) >= len(found.point)):
            found = mount
    if not found:
        raise OSError(f"{mounts}: no mount holds {place}")
    return found


def parse(text: str) -> list[Mount]:
    """Lines as in proc(5): six fields, any number of optional ones, a lone hyphen, type, source, options."""
    found = []
    for line in text.splitlines():
        before, hyphen, after = line.partition(" - ")
        fields, kind = before.split(" "), after.split(" ")[0]
        if hyphen and kind and len(fields) >= 6:
            found.append(Mount(kind, OCTAL.sub(lambda one: chr(int(one[1], 8)), fields[4])))
    return found


def told(directory: str, place: Path, mounts: Path = MOUNTS) -> str:
    """What a reader must know of the storage under a step: without a path of the site's it is the agent's own disk."""
    mount = of(place, mounts)
    if directory:
        return str(mount)
    return f"{LOCAL}: the agent's own, {mount.kind} at {mount.point}" if not mount.shared else f"no path given: {mount}"
