"""The fleet as tables: one tidy row per measurement, per fact, per part. What is compared is only reshaped here."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from gpuburn.controller.judged import Judged
from gpuburn.controller.reach import Way
from gpuburn.controller.series import NUMBERS, Table, What

TEXT = ("host", "rack", "power_domain", "cohort", "subject", "step", "about", "unit", "point", "better")
COLUMN = {"values": "value", "counts": "count"}  # of a series' numbers


def measurements(went: Iterable[Way]) -> pd.DataFrame:
    """One row per compared measurement: TEXT as categories, slot (-1: the host), value, cv (NaN: unknown), count.

    Hosts of a cohort that measured a step in another way (parameters, revision) are a cohort of their own there.
    """
    hosts = [_Host(way, way.judged.series, way.judged.cohort) for way in went if way.judged and way.judged.series.what]
    lengths = [len(one.series.numbers["values"]) for one in hosts]
    expected: dict[str, Callable[[_Host], str]] = {
        "host": lambda one: one.way.expected.host, "rack": lambda one: one.way.expected.rack,
        "power_domain": lambda one: one.way.expected.power_domain,
    }  # fmt: skip
    columns: dict[str, Any] = {name: _repeated(map(of, hosts), lengths) for name, of in expected.items()}
    columns["cohort"] = _cohorts(hosts)
    for name in TEXT:
        if name not in columns:
            columns[name] = _named(hosts, name)
    subjects = columns["subject"]
    slots = np.array([slot(name) for name in subjects.categories], dtype=np.int32)
    columns["slot"] = slots[subjects.codes] if len(slots) else np.empty(0, np.int32)
    for name, code in NUMBERS.items():
        many = [np.asarray(one.series.numbers[name]) for one in hosts]
        columns[COLUMN.get(name, name)] = np.concatenate(many) if many else np.empty(0, code)
    table: pd.DataFrame = pd.DataFrame(columns, copy=False)
    return table


@dataclass(frozen=True, slots=True)
class _Host:
    way: Way
    series: Table
    cohort: str


class _Codes:
    """Names as numbers while they are met; at the end a category whose names are in order."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def of(self, name: str) -> int:
        return self._numbers.setdefault(name, len(self._numbers))

    def category(self, pieces: list[npt.NDArray[np.int32]]) -> Any:
        names = sorted(self._numbers)
        place = np.empty(len(names), np.int32)
        place[[self._numbers[name] for name in names]] = np.arange(len(names))
        codes = place[np.concatenate(pieces)] if pieces else np.empty(0, np.int32)
        return pd.Categorical.from_codes(codes, categories=pd.Index(names, dtype=object))


def _repeated(names: Iterable[str], lengths: list[int]) -> Any:
    """One name per host, for all its rows."""
    known = _Codes()
    codes = np.array([known.of(name) for name in names], dtype=np.int32)
    return known.category([np.repeat(codes, lengths)])


def _named(hosts: list[_Host], name: str) -> Any:
    """One name per series or, for subjects, per row. Hosts that were asked the same share the numbers."""
    known, seen = _Codes(), dict[int, npt.NDArray[np.int32]]()
    for one in hosts:
        if id(one.series.what) not in seen:
            names = [subject if name == "subject" else getattr(what, name)
                     for what in one.series.what for subject in what.subjects]  # fmt: skip
            seen[id(one.series.what)] = np.array([known.of(word) for word in names], dtype=np.int32)
    return known.category([seen[id(one.series.what)] for one in hosts])


def _cohorts(hosts: list[_Host]) -> Any:
    """A host's cohort; of a step that most of its cohort measured by another method, a cohort of its own."""
    known, methods = _Codes(), _methods(hosts)
    seen: dict[tuple[str, int], npt.NDArray[np.int32]] = {}
    for one in hosts:
        key = one.cohort, id(one.series.what)
        if key not in seen:
            names = [_cohort(one.cohort, what, methods[one.cohort, what.step]) for what in one.series.what]
            sizes = [len(what.subjects) for what in one.series.what]
            seen[key] = np.repeat(np.array([known.of(name) for name in names], dtype=np.int32), sizes)
    return known.category([seen[one.cohort, id(one.series.what)] for one in hosts])


def _cohort(cohort: str, what: What, methods: Counter[str]) -> str:
    usual = methods[what.method] == max(methods.values())
    return cohort if usual else f"{cohort} (measured otherwise: {what.method[:8]})"


def _methods(hosts: list[_Host]) -> dict[tuple[str, str], Counter[str]]:
    """(cohort, step): how many series of its hosts were measured by each method."""
    alike = Counter((one.cohort, id(one.series.what)) for one in hosts)
    asked = {id(one.series.what): one.series.what for one in hosts}
    found: dict[tuple[str, str], Counter[str]] = {}
    for (cohort, number), count in alike.items():
        for what in asked[number]:
            found.setdefault((cohort, what.step), Counter())[what.method] += count
    return found


def slot(subject: str) -> int:
    """The index of a device in its host, as its name says; -1 for the host."""
    digits = subject.lstrip("abcdefghijklmnopqrstuvwxyz")
    return int(digits) if digits.isdigit() else -1


def facts(judged: Iterable[Judged]) -> pd.DataFrame:
    """One row per fact that a cohort must share: host, subject, cohort, about, step, point, value."""
    return _rows(
        (one.host, said.subject, one.cohort, said.about, said.step, said.point, said.value)
        for one in judged
        for said in one.facts
    )


def versions(judged: Iterable[Judged]) -> pd.DataFrame:
    """The same for firmware and software, over all hosts of one kind and SKU."""
    return _rows(
        (one.host, said.subject, f"{one.demanded['kind']} {one.demanded['sku'] or 'CPU'}", said.about, "", "",
         said.value)
        for one in judged
        for said in one.versions
    )  # fmt: skip


def _rows(rows: Iterator[tuple[str, ...]]) -> pd.DataFrame:
    table: pd.DataFrame = pd.DataFrame(rows, columns=["host", "subject", "cohort", "about", "step", "point", "value"])
    return table


def parts(judged: Iterable[Judged]) -> pd.DataFrame:
    """One row per number that a part says of itself: host, subject, kind, value."""
    rows = ((one.host, part.subject, part.kind, part.value) for one in judged for part in one.parts)
    table: pd.DataFrame = pd.DataFrame(rows, columns=["host", "subject", "kind", "value"])
    return table
