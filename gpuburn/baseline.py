"""A baseline: what one run measured, kept under a name, so that later runs can be compared with it or judged by it."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from gpuburn import strict
from gpuburn.measurement import Point
from gpuburn.plan import NAME, Step
from gpuburn.strict import Refused

SCHEMA: Literal["gpuburn/baseline/1"] = "gpuburn/baseline/1"
FOLDER = "baselines"
LIMIT = 64 * strict.MEBIBYTE  # bytes: 10,000 hosts of 8 devices and 20 quantities need 40


@dataclass(frozen=True, slots=True)
class Entry:
    """One quantity over all devices that passed: median of values in unit, devices counted, and how it was measured.

    method: digest of probe, revision, parameters, environment and threads of the step; other methods never compare.
    better: higher or lower. spread: median absolute deviation of the devices, times 1.4826, over the median.
    values: {host: one value a device}, in unit.
    """

    step: str
    about: str
    unit: str
    point: Point
    median: float
    devices: int
    method: str
    better: Literal["", "higher", "lower"] = ""
    spread: float | None = None
    values: dict[str, list[float]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Baseline:
    """saved: unix seconds. count: devices of each host (0: not known). hosts: whose devices these are, all passed.
    serials: every serial number and UUID of theirs, so that nobody is judged by itself under another name.

    steps: as planned, so that what was measured otherwise can be named. versions: {driver, torch: those told}.
    """

    schema: Literal["gpuburn/baseline/1"]
    name: str
    run: str
    sku: str
    kind: str
    level: str
    saved: float
    entries: list[Entry]
    count: int = 0
    hosts: list[str] = field(default_factory=list)
    versions: dict[str, list[str]] = field(default_factory=dict)
    steps: list[Step] = field(default_factory=list)
    serials: list[str] = field(default_factory=list)

    def entry(self, step: str, about: str, point: Point) -> Entry | None:
        return next((e for e in self.entries if (e.step, e.about, e.point) == (step, about, point)), None)

    def step(self, name: str) -> Step | None:
        return next((step for step in self.steps if step.name == name), None)

    @property
    def digest(self) -> str:
        """SHA-256 of the canonical baseline: stands in the journal of every run and in every plan that uses it."""
        return strict.digest(strict.encode(self))

    def fits(self, sku: str, kind: str, run: str = "") -> str:
        """Why hosts of this SKU and kind, in this run, cannot be judged by it; "" if they can."""
        if run == self.run:
            return f"baseline {self.name} was made of run {run} itself; wanted is a baseline of another run"
        if (sku, kind) == (self.sku, self.kind):
            return ""
        mine, other = f"{self.kind} {self.sku}".strip(), f"{kind} {sku}".strip()
        return f"baseline {self.name} is of {mine}, this host is {other}; wanted is a baseline of the same SKU and kind"


def named(folder: Path, name: str) -> Path:
    """The file of a baseline among the reports, or in a run's folder. A name that is not a plain one is refused."""
    if not NAME.fullmatch(name):
        raise Refused(f"baseline {name!r}: wanted is a plain name: letters, digits, _ and -, at most 60")
    return folder / FOLDER / f"{name}.json"


def load(path: Path) -> Baseline:
    """Read a baseline strictly."""
    document = strict.loads(strict.load_file(path, LIMIT), str(path), LIMIT)
    if not isinstance(document, dict) or document.get("schema") != SCHEMA:
        raise Refused(f"{path}: not a baseline; wanted is schema {SCHEMA!r}, written by `gpuburn baseline save`")
    found = strict.build(Baseline, document, path.name)
    if path.stem != found.name:
        raise Refused(f"{path}: is baseline {found.name!r}; a baseline keeps the name that it was saved under")
    return found
