"""Xids, the error numbers of NVIDIA's driver: what each means, and what it does to an acceptance.

xid.yml holds the table; a number that is not in it is unknown, and unknown is never a pass. What a class leads to in a
verdict, and what repetition adds, is not decided here.
"""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from gpuburn import strict
from gpuburn.strict import Refused

FILE = Path(__file__).parent / "xid.yml"
# A line of the kernel log "NVRM: Xid (PCI:0000:3b:00): 79, ...", or an event's text made of it, "Xid 79, ...". On a GPU
# in parts (MIG) its instances stand after the address: "(PCI:0000:3b:00 GPU-I:01 GPU-CI:00)".
PART = r"(?: GPU-I:[0-9]{1,3})?(?: GPU-CI:[0-9]{1,3})?"
LINE = re.compile(rf"\bXid (?:\((?:PCI:)?(?P<address>[0-9A-Fa-f:.]+){PART}\): )?(?P<number>[0-9]{{1,6}})\b")
# Xid 154: "GPU recovery action changed from 0x0 (None) to 0x1 (GPU Reset Required)"; newer drivers say other words,
# such as (PF FLR) or (OS Reboot), for the same.
RECOVERY = re.compile(r"\bto 0x[0-9A-Fa-f]+ \(([^)]+)\)")
NEEDED = re.compile(r"reset|reboot|drain", re.IGNORECASE)
NONFATAL = re.compile(r"\bnon-?fatal\b", re.IGNORECASE)
FATAL = re.compile(r"\bfatal\b", re.IGNORECASE)

Class = Literal["reject", "warn", "app", "info", "ignore", "unknown"]
Rule = Literal["reject", "warn", "app", "info", "ignore", "reject_if_fatal", "by_text"]


@dataclass(frozen=True, slots=True)
class Repeats:
    """More than `over` of an entry on one GPU in one run are of another class."""

    over: int
    rule: Literal["reject", "warn"]


@dataclass(frozen=True, slots=True)
class Xid:
    """One number of the table. action: what NVIDIA says to do at once, "" where it names nothing.

    entry: the first number of its entry, which stands for all that are counted together.
    """

    number: int
    meaning: str
    action: str
    rule: Rule
    note: str
    source: str
    entry: int = 0
    repeats: Repeats | None = None


@dataclass(frozen=True, slots=True)
class _Entry:
    numbers: list[int]
    meaning: str
    rule: Rule
    action: str = ""
    note: str = ""
    repeats: Repeats | None = None


@dataclass(frozen=True, slots=True)
class _Table:
    source: str
    xids: list[_Entry]


@functools.cache
def load(path: Path = FILE) -> dict[int, Xid]:
    """The table by number. Raises Refused for a number that stands twice, and for anything that is not its form."""
    table = strict.build(_Table, strict.load_yaml(path), path.name)
    found: dict[int, Xid] = {}
    for entry in table.xids:
        for one in entry.numbers:
            if one in found:
                raise Refused(f"{path.name}: Xid {one} stands twice")
            found[one] = Xid(
                one, entry.meaning, entry.action, entry.rule, entry.note, table.source, entry.numbers[0], entry.repeats
            )  # fmt: skip
    return found


def number(text: str) -> tuple[int, str] | None:
    """The Xid that a line of the kernel log or an event's text names, and its PCI address ("" if it names none)."""
    match = LINE.search(text)
    return (int(match["number"]), match["address"] or "") if match else None


def classify(number: int, text: str) -> tuple[Class, str, str]:
    """The acceptance class of one Xid as it was logged, its meaning and NVIDIA's action.

    Where the class depends on the text and the text does not say, the strict side is taken and the meaning says so.
    """
    one = load().get(number)
    if one is None:
        return "unknown", f"Xid {number} is not in the table of this version", ""
    if one.rule == "reject_if_fatal":
        return _by_severity(one, text)
    if one.rule == "by_text":
        return _by_recovery(one, text)
    return one.rule, one.meaning, one.action


def _by_severity(one: Xid, text: str) -> tuple[Class, str, str]:
    if FATAL.search(NONFATAL.sub("", text)):
        return "reject", f"{one.meaning}, fatal", one.action
    if NONFATAL.search(text):
        return "warn", f"{one.meaning}, not fatal", one.action
    return "reject", f"{one.meaning}; its text says neither Fatal nor Nonfatal, so it is taken as fatal", one.action


def _by_recovery(one: Xid, text: str) -> tuple[Class, str, str]:
    match = RECOVERY.search(text)
    if match is None and not NEEDED.search(text):
        return "unknown", f"{one.meaning}; its text does not say to what", one.action
    needed = match[1].strip() if match else text.strip()
    if needed.lower() == "none":
        return "info", f"{one.meaning} to none", one.action
    if "imex" in needed.lower():  # a service over hosts, not the device
        return "warn", f"{one.meaning}: {needed}", one.action
    return "reject", f"{one.meaning}: {needed}", one.action
