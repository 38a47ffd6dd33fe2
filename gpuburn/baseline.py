"""A baseline: what one run measured, kept under a name, so that later runs can be compared with it or judged by it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from gpuburn import strict
from gpuburn.measurement import Point
from gpuburn.strict import Refused

SCHEMA: Literal["gpuburn/baseline/1"] = "gpuburn/baseline/1"


@dataclass(frozen=True, slots=True)
class Entry:
    """One quantity over all devices that passed: median of values in unit, devices counted, and how it was measured.

    method: digest of probe, revision, parameters, environment and threads of the step; other methods never compare.
    """

    step: str
    about: str
    unit: str
    point: Point
    median: float
    devices: int
    method: str


@dataclass(frozen=True, slots=True)
class Baseline:
    """saved: unix seconds. digest of the file stands in every plan that uses it."""

    schema: Literal["gpuburn/baseline/1"]
    name: str
    run: str
    sku: str
    kind: str
    level: str
    saved: float
    entries: list[Entry]

    def entry(self, step: str, about: str, point: Point) -> Entry | None:
        return next((e for e in self.entries if (e.step, e.about, e.point) == (step, about, point)), None)


def load(path: Path) -> Baseline:
    """Read a baseline strictly."""
    document = strict.loads(strict.load_file(path), str(path))
    if not isinstance(document, dict) or document.get("schema") != SCHEMA:
        raise Refused(f"{path}: not a baseline; wanted is schema {SCHEMA!r}, written by `gpuburn baseline save`")
    return strict.build(Baseline, document, path.name)
