"""The kernel's log as words: which kind of event a record is, and which part it is about. kernel.yml holds the table.

Stops at the kind: what it leads to in a verdict is not decided here. A record that no kind knows, and that the kernel
itself calls an error, is an event all the same.
"""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from gpuburn import strict
from gpuburn.strict import Refused

FILE = Path(__file__).parent / "kernel.yml"
PREFIX = "kernel."
LOOKED_AT = 1024  # characters of a record: the kinds are told by its beginning
TEXT = 300  # characters of a record that an event keeps
ADDRESS = r"[0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}(?:\.[0-7])?"
# Priorities of the kernel (include/linux/kern_levels.h): 0 emergency, 1 alert, 2 critical, 3 error, 4 warning ...
CRITICAL, ERROR = 2, 3
BY_PRIORITY = ("critical", "error")
ID = re.compile(r"[a-z][a-z_]{0,40}")
GROUPS = ("about", "times", "xid")
# One path to an NVMe disk of several, such as nvme0c0n1: what happens on it happens to the disk, nvme0n1.
PATH = re.compile(r"^(nvme[0-9]{1,4})c[0-9]{1,4}(?=n[0-9])")
# What could take longer than linear time in the bounded text: a repeat of a repeat, or one without an end.
NESTED = re.compile(r"[+*}]\)[+*{]")
ENDLESS = re.compile(r"(?<!\\)\*|(?<!\\)\+")

Rule = Literal["reject", "disturbed", "unknown", "warn", "count", "info", "detail", "xid"]
Group = Literal["gpu", "nvswitch", "pcie", "cpu", "memory", "network", "storage", "host"]


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of record. above: how many of one part in one step are still no warning (rule count)."""

    id: str
    group: Group
    rule: Rule
    patterns: tuple[str, ...]
    doc: str
    source: str
    above: int = 0

    def __post_init__(self) -> None:
        if not ID.fullmatch(self.id):
            raise Refused(f"kind {strict.short(self.id)}: wanted are small letters and _")
        if bool(self.patterns) == (self.id in BY_PRIORITY):
            raise Refused(f"kind {self.id}: patterns for all kinds but {' and '.join(BY_PRIORITY)}")
        if (self.above > 0) != (self.rule == "count"):
            raise Refused(f"kind {self.id}: above belongs to rule count, and only there")
        for one in self.patterns:
            _check(self.id, one)


@dataclass(frozen=True, slots=True)
class _Table:
    kinds: list[Kind]


@dataclass(frozen=True, slots=True)
class Told:
    """What a record says. about: the part's address or name, "host" where it names none. times: how often."""

    kind: Kind
    about: str
    text: str
    times: int = field(default=1)

    @property
    def code(self) -> str:
        """The event's code."""
        return f"{PREFIX}{self.kind.id}"


@functools.cache
def load(path: Path = FILE) -> dict[str, Kind]:
    """The kinds by id, in the order in which they are tried. Raises Refused for anything that is not their form."""
    found: dict[str, Kind] = {}
    for one in strict.build(_Table, strict.load_yaml(path), path.name).kinds:
        if one.id in found:
            raise Refused(f"{path.name}: kind {one.id} stands twice")
        found[one.id] = one
    for name in BY_PRIORITY:
        if name not in found:
            raise Refused(f"{path.name}: kind {name} is missing")
    return found


def kind(code: str) -> Kind | None:
    """The kind behind an event's code, if it is one of the kernel's log."""
    return load().get(code[len(PREFIX) :]) if code.startswith(PREFIX) else None


def told(text: str, priority: int) -> Told | None:
    """What a record of the kernel says; None where it is no event: calm, or a further line of another record."""
    for one, patterns in _compiled():
        for pattern in patterns:
            match = pattern.search(text, 0, LOOKED_AT)
            if match:
                return None if one.rule == "detail" else _said(one, match, text)
    if priority > ERROR:
        return None
    return Told(load()["critical" if priority <= CRITICAL else "error"], "host", text[:TEXT])


def times(code: str, text: str) -> int:
    """How often what an event's text says happened: the number in it, where its kind has one, else once."""
    one = kind(code)
    found = told(text, ERROR + 1) if one and one.rule == "count" else None
    return found.times if found and found.kind == one else 1


def _said(one: Kind, match: re.Match[str], text: str) -> Told:
    groups = match.groupdict()
    if groups.get("xid"):
        text = f"Xid {groups['xid']}"
    about = PATH.sub(r"\1", groups.get("about") or "host")
    return Told(one, about, text[:TEXT], int(groups.get("times") or 1))


@functools.cache
def _compiled() -> list[tuple[Kind, list[re.Pattern[str]]]]:
    return [(one, [re.compile(_written_out(text)) for text in one.patterns]) for one in load().values()]


def _written_out(pattern: str) -> str:
    return pattern.replace("{pci}", f"(?P<about>{ADDRESS})").replace("{port}", ADDRESS)


def _check(name: str, pattern: str) -> None:
    """Refuse a pattern that is none, that names other groups, or whose time could grow faster than the text."""
    try:
        groups = re.compile(_written_out(pattern)).groupindex
    except re.error as error:
        raise Refused(f"kind {name}: {strict.short(pattern)} is no pattern: {error}") from None
    for one in groups:
        strict.known(one, GROUPS, f"kind {name}")
    bare = re.sub(r"\[[^\]]*\]", "x", pattern)
    if NESTED.search(bare) or ENDLESS.search(bare.removesuffix(".*)")):
        raise Refused(f"kind {name}: {strict.short(pattern)} repeats without a bound")
