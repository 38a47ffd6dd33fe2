"""The fleet as tables: one tidy row per measurement, per fact, per part. What is compared is only reshaped here."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import pandas as pd

from gpuburn.controller.judged import Judged, Series
from gpuburn.controller.reach import Way

TEXT = ("host", "rack", "power_domain", "cohort", "subject", "step", "about", "unit", "point", "better")


def measurements(went: Iterable[Way]) -> pd.DataFrame:
    """One row per compared measurement: TEXT as categories, slot (-1: the host), value, cv (NaN: unknown), count.

    Hosts of a cohort that measured a step in another way (parameters, revision) are a cohort of their own there.
    """
    pieces: dict[str, list[Any]] = {name: [] for name in (*TEXT, "value", "cv", "count")}
    lengths: list[int] = []
    methods = _methods(went := list(went))
    for way in went:
        for one in way.judged.series if way.judged else []:
            lengths.append(len(one.values))
            _add(pieces, way, one, methods)
    columns: dict[str, Any] = {name: _category(pieces[name], lengths) for name in TEXT if name != "subject"}
    subjects = _category(pieces["subject"], [1] * len(pieces["subject"]))
    columns["subject"] = subjects
    slots = np.array([slot(name) for name in subjects.categories], dtype=np.int32)
    columns["slot"] = slots[subjects.codes] if len(slots) else np.empty(0, np.int32)
    for name, kind in (("value", float), ("cv", float), ("count", np.int64)):
        columns[name] = np.concatenate(pieces[name]) if pieces[name] else np.empty(0, kind)
    table: pd.DataFrame = pd.DataFrame(columns)
    return table


def _methods(went: list[Way]) -> dict[tuple[str, str], dict[str, int]]:
    """(cohort, step): how many hosts measured it by each method."""
    found: dict[tuple[str, str], dict[str, int]] = {}
    for way in went:
        for one in way.judged.series if way.judged else []:
            counts = found.setdefault((way.judged.cohort if way.judged else "", one.step), {})
            counts[one.method] = counts.get(one.method, 0) + 1
    return found


def _add(pieces: dict[str, list[Any]], way: Way, one: Series, methods: dict[tuple[str, str], dict[str, int]]) -> None:
    cohort = way.judged.cohort if way.judged else ""
    counts = methods[cohort, one.step]
    if counts[one.method] < max(counts.values()):
        cohort = f"{cohort} (measured otherwise: {one.method[:8]})"
    said = {
        "host": way.expected.host, "rack": way.expected.rack, "power_domain": way.expected.power_domain,
        "cohort": cohort, "step": one.step, "about": one.about, "unit": one.unit, "point": one.point,
        "better": one.better,
    }  # fmt: skip
    for name, value in said.items():
        pieces[name].append(value)
    pieces["subject"] += one.subjects
    pieces["value"].append(np.asarray(one.values, dtype=float))
    pieces["cv"].append(np.array(one.cv, dtype=float))  # None becomes NaN
    pieces["count"].append(np.asarray(one.counts, dtype=np.int64))


def _category(values: list[str], lengths: list[int]) -> Any:
    """One value per series, repeated over its subjects."""
    names = sorted(set(values))
    number = {name: code for code, name in enumerate(names)}
    codes = np.repeat(np.array([number[value] for value in values], dtype=np.int64), lengths)
    return pd.Categorical.from_codes(codes, categories=pd.Index(names))


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
