"""The text of a vendor's file: encodings that can be told are read, every other is refused. Knows no column.

UTF-8 with or without its mark, UTF-16 with its mark, and GB18030, which is told by most of its characters being of
GB 2312: bytes of another encoding rarely are.
"""

from __future__ import annotations

import codecs

from gpuburn.strict import Refused

SAVE = "wanted is UTF-8 (with or without its mark), UTF-16 with its mark, or GB18030"


def text(data: bytes, where: str) -> str:
    """The file's text. Raises Refused with the place of the first byte that fits none."""
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        found = _decoded(data, "utf-16", where)
    elif data.startswith(codecs.BOM_UTF8):
        found = _decoded(data.removeprefix(codecs.BOM_UTF8), "utf-8", where)
    else:
        found = _unmarked(data, where)
    if "\0" in found:
        line = found[: found.index("\0")].count("\n") + 1
        raise Refused(f"{where}: line {line}: a NUL byte, as of UTF-16 without its mark; {SAVE}")
    return found


def _decoded(data: bytes, encoding: str, where: str) -> str:
    try:
        return data.decode(encoding)
    except UnicodeDecodeError as error:
        line = data[: error.start].decode(encoding, "replace").count("\n") + 1
        raise Refused(f"{where}: line {line}: no {encoding.upper()}, which its mark says it is; {SAVE}") from None


def _unmarked(data: bytes, where: str) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
    try:
        found = data.decode("gb18030")
    except UnicodeDecodeError:
        found = ""
    if not _chinese(found):
        raise Refused(f"{where}: line {line}: its encoding cannot be told; {SAVE}")
    return found


def _chinese(found: str) -> bool:
    """Whether most characters beyond ASCII are of GB 2312."""
    foreign = [one for one in found if not one.isascii()]
    return 2 * sum(_common(one) for one in foreign) > len(foreign)


def _common(one: str) -> bool:
    try:
        return bool(one.encode("gb2312"))
    except UnicodeEncodeError:
        return False
