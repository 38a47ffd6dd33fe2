"""How far a run is: state.json, replaced as a whole so that a reader never sees half of it. Not evidence."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path

from gpuburn import strict
from gpuburn.agent.kernel_log import NOW
from gpuburn.strict import Refused

REPORT = "bug_report"  # the run's folder of what is kept for the vendor, from the first hardware finding on


@dataclass(frozen=True, slots=True)
class State:
    """Times are unix seconds; expected is the seconds that the whole plan should take. attempts: per step, from 1.

    boot: the id of the boot that the supervisor runs in. kernel_log: the last record that it read there.
    """

    run: str
    pid: int
    phase: str = "starting"
    step: str = ""
    number: int = 0
    of: int = 0
    step_started: float = 0.0
    step_expected: float = 0.0
    started: float = 0.0
    expected: float = 0.0
    deadline: float = 0.0
    updated: float = 0.0
    attempts: dict[str, int] = field(default_factory=dict)
    boot: str = ""
    kernel_log: int = NOW


def write(path: Path, data: bytes, mode: int = 0o644) -> None:
    """Replace a file as a whole and durably: temporary, fsync, rename, fsync of the folder."""
    temporary = path.with_name(f".{path.name}.tmp")
    temporary.unlink(missing_ok=True)
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, mode)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def save(folder: Path, state: State) -> None:
    write(folder / "state.json", strict.encode(state))


def load(folder: Path) -> State | None:
    """The state that an earlier process left; None where there is none. A state that does not parse is refused."""
    path = folder / "state.json"
    if not path.exists():
        return None
    state = strict.build(State, strict.loads(strict.load_file(path), "state.json"), "state.json")
    if not state.run:
        raise Refused("state.json: no run")
    return state
