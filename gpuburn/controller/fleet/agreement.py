"""What must be the same over a cohort, what must be everywhere the same software, and what may exist only once.

Equality only: how large a difference may be is no question here. Who is wrong is said by a strict majority.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pandas as pd

from gpuburn import agreement

CHECK = ["cohort", "about", "step", "point"]


@dataclass(frozen=True, slots=True)
class Odd:
    """One device that says something else. stance: "minority", or "undecided" where no majority says what is right."""

    host: str
    subject: str
    cohort: str
    about: str
    step: str
    point: str
    value: str
    majority: str
    stance: str
    why: str


@dataclass(frozen=True, slots=True)
class Duplicate:
    """One identity (kind: "serial", "uuid", ...) claimed more than once; every claim is named as (host, subject)."""

    kind: str
    value: str
    claims: tuple[tuple[str, str], ...]
    why: str


def odd(facts: pd.DataFrame) -> list[Odd]:
    """Who disagrees in each cohort, about, step and point; all are undecided where no value has more than half.

    facts: host, cohort, about, step, point, value (str), and subject where devices speak for themselves. Serves
    checksums and versions of firmware, driver and software alike. A host that says two things is never a majority.
    """
    known = facts if "subject" in facts else facts.assign(subject="host")
    mixed = known.groupby(CHECK, observed=True, sort=True)["value"].transform("nunique") > 1
    found: list[Odd] = []
    for check, rows in known[mixed].groupby(CHECK, observed=True, sort=True):
        found.extend(_in_one(tuple(map(str, check)), rows))
    return found


def _in_one(check: tuple[str, ...], rows: pd.DataFrame) -> Iterator[Odd]:
    named = zip(rows["host"].astype(str), rows["subject"].astype(str), rows["value"].astype(str))
    said = {f"{i}": one for i, one in enumerate(sorted(set(named)))}
    stances = agreement.disagreeing({key: value for key, (_, _, value) in said.items()})
    majority = next((value for key, (_, _, value) in said.items() if key not in stances), "")
    cohort, about, step, point = check
    for key, stance in stances.items():
        host, subject, value = said[key]
        why = (
            f"{about} is {value!r}; {len(said) - len(stances)} of {len(said)} in {cohort} say {majority!r}"
            if majority or stance == "minority"
            else f"{about} is {value!r}; no value has more than half of the {len(said)} in {cohort}"
        )
        yield Odd(host, subject, cohort, about, step, point, value, majority, stance, why)


def duplicates(identities: pd.DataFrame) -> list[Duplicate]:
    """Serials, UUIDs and the like that more than one device claims, on one host or on several.

    identities: host, subject, kind, value (str); an empty value claims nothing. The same row twice is one claim.
    """
    some = identities[identities["value"].astype(str) != ""].drop_duplicates(["host", "subject", "kind", "value"])
    twice = some[some.duplicated(["kind", "value"], keep=False)]
    found = []
    for (kind, value), rows in twice.groupby(["kind", "value"], observed=True, sort=True):
        claims: Sequence[tuple[str, str]] = sorted(zip(rows["host"].astype(str), rows["subject"].astype(str)))
        places = ", ".join(f"{host} {subject}" for host, subject in claims)
        found.append(Duplicate(str(kind), str(value), tuple(claims), f"{kind} {value} is claimed by {places}"))
    return found
