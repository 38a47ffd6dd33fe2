"""The words as JSON Schema 2020-12, for readers that are not ours. Made from the types that the strict reader uses."""

from __future__ import annotations

import dataclasses
import enum
import types
import typing
from typing import Any

from gpuburn import strict

DIALECT = "https://json-schema.org/draft/2020-12/schema"
SIMPLE = {str: "string", int: "integer", float: "number", bool: "boolean", type(None): "null"}


def schema(kind: type, name: str) -> dict[str, Any]:
    """The JSON Schema of one published document, such as plan/1."""
    return {"$schema": DIALECT, "$id": f"gpuburn/{name}", "title": name, **_of(kind)}


def _of(kind: Any) -> dict[str, Any]:
    if kind is Any:
        return {}
    if hasattr(kind, "json_schema"):
        return typing.cast("dict[str, Any]", kind.json_schema())
    if dataclasses.is_dataclass(kind):
        return _word(typing.cast(type, kind))
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin in (typing.Union, types.UnionType):
        return {"anyOf": [_of(one) for one in arguments]}
    if origin is typing.Literal:
        return {"enum": list(arguments)}
    if origin in (list, tuple):
        return {"type": "array", "items": _of(arguments[0])}
    if origin is dict:
        return {"type": "object", "additionalProperties": _of(arguments[1])}
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return {"enum": [member.value for member in kind]}
    return {"type": SIMPLE[kind]}


def _word(kind: type) -> dict[str, Any]:
    fields = dataclasses.fields(kind)
    free = [f.name for f in fields if f.default is dataclasses.MISSING and f.default_factory is dataclasses.MISSING]
    return {
        "type": "object",
        "additionalProperties": False,
        "required": sorted(free),
        "properties": {f.name: _of(strict.hints(kind)[f.name]) for f in fields},
    }
