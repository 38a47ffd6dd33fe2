"""The one output of a run on a host: result.json, and beside it the evidence whose digests it names."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from gpuburn import strict
from gpuburn.finding import Finding, Verdict
from gpuburn.identity import HostRecord
from gpuburn.outcome import Outcome
from gpuburn.plan import Device, Environment, Kind, LeftOut, Level
from gpuburn.strict import Refused

SCHEMA: Literal["gpuburn/result/1"] = "gpuburn/result/1"
LIMIT = 16 * strict.MEBIBYTE  # bytes of result.json: 8 GPUs and 30 steps need about 1 MiB
NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,99}(/[A-Za-z0-9_][A-Za-z0-9._-]{0,99}){0,8}")
NOT_EVIDENCE = ("result.json", "state.json", "lock", "pid", "stop", "agent.log", "sealed.tar.gz")
SCRATCH = "scratch"


@dataclass(frozen=True, slots=True)
class Result:
    """started and ended: unix seconds of the host. ended_as: whether all of the plan was gone through."""

    schema: Literal["gpuburn/result/1"]
    run: str
    delivery: str
    host: str
    hostname: str
    kind: Kind
    environment: Environment
    level: Level
    nonce: str
    plan_sha256: str
    started: float
    ended: float
    ended_as: Literal["finished", "aborted", "deadline"]
    devices: list[Device]
    record: HostRecord
    outcomes: list[Outcome]
    findings: list[Finding]
    verdicts: dict[str, Verdict]
    left_out: list[LeftOut]
    versions: dict[str, str]
    evidence: dict[str, str] = field(default_factory=dict)
    criteria: str = ""


def decode(data: bytes, where: str = "result.json") -> Result:
    """Read a result strictly: schema, keys and types, finite numbers. Raises Refused."""
    document = strict.loads(data, where, LIMIT)
    if not isinstance(document, dict) or document.get("schema") != SCHEMA:
        found = document.get("schema") if isinstance(document, dict) else document
        raise Refused(f"{where}: schema {strict.short(found)}, this version reads {SCHEMA!r}")
    return strict.build(Result, document, where)


def evidence(folder: Path) -> dict[str, str]:
    """Relative path -> SHA-256 of every file that no longer changes. A link or an odd name is refused."""
    found = {}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if name in NOT_EVIDENCE or SCRATCH in path.relative_to(folder).parts:
            continue
        if path.is_symlink():
            raise Refused(f"{name}: a link is no evidence")
        if path.is_file():
            if not NAME.fullmatch(name):
                raise Refused(f"{name!r}: a name of evidence is letters, digits and ._-")
            found[name] = strict.digest_file(path)
    return found
