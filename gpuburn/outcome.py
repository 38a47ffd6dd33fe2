"""What became of a step: how its execution went, what it did and what it measured. Not yet a judgement."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import Any

from gpuburn.measurement import Fact, Measurement, Work
from gpuburn.strict import Refused


class Status(str, enum.Enum):
    """How an execution went; says nothing about the hardware being good."""

    COMPLETED = "completed"
    ERRORED = "errored"
    TIMED_OUT = "timed_out"
    ABORTED = "aborted"
    UNKILLABLE = "unkillable"

    def __str__(self) -> str:
        return str(self.value)


@dataclass(frozen=True, slots=True)
class SubjectOutcome:
    """How one device (or the host) fared in a step, and what it did."""

    subject: str
    status: Status
    why: str = ""
    work: Work = field(default_factory=Work)


@dataclass(frozen=True, slots=True)
class GuardTrip:
    """A bound that was crossed on the host, and what was seen."""

    guard: str
    subject: str
    value: float
    why: str


@dataclass(frozen=True, slots=True)
class Outcome:
    """One step, as a whole and per subject. Times are unix seconds of the host; attempt counts from 1."""

    step: str
    probe: str
    revision: int
    status: Status
    why: str
    started: float
    seconds: float
    attempt: int
    subjects: list[SubjectOutcome]
    measurements: list[Measurement]
    facts: list[Fact]
    trips: list[GuardTrip] = field(default_factory=list)
    environment: dict[str, str] = field(default_factory=dict)
    params: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        names = [one.subject for one in self.subjects]
        if len(set(names)) != len(names):
            raise Refused(f"outcome of {self.step}: a subject is listed twice in {names}")
