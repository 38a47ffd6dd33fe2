"""A waiver: a named person's dated, expiring acceptance of one failed quantity on listed serials. Pure.

It never makes a finding better: the finding stays a fail, and the decision says that it was waived. What is missing or
incomplete cannot be waived, nor can a doubt about which machine this is.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

import yaml

from gpuburn import identity, manifest, profile, strict
from gpuburn.finding import Finding, Verdict, codes
from gpuburn.plan import HOST, Guard
from gpuburn.probe import discover
from gpuburn.strict import Refused, known
from gpuburn.telemetry import TELEMETRY

# A waiver names a part by its serial; where the serial itself is in doubt, it names nothing.
IN_DOUBT = ("identity.changed", "fleet.duplicate")


@dataclass(frozen=True, slots=True)
class Waiver:
    """about: probe.metric, a step, a guard or what a finding on the host is about. code: empty is any that failed.

    serials: of devices (serial or UUID) or, for a finding on the host, of the host. date, expires: YYYY-MM-DD, both
    days belong to it.
    """

    id: str
    person: str
    about: str
    serials: tuple[str, ...]
    reason: str
    date: str
    expires: str
    code: str = ""

    def __post_init__(self) -> None:
        for name in ("id", "person", "reason"):
            if not str(getattr(self, name)).strip():
                raise Refused(f"{name!r} is empty; wanted is {WISH[name]}")
        if not self.serials or any(not one.strip() or identity.is_junk(one) for one in self.serials):
            raise Refused(f"'serials' is {list(self.serials)}; wanted are the serials of the parts, at least one")
        if len(set(self.serials)) != len(self.serials):
            raise Refused("'serials' names one part twice")
        for name in ("date", "expires"):
            day(getattr(self, name), name)
        if not self.date < self.expires:
            raise Refused(f"'expires' is {self.expires}; wanted is a day after its date, {self.date}")


WISH = {"id": "a name of its own", "person": "who waives it", "reason": "why it may be waived"}


def load(path: Path) -> list[Waiver]:
    """Read a file of waivers (a YAML list) strictly. Raises Refused with file, entry and wish."""
    try:
        document = strict.load_yaml(path)
    except OSError as error:
        raise Refused(f"{path}: cannot be read: {error.strerror}") from None
    except Refused:
        raise
    except ValueError as error:  # a date that no calendar has, which YAML makes one of by itself
        raise Refused(f"{path}: {error}") from None
    if not isinstance(document, list):
        raise Refused(f"{path}: wanted is a list of waivers, each with {', '.join(Waiver.__dataclass_fields__)}")
    return check(strict.build(list[Waiver], [_dated(one) for one in document], path.name), path.name)


def check(waivers: list[Waiver], where: str) -> list[Waiver]:
    """Refuse a waiver that can never apply, and two of one id."""
    names, seen = abouts(), set()
    for index, one in enumerate(waivers):
        here = f"{where}[{index}] ({one.id})"
        known(one.about, names, f"{here}: about")
        if one.code:
            known(one.code, codes(), f"{here}: code")
        if one.id in seen:
            raise Refused(f"{here}: the id is there twice; wanted is one of its own")
        seen.add(one.id)
    return waivers


def abouts() -> set[str]:
    """Everything that a finding may be about."""
    promised = {f"{probe.name}.{name}" for probe in [*discover().values(), TELEMETRY] for name in probe.promises}
    steps = {step.name for name in profile.names() for step in profile.load(name).steps}
    own = {f"identity.{name}" for name in (*identity.REQUIRED, *identity.NEEDS_ROOT)}
    return promised | steps | own | manifest.ABOUTS | {HOST, "kernel_log", *get_args(strict.hints(Guard)["name"])}


def digest(waivers: Iterable[Waiver]) -> str:
    """SHA-256 of the waivers, however the file is laid out."""
    return strict.digest(strict.encode(sorted(waivers, key=lambda one: one.id)))


def dump(waivers: Iterable[Waiver]) -> str:
    """As the YAML that load() reads."""
    entries = [{key: value for key, value in strict.plain(one).items() if value} for one in waivers]
    return yaml.safe_dump(entries, sort_keys=False, allow_unicode=True, width=120)


def unusable(waiver: Waiver, day: str) -> str:
    """Why the waiver does not hold on this day (YYYY-MM-DD); "" if it does."""
    if day < waiver.date:
        return f"not valid before {waiver.date}; the run is of {day}"
    if day > waiver.expires:
        return f"expired on {waiver.expires}; the run is of {day}"
    return ""


def usable(waiver: Waiver, day: str) -> bool:
    return not unusable(waiver, day)


def mismatch(waiver: Waiver, finding: Finding, serials: Iterable[str]) -> str:
    """Why the waiver does not waive this finding, whose subject has these serials; "" if it does."""
    if finding.about != waiver.about:
        return f"is about {finding.about}"
    if waiver.code and finding.code != waiver.code:
        return f"its code is {finding.code}, waived is {waiver.code}"
    if finding.verdict is not Verdict.FAIL:
        return f"is {finding.verdict}; only what failed can be waived"
    if finding.code in IN_DOUBT:
        return f"{finding.code} cannot be waived: it puts the serial itself in doubt"
    if not set(waiver.serials) & set(serials):
        return "failed on a part whose serial is not among the waiver's"
    return ""


def _dated(entry: Any) -> Any:
    """A date without quotes is a date to YAML, and text to us."""
    if not isinstance(entry, dict):
        return entry
    return {
        key: value.isoformat() if type(value) is datetime.date and key in ("date", "expires") else value
        for key, value in entry.items()
    }


def day(text: str, name: str) -> None:
    """Refuse what is not a day as YYYY-MM-DD."""
    try:
        if len(text) != 10 or datetime.date.fromisoformat(text).isoformat() != text:
            raise ValueError
    except ValueError:
        raise Refused(f"{name!r} is {text!r}; wanted is a day such as 2026-12-31") from None
