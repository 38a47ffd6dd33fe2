"""JSON Schema out of the same types that the strict reader uses: both take and refuse the same documents."""

from __future__ import annotations

import dataclasses
import enum
from typing import Any, Literal

import jsonschema
import pytest

from gpuburn import strict
from gpuburn.measurement import Point
from gpuburn.schema import DIALECT, schema
from gpuburn.strict import Refused


class Colour(str, enum.Enum):
    RED = "red"


@dataclasses.dataclass(frozen=True)
class Word:
    name: str
    size: Literal["small", "large"] = "small"
    colour: Colour = Colour.RED
    number: float | None = None
    count: int = 0
    on: bool = False
    point: Point = Point()  # noqa: RUF009
    many: tuple[str, ...] = ()
    named: dict[str, float] = dataclasses.field(default_factory=dict)
    free: dict[str, Any] = dataclasses.field(default_factory=dict)


GOOD: list[dict[str, Any]] = [
    {"name": "a"},
    {"name": "a", "size": "large", "colour": "red", "number": None, "count": 3, "on": True},
    {
        "name": "a",
        "number": 1,
        "point": {"mib": 1, "dtype": "x"},
        "many": ["a"],
        "named": {"b": 1.5},
        "free": {"c": [1]},
    },
]
BAD: list[Any] = [
    {}, [], "a", {"name": 1}, {"name": "a", "nam": 1}, {"name": "a", "size": "medium"}, {"name": "a", "colour": "blue"},
    {"name": "a", "number": "1"}, {"name": "a", "count": 1.5}, {"name": "a", "count": True}, {"name": "a", "on": 1},
    {"name": "a", "point": {"mib": []}}, {"name": "a", "many": "a"}, {"name": "a", "many": [1]},
    {"name": "a", "named": {"b": "c"}}, {"name": "a", "free": []}, {"name": None},
]  # fmt: skip
VALIDATOR = jsonschema.Draft202012Validator(schema(Word, "word/1"))


@pytest.mark.parametrize("document", GOOD)
def test_what_the_reader_takes_the_schema_takes(document: Any) -> None:
    strict.build(Word, document, "a")
    VALIDATOR.validate(document)


@pytest.mark.parametrize("document", BAD)
def test_what_the_reader_refuses_the_schema_refuses(document: Any) -> None:
    with pytest.raises(Refused):
        strict.build(Word, document, "a")
    assert not VALIDATOR.is_valid(document)


def test_a_schema_names_its_dialect_and_itself() -> None:
    made = schema(Word, "word/1")
    assert (made["$schema"], made["$id"], made["title"]) == (DIALECT, "gpuburn/word/1", "word/1")
    assert made["required"] == ["name"]
    jsonschema.Draft202012Validator.check_schema(made)
