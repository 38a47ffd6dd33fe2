"""Strict reading and canonical writing: what is unknown, doubled, not finite or too large is refused by name.

Stops at form: whether a well-formed plan or result makes sense is the business of the module that owns the word.
"""

from __future__ import annotations

import dataclasses
import difflib
import enum
import functools
import hashlib
import json
import math
import os
import reprlib
import types
import typing
from collections import Counter
from collections.abc import Hashable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import yaml

T = TypeVar("T")
DEPTH = 32  # no document of ours nests deeper than 9; json.loads itself gives up only near 1,000
INTEGER = 2**53  # beyond it, readers that use doubles see another number
MEBIBYTE = 2**20
PIECE = MEBIBYTE  # bytes that are in memory at once, of a file that is only hashed


class Refused(ValueError):
    """Input that is not taken: one sentence that names the file, the key and what is wanted."""


def digest(data: bytes) -> str:
    """The SHA-256 of the bytes, in lower-case hex."""
    return hashlib.sha256(data).hexdigest()


def digest_file(path: Path) -> str:
    """The SHA-256 of a file, however long: read piece by piece."""
    found = hashlib.sha256()
    with path.open("rb") as file:
        while piece := file.read(PIECE):
            found.update(piece)
    return found.hexdigest()


def short(value: Any) -> str:
    """A value as a message names it: one line, and bounded, however long or deep the value is."""
    return _SHORT.repr(value)


def loads(data: bytes, where: str, limit: int = 4 * MEBIBYTE) -> Any:
    """Parse JSON from someone who is not trusted. Raises Refused, and nothing else, on any malformed input."""
    if len(data) > limit:
        raise Refused(f"{where}: {len(data)} bytes, at most {limit} are read")
    try:
        document = json.loads(data.decode("utf-8"), object_pairs_hook=_once, parse_constant=_no_constant)
    except RecursionError:
        raise Refused(f"{where}: nested deeper than {DEPTH}") from None
    except ValueError as error:
        raise Refused(f"{where}: not strict JSON: {error}") from None
    _walk(document, where, 0)
    return document


def load_file(path: Path, limit: int = 4 * MEBIBYTE) -> bytes:
    """The bytes of a regular file of bounded size; a link, a device or a longer file is refused."""
    if path.is_symlink() or not path.is_file():
        raise Refused(f"{path}: not a regular file")
    with path.open("rb") as file:
        long = os.fstat(file.fileno()).st_size > limit  # then nothing is read
        data = b"" if long else file.read(limit + 1)
    if long or len(data) > limit:
        raise Refused(f"{path}: longer than {limit} bytes")
    return data


def load_yaml(path: Path) -> Any:
    """Parse one of our own or a site's YAML files; a key written twice is refused. Raises OSError where there is none.

    A link is followed: whoever keeps a site's files may arrange them so.
    """
    data = load_file(Path(os.path.realpath(path, strict=True)))
    try:
        return yaml.load(data.decode("utf-8"), Loader=_UniqueKeys)
    except RecursionError:
        raise Refused(f"{path}: not YAML: nested too deep") from None
    except (yaml.YAMLError, ValueError) as error:  # ValueError: an integer, a date or bytes that cannot be
        raise Refused(f"{path}: not YAML: {' '.join(str(error).split())}") from None


def encode(value: Any) -> bytes:
    """Canonical bytes: the same words are always the same bytes, so that a digest means something."""
    return (json.dumps(plain(value), sort_keys=True, indent=1, allow_nan=False, ensure_ascii=False) + "\n").encode()


def line(value: Any) -> bytes:
    """Canonical bytes on one line, for files that grow by appending."""
    return (json.dumps(plain(value), sort_keys=True, allow_nan=False, separators=(",", ":")) + "\n").encode()


def plain(value: Any) -> Any:
    """Words as JSON types: dataclasses become objects, enumerations their values."""
    if hasattr(value, "as_data"):
        return value.as_data()
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    return value


def build(kind: type[T], data: Any, where: str) -> T:
    """Data into the word `kind`; an unknown or missing key, or a value of another type, is refused by name."""
    return typing.cast(T, _build(kind, data, where))


def known(name: str, names: typing.Iterable[str], where: str) -> None:
    """Refuse a name that is not one of names, and say which one was probably meant."""
    names = sorted(names)
    if name not in names:
        near = [one for one in names if name and one.startswith(f"{name}-")] or difflib.get_close_matches(
            name, names, 1
        )
        wish = f"did you mean {' or '.join(map(repr, near[:3]))}?" if near else f"known: {', '.join(names)}"
        raise Refused(f"{where}: unknown {short(name)}; {wish}")


_SHORT = reprlib.Repr()
_SHORT.maxlevel, _SHORT.maxdict, _SHORT.maxlist, _SHORT.maxtuple = 2, 4, 6, 6
_SHORT.maxstring = _SHORT.maxlong = _SHORT.maxother = 80


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key is written twice")
    return found


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is not a finite number")


def _walk(value: Any, where: str, depth: int) -> None:
    if depth > DEPTH:
        raise Refused(f"{where}: nested deeper than {DEPTH}")
    if isinstance(value, dict):
        for key, item in value.items():
            _walk(key, where, depth + 1)
            _walk(item, where, depth + 1)
    elif isinstance(value, list):
        for item in value:
            _walk(item, where, depth + 1)
    elif isinstance(value, str):
        if "\0" in value or any("\ud800" <= c <= "\udfff" for c in value):
            raise Refused(f"{where}: a string with NUL or a lone surrogate")
    elif isinstance(value, float) and not math.isfinite(value):
        raise Refused(f"{where}: {value} is not a finite number")
    elif isinstance(value, int) and abs(value) > INTEGER:
        raise Refused(f"{where}: an integer beyond 2**53")


class _UniqueKeys(yaml.SafeLoader):
    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        keys = [self.construct_object(key, deep=True) for key, _ in node.value]
        counted = Counter(key for key in keys if isinstance(key, Hashable))
        doubled = [key for key, count in counted.items() if count > 1]
        if doubled:
            raise yaml.constructor.ConstructorError(None, None, f"{doubled[0]!r} written twice", node.start_mark)
        return super().construct_mapping(node, deep)


@functools.cache
def hints(kind: type) -> dict[str, Any]:
    """The resolved types of a dataclass's fields, in their order."""
    resolved = typing.get_type_hints(kind)
    return {one.name: resolved[one.name] for one in dataclasses.fields(kind)}


@functools.cache
def _wanted(kind: type) -> tuple[str, ...]:
    """The fields of a dataclass that have no default."""
    return tuple(
        one.name
        for one in dataclasses.fields(kind)
        if one.default is dataclasses.MISSING and one.default_factory is dataclasses.MISSING
    )


def _build(kind: Any, data: Any, where: str) -> Any:
    if kind is Any:
        return data
    if hasattr(kind, "from_data"):
        return kind.from_data(data, where)
    if dataclasses.is_dataclass(kind):
        return _word(typing.cast(type, kind), data, where)
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin in (typing.Union, types.UnionType):
        return _union(arguments, data, where)
    if origin is typing.Literal:
        return _one_of(data, arguments, where)
    if origin in (list, tuple):
        return _items(origin, arguments[0], data, where)
    if origin is dict:
        _expect(dict, data, where)
        for key in data:
            _expect(str, key, where)
        return {key: _build(arguments[1], item, f"{where}.{key}") for key, item in data.items()}
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return kind(_one_of(data, tuple(member.value for member in kind), where))
    if kind is float and isinstance(data, int) and not isinstance(data, bool):
        return float(data)
    _expect(kind, data, where)
    if kind is float and not math.isfinite(data):
        raise Refused(f"{where}: {data} is not a finite number")
    return data


def _word(kind: type, data: Any, where: str) -> Any:
    _expect(dict, data, where)
    types, wanted = hints(kind), _wanted(kind)
    for key in data:
        if key not in types:
            known(str(key), types, where)
    for name in wanted:
        if name not in data:
            raise Refused(f"{where}: {name!r} is missing")
    taken = {
        # Text is most of what there is: it is looked at here, and not one call further down.
        key: item if types[key] is str and type(item) is str else _build(types[key], item, f"{where}.{key}")
        for key, item in data.items()
    }
    try:
        return kind(**taken)
    except Refused as error:
        raise Refused(f"{where}: {error}") from None


def _items(origin: type, kind: Any, data: Any, where: str) -> Any:
    _expect(list, data, where)
    return origin(_build(kind, item, f"{where}[{index}]") for index, item in enumerate(data))


def _union(kinds: tuple[Any, ...], data: Any, where: str) -> Any:
    if data is None and type(None) in kinds:
        return None
    choices = [kind for kind in kinds if kind is not type(None)]
    for kind in choices:
        if isinstance(kind, type) and type(data) is kind:
            return _build(kind, data, where)
    return _build(choices[-1] if len(choices) > 1 else choices[0], data, where)


def _one_of(data: Any, choices: tuple[Any, ...], where: str) -> Any:
    if data not in choices:
        raise Refused(f"{where}: {short(data)} is not one of {', '.join(map(str, choices))}")
    return data


def _expect(kind: type, data: Any, where: str) -> None:
    if type(data) is not kind:
        raise Refused(f"{where}: {short(data)} is a {type(data).__name__}, wanted is a {kind.__name__}")
