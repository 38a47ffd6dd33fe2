"""What one host showed of itself before anything ran on it. It may print anything: it is read strictly, by itself."""

from __future__ import annotations

from dataclasses import dataclass, field

from gpuburn import strict
from gpuburn.strict import Refused

LIMIT = 65536  # bytes; a look of ours has about 500
FIRST = 40  # characters of what was printed instead that a person is shown


@dataclass(frozen=True, slots=True)
class Look:
    """What roles/preflight/files/look.py saw on a host. time: unix seconds; busy: processes that hold a GPU.

    storage: why the workers cannot write to the path that the site names; "" where they can, or none is named.
    """

    python: str
    os: str
    architecture: str
    free_disk_gib: float
    memory_gib: float
    time: float
    uid: int
    systemd: bool
    gpus: list[str] = field(default_factory=list)
    busy: list[str] = field(default_factory=list)
    unfinished: list[str] = field(default_factory=list)
    storage: str = ""


def read(printed: str) -> Look:
    """The look that a host printed; Refused, in one line, for anything but one object of the form above."""
    try:
        return strict.build(Look, strict.loads(printed.encode("utf-8", "surrogatepass"), "look", LIMIT), "look")
    except Refused as error:
        if printed.lstrip().startswith("{"):
            raise
        shown = "".join(one if one.isprintable() else "?" for one in printed.strip()[:FIRST])
        raise Refused(f"{error}; it printed {shown!r} first: login and Python there must print nothing") from None
