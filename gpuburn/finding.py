"""A finding: one demand against what was seen, with a stable code. codes.yml says what each code means and asks for."""

from __future__ import annotations

import enum
import functools
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from gpuburn import strict
from gpuburn.measurement import NOWHERE, Point
from gpuburn.plan import HOST
from gpuburn.strict import Refused, known

FILE = Path(__file__).parent / "codes.yml"


class Verdict(str, enum.Enum):
    """What a finding says; a profile's verdict is the worst of pass, fail and incomplete."""

    PASS = "pass"
    FAIL = "fail"
    INCOMPLETE = "incomplete"
    NOT_APPLICABLE = "not_applicable"

    def __str__(self) -> str:
        return str(self.value)


@dataclass(frozen=True, slots=True)
class Finding:
    """One demand against what was seen.

    code: what was demanded and how it ended, stable for machines. about: probe.metric, step or host.
    profiles: whose verdicts it enters. evidence: the file in the run folder that shows it.
    """

    code: str
    about: str
    verdict: Verdict
    why: str
    source: str
    profiles: tuple[str, ...]
    step: str = ""
    subject: str = HOST
    point: Point = NOWHERE
    marginal: bool = False
    severity: str = ""
    action: str = ""
    evidence: str = ""


@dataclass(frozen=True, slots=True)
class Code:
    """severity: of a finding with this code that is no plain pass. action: what a person does about it."""

    severity: Literal["critical", "major", "minor", "info"]
    doc: str
    action: str = ""


@functools.cache
def codes(path: Path = FILE) -> dict[str, Code]:
    """Every code. One that is graver than info says what to do about it."""
    found = strict.build(dict[str, Code], strict.load_yaml(path), path.name)
    for name, one in found.items():
        if one.severity != "info" and not one.action:
            raise Refused(f"{path.name}: {name}: severity {one.severity} needs an action")
    return found


def finding(
    code: str, about: str, verdict: Verdict, why: str, source: str, profiles: tuple[str, ...], action: str = "",
    marginal: bool = False, **more: object,
) -> Finding:  # fmt: skip
    """A finding with the severity and the suggested action of its code; a plain pass has neither."""
    known(code, codes(), "code of a finding")
    told = codes()[code]
    plain = verdict in (Verdict.PASS, Verdict.NOT_APPLICABLE) and not marginal
    severity = "" if plain else "minor" if told.severity == "info" else told.severity
    return Finding(
        code, about, verdict, why, source, profiles, marginal=marginal, severity=severity,
        action="" if plain else action or told.action or MARGINAL, **more,  # type: ignore[arg-type]
    )  # fmt: skip


MARGINAL = "repeat the run: it passed near the edge"
