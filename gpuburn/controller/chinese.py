"""Simplified Chinese for the documents that two parties sign: English text -> Chinese, from locale/zh/*.yml.

Words of ours have an entry each. What a site or a host writes has none, and is never translated.
"""

from __future__ import annotations

import functools
import re
from pathlib import Path
from typing import Any

from gpuburn import strict
from gpuburn.strict import Refused

FOLDER = Path(__file__).parent / "locale" / "zh"
NAMED = re.compile(r"\\\{(\w+)\\\}")  # {name}, as re.escape writes it


def word(text: str, **values: Any) -> str:
    """Fixed words of a document with values filled in. One without an entry is our own mistake."""
    if text not in table():
        raise Refused(f"locale/zh: no entry for {text!r}; wanted is its Chinese")
    return table()[text].format(**values) if values else table()[text]


def data(text: str) -> str:
    """The Chinese of a text from our data, or "" where it is not ours."""
    if text in table():
        return table()[text]
    for pattern, chinese in _patterns():
        if match := pattern.fullmatch(text):
            return chinese.format(**{name: data(value) or value for name, value in match.groupdict().items()})
    return ""


@functools.cache
def table() -> dict[str, str]:
    """Every entry; the same English in two files is refused."""
    found: dict[str, str] = {}
    for path in sorted(FOLDER.glob("*.yml")):
        entries = strict.build(dict[str, str], strict.load_yaml(path), path.name)
        for text in entries:
            if text in found:
                raise Refused(f"{path.name}: {text!r} has an entry in another file; wanted is one")
        found |= entries
    return found


@functools.cache
def _patterns() -> list[tuple[re.Pattern[str], str]]:
    """Entries with names in braces, the longest first: the most said is the most particular."""
    named = sorted((text for text in table() if "{" in text), key=len, reverse=True)
    return [(re.compile(NAMED.sub(r"(?P<\1>.+?)", re.escape(text)), re.DOTALL), table()[text]) for text in named]
