"""attempts.json: the attempts of one run, kept in its folder; its digest stands in the run's journal.

A cache of our own making: written by another version, or with another digest, it is not read.
"""

from __future__ import annotations

import json
from typing import Any, Literal

from gpuburn import __version__, strict
from gpuburn.attempt import Attempt, Leave
from gpuburn.controller.run import Run
from gpuburn.criteria import Criteria
from gpuburn.decision import Case
from gpuburn.finding import Verdict
from gpuburn.journal import Entry
from gpuburn.policy import Policy

FILE = "attempts.json"
EVENT = "attempts"  # the journal's line that names the file's digest
SCHEMA: Literal["gpuburn/attempts/3"] = "gpuburn/attempts/3"
LIMIT = 512 * strict.MEBIBYTE


def write(run: Run, made: dict[str, tuple[str, Attempt]]) -> str:
    """Write the file; returns its digest."""
    criteria = {one.digest: strict.plain(one.criteria) for _, one in made.values() if one.criteria is not None}
    document = {
        "schema": SCHEMA, "version": __version__, "policy": run.policy().digest, "criteria": criteria,
        "attempts": [{"delivery": delivery, **_plain(one)} for delivery, one in made.values()],
    }  # fmt: skip
    data = strict.line(document)
    (run.folder / FILE).write_bytes(data)
    return strict.digest(data)


def _plain(one: Attempt) -> dict[str, Any]:
    return {
        "host": one.host, "kind": one.kind, "level": one.level, "digest": one.digest, "parts": one.parts,
        "versions": one.versions, "reason": one.reason, "leaves": strict.plain(one.leaves), "held": one.held,
        "started": one.started, "suspects": list(one.suspects),
        "cases": {
            profile: [case.reached, str(case.verdict or ""), case.kind, case.level, case.environment,
                      sorted(case.marks)]
            for profile, case in one.cases.items()
        },
    }  # fmt: skip


def read(run: Run, entries: list[Entry]) -> dict[str, tuple[str, Attempt]] | None:
    """{host: (delivery, attempt)}, without causes; None where the file is not what the journal says."""
    file = run.folder / FILE
    noted = next((one.details.get("sha256", "") for one in reversed(entries) if one.event == EVENT), "")
    if not noted or not file.exists():
        return None
    data = strict.load_file(file, LIMIT)
    if strict.digest(data) != noted:
        return None
    document, policy = json.loads(data), run.policy()
    if document["schema"] != SCHEMA or document["version"] != __version__ or document["policy"] != policy.digest:
        return None
    criteria = {digest: strict.build(Criteria, one, FILE) for digest, one in document["criteria"].items()}
    return {one["host"]: (one["delivery"], _attempt(run, one, policy, criteria)) for one in document["attempts"]}


def _attempt(run: Run, one: dict[str, Any], policy: Policy, criteria: dict[str, Criteria]) -> Attempt:
    cases = {
        profile: Case(reached, Verdict(verdict) if verdict else None, kind, level, environment, frozenset(marks))
        for profile, (reached, verdict, kind, level, environment, marks) in one["cases"].items()
    }
    return Attempt(
        run.id, one["host"], run.began(), one["kind"], one["level"], cases, policy, one["digest"],
        criteria.get(one["digest"]), one["parts"], one["versions"], one["reason"], "",
        tuple(Leave(**leave) for leave in one["leaves"]), one["held"], one["started"], tuple(one["suspects"]),
    )  # fmt: skip
