"""Formats that other programs read, each a pure function from the report's document to bytes.

A format is a file in exports/ that declares FORMAT; it imports what only an extra brings inside its function.
Stops at the document: no run folder is read here, and what the document does not say is not in any export.
"""

from __future__ import annotations

import importlib
import os
import pkgutil
import re
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpuburn.controller import exports
from gpuburn.controller.report import LONGEST, shown
from gpuburn.policy import Decision
from gpuburn.strict import Refused, known

Document = dict[str, Any]  # what report.document() gives, and report.json holds
Host = dict[str, Any]
DECISIONS = tuple(str(one) for one in Decision)
ANSI = re.compile(r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b[@-Z\\^_]")
UNWRITABLE = re.compile("[\x80-\x9f\u200e\u200f\ufffe\uffff]")  # beside what a page does not show; XML has no U+FFFE


@dataclass(frozen=True, slots=True)
class Format:
    """suffix: how its file's name ends. needs: the extra that brings its library; empty: none."""

    name: str
    suffix: str
    doc: str
    make: Callable[[Document], bytes]
    needs: str = ""

    def of(self, document: Document) -> bytes:
        """The export. Raises Refused where the extra is not installed."""
        try:
            return self.make(document)
        except ImportError as error:
            if not self.needs:
                raise
            raise Refused(
                f"--format {self.name}: {error}; it needs the extra {self.needs!r}: pip install -e '.[{self.needs}]'"
            ) from None


def discover() -> dict[str, Format]:
    """Every format by name; a file in exports/ that declares none is an error."""
    found: dict[str, Format] = {}
    for module in sorted(one.name for one in pkgutil.iter_modules(exports.__path__)):
        one: Format = importlib.import_module(f"{exports.__name__}.{module}").FORMAT
        if one.name in found:
            raise Refused(f"exports/{module}.py: format {one.name!r} is declared twice")
        found[one.name] = one
    return found


def named(name: str) -> Format:
    formats = discover()
    known(name, formats, "--format")
    return formats[name]


def listed() -> list[str]:
    """A line per format, for a person."""
    return [
        f"{one.name:14} {one.suffix:18} {one.doc}{f' (extra {one.needs})' if one.needs else ''}"
        for one in discover().values()
    ]


def only(document: Document, hosts: Iterable[str]) -> Document:
    """The document of these hosts alone; of all where none is named."""
    wanted = set(hosts)
    for name in sorted(wanted):
        known(name, [one["host"] for one in document["hosts"]], "--host")
    kept = [one for one in document["hosts"] if not wanted or one["host"] in wanted]
    counts: dict[str, int] = {}
    for one in kept:
        counts[one["decision"]] = counts.get(one["decision"], 0) + 1
    return {**document, "hosts": kept, "decisions": counts}


def put(out: str, data: bytes) -> str:
    """Written beside and renamed: who reads the file sees the old one or the new one, never half of it.

    "-" is standard output. Returns what was done, for a person.
    """
    if out == "-":
        sys.stdout.buffer.write(data)
        return f"{len(data)} bytes"
    path = Path(out)
    beside = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        beside.write_bytes(data)
        os.replace(beside, path)
    except OSError as error:
        beside.unlink(missing_ok=True)
        raise Refused(f"{path}: cannot be written: {error.strerror}") from None
    return f"{path}: {len(data)} bytes"


def good(host: Host) -> bool:
    """Whether the host's decision lets it be; a word that this version does not know does not."""
    return any(one.good for one in Decision if str(one) == host["decision"])


def rejected(decision: str) -> bool:
    return decision in (str(Decision.REJECTED), str(Decision.TRIAL_FAILED))


def judged(host: Host) -> bool:
    """Whether there is a judgement at all: a result came home, and something was demanded of it."""
    return host["reached"] == "judged" and bool(host["findings"])


def conditions(host: Host) -> list[str]:
    """What an acceptance still waits for, each as a text; the same for several profiles is said once."""
    told = [*host.get("conditions", []), *(c for one in host["by_profile"].values() for c in one.get("conditions", []))]
    return list(dict.fromkeys(said(one) for one in told))


def waived(finding: dict[str, Any]) -> str:
    """Who or what waived a failed finding; empty where nothing did."""
    return clean(said(finding.get("waived") or ""))


def said(value: Any) -> str:
    """A value of the document as one text: lists and objects on a line."""
    if isinstance(value, dict):
        return ", ".join(f"{key}={said(one)}" for key, one in value.items())
    if isinstance(value, (list, tuple)):
        return "; ".join(said(one) for one in value)
    return "" if value is None else str(value)


def at_point(point: dict[str, Any]) -> str:
    """A point as reports print it: size=8 dtype=bf16, in the order of its keys."""
    return " ".join(f"{key}={value}" for key, value in sorted(point.items()))


def clean(text: str) -> str:
    """Words of a host without terminal sequences, control and direction characters, bounded."""
    if text.isascii() and text.isprintable():  # nearly all words, told apart quickly
        return text[:LONGEST]
    return UNWRITABLE.sub("\ufffd", str(shown(ANSI.sub("", text))))
