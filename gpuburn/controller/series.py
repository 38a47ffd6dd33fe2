"""The quantities that a host is compared by: what they are once for all hosts alike, and their numbers in arrays.

Ten thousand hosts have ten million numbers, and a hundred quantities. Stops before any comparison.
"""

from __future__ import annotations

import functools
import json
import math
from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from gpuburn import strict

NUMBERS = {"values": "d", "cv": "d", "counts": "i"}  # array's type codes


@dataclass(frozen=True, slots=True)
class What:
    """One compared quantity, and the subjects that it was measured on, in the order of the numbers."""

    step: str
    about: str
    unit: str
    better: str
    point: str
    method: str
    subjects: tuple[str, ...]
    profiles: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Series:
    """One compared quantity over the host's subjects; values in unit, cv a ratio (unknown: None or NaN)."""

    what: What
    values: Sequence[float]
    cv: Sequence[float | None]
    counts: Sequence[int]


@dataclass(frozen=True, slots=True)
class Table:
    """All quantities of one host. what: one object for all hosts that were asked the same. numbers: by NUMBERS' names,
    subject by subject and quantity by quantity, as long as all subjects together."""

    what: tuple[What, ...] = ()
    numbers: dict[str, array[Any]] = field(default_factory=lambda: {n: array(code) for n, code in NUMBERS.items()})

    @classmethod
    def of(cls, series: Iterable[Series]) -> Table:
        many = list(series)
        flat = {name: [value for one in many for value in getattr(one, name)] for name in NUMBERS}
        return cls(_named(json.dumps([strict.plain(one.what) for one in many])), _packed(flat))

    def __iter__(self) -> Iterator[Series]:
        start = 0
        for what in self.what:
            end = start + len(what.subjects)
            yield Series(what, *(self.numbers[name][start:end] for name in NUMBERS))
            start = end

    def served(self, step: str, about: str) -> list[str]:
        """The profiles that a quantity is measured for."""
        return next((list(one.profiles) for one in self.what if (one.step, one.about) == (step, about)), [])

    def as_data(self) -> dict[str, Any]:
        """As it is kept: what the quantities are is a text of its own, that is read once for all hosts alike."""
        cv = [None if math.isnan(one) else one for one in self.numbers["cv"]]
        return {**{name: list(many) for name, many in self.numbers.items()}, "cv": cv,
                "what": json.dumps([strict.plain(one) for one in self.what])}  # fmt: skip

    @classmethod
    def from_data(cls, data: dict[str, Any], where: str) -> Table:
        """Of our own file, whose digest the caller has checked."""
        return cls(_named(data["what"]), _packed(data))


def _packed(numbers: dict[str, list[Any]]) -> dict[str, array[Any]]:
    known = (math.nan if one is None else one for one in numbers["cv"])
    return {name: array(code, known if name == "cv" else numbers[name]) for name, code in NUMBERS.items()}


@functools.lru_cache(maxsize=1024)
def _named(text: str) -> tuple[What, ...]:
    """The same object for the same text."""
    return tuple(
        What(**{**one, "subjects": tuple(one["subjects"]), "profiles": tuple(one["profiles"])})
        for one in json.loads(text)
    )
