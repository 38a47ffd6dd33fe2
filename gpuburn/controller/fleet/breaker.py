"""The circuit breaker: when most hosts fail the same check, the check is suspected before the hosts are.

Says only that it tripped and why; that new starts are held and who releases it is decided elsewhere.
"""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd

SUSPECT = "suspect the test, the image or the fabric"


@dataclass(frozen=True, slots=True)
class Tripped:
    """One check that too many hosts fail. share: of the hosts judged so far."""

    code: str
    about: str
    step: str
    hosts: tuple[str, ...]
    judged: int
    share: float
    why: str


def tripped(failures: pd.DataFrame, judged: int, share: float = 0.5, fewest: int = 8) -> list[Tripped]:
    """The checks that at least `share` of the judged hosts fail, the most frequent first; none below `fewest` hosts.

    failures: one row per finding that fails: host, code, about, step; a host counts once for each check.
    judged: hosts with a verdict. Raises ValueError for a share outside 0..1 or more failing hosts than judged.
    """
    if not 0 < share <= 1:
        raise ValueError(f"a share of {share} is not above 0 and at most 1")
    if failures["host"].nunique() > judged:
        raise ValueError(f"{failures['host'].nunique()} hosts fail, but only {judged} were judged")
    if judged < fewest:
        return []
    found = []
    for check, rows in failures.groupby(["code", "about", "step"], observed=True, sort=True):
        hosts = tuple(sorted(rows["host"].astype(str).unique()))
        code, about, step = map(str, check)
        if len(hosts) >= share * judged:
            part = len(hosts) / judged
            why = f"{len(hosts)} of {judged} hosts fail {code} of {about} in {step or 'no step'}: {SUSPECT}"
            found.append(Tripped(code, about, step, hosts, judged, part, why))
    return sorted(found, key=lambda one: (-len(one.hosts), one.code, one.about, one.step))
