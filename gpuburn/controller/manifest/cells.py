"""One cell of a vendor's file: its value in canonical form, or why it is none. Knows no file, row or host."""

from __future__ import annotations

import functools
import re

from gpuburn import sku
from gpuburn.controller.run import NAME, PLAIN
from gpuburn.identity import is_junk
from gpuburn.manifest import COLUMNS
from gpuburn.strict import Refused, known, short

FORMULA = ("=", "+", "-", "@", "\uff1d", "\uff0b", "\uff0d", "\uff20")  # the last four: the full-width forms
TEMPLATE = ("{{", "{%", "{#")  # an inventory is made of these cells, and Ansible would fill one in
LONGEST = 200  # characters
FINE = re.compile(f"[A-Za-z0-9][A-Za-z0-9 ._:/#()-]{{0,{LONGEST - 1}}}")  # most cells: nothing in it needs a look
CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ufffd]")
SEVERAL = re.compile(r"[;|\n]")  # between the numbers of several parts in one cell
SERIAL = re.compile(r"[A-Za-z0-9][A-Za-z0-9 ._:/#()+-]*")
ROUNDED = re.compile(r"\d+([.,]\d+)?[Ee]\+?\d+")
MAC = re.compile(r"[0-9a-f]{12}|[0-9a-f]{16}|[0-9a-f]{40}")  # Ethernet, EUI-64, IP over InfiniBand
PCI = re.compile(r"(?:([0-9a-f]{4,8}):)?([0-9a-f]{2}):([0-9a-f]{2})\.([0-7])")
DASHES = "[-\u2013\u2014\uff0d]{1,3}"  # alone in a cell they are how people write that there is nothing
ABSENT = re.compile(
    rf"(\[?n/?a\]?|none|null|tbd|unknown|empty|not (specified|available|applicable)|无|{DASHES})?", re.IGNORECASE
)
NUMBER = re.compile(r"\d{1,12}(\.\d{1,6})?")


def plain(column: str, cell: str) -> str:
    """The cell's text; "" for nothing and for a vendor's filler. Raises Refused for what a spreadsheet would run.

    A place, a name or a number may well be what is filler in a serial: unit 0, rack F.
    """
    text = cell.strip()
    if ABSENT.fullmatch(text):
        return ""
    if not FINE.fullmatch(text):
        _checked(text)
    about = COLUMNS[column]
    filler = about.form in ("serial", "mac") or (about.form == "text" and about.of != "place")
    return "" if filler and is_junk(text) else text


def _checked(text: str) -> None:
    """Raises Refused for a cell's text that may not stand in a list."""
    if text[:1] in FORMULA:
        raise Refused(f"{short(text)} begins as a formula does; wanted is the value itself")
    if any(mark in text for mark in TEMPLATE):
        raise Refused(f"{short(text)} holds a template; wanted is the value itself")
    if len(text) > LONGEST:
        raise Refused(f"{len(text)} characters; wanted are at most {LONGEST}")
    if CONTROL.search(text):
        raise Refused(f"{short(text)} has a control character; wanted is plain text")


@functools.lru_cache(maxsize=65_536)  # most cells of a list are repeated in the rows of a host, or of all
def values(column: str, cell: str) -> tuple[str, ...]:
    """The cell's values: several only in a column that tells parts apart. Raises Refused with what is wanted."""
    text = plain(column, cell)
    if not COLUMNS[column].identifies or not SEVERAL.search(text):
        return (canonical(column, text),) if text else ()
    return tuple(canonical(column, one) for part in SEVERAL.split(text) if (one := plain(column, part)))


def canonical(column: str, text: str) -> str:
    """A value as it is compared. Raises Refused with what is wanted."""
    form = COLUMNS[column].form
    if form in ("count", "number", "lanes"):
        return _number(form, text)
    if form == "serial":
        return _serial(text)
    if form == "mac":
        return mac(text)
    if form == "slot":
        return slot(text)
    if form == "name" and not NAME.fullmatch(text):
        raise Refused(f"{short(text)} is no host name; {PLAIN}")
    if form == "sku":
        known(text, sku.ids(), "gpuburn sku list")
    return " ".join(text.split())


def _number(form: str, text: str) -> str:
    digits = text.lower().removeprefix("gen").removeprefix("x").strip() if form == "lanes" else text
    if not NUMBER.fullmatch(digits) or (form != "number" and "." in digits):
        raise Refused(f"{short(text)} is no {'number without a unit' if form == 'number' else 'whole number'}")
    return amount(float(digits))


def amount(number: float) -> str:
    """A number as text, the shortest that says the same."""
    return str(int(number)) if number == int(number) else repr(number)


def _serial(text: str) -> str:
    if ROUNDED.fullmatch(text):
        raise Refused(f"{short(text)} is a number that a spreadsheet has rounded; wanted is the serial as text")
    if not SERIAL.fullmatch(text):
        raise Refused(f"{short(text)} is no serial; wanted are Latin letters, digits and simple punctuation")
    return text


def mac(text: str) -> str:
    """A hardware address in lower case with colons."""
    digits = re.sub(r"[:.\s-]", "", text.lower())
    if not MAC.fullmatch(digits):
        raise Refused(f"{short(text)} is no MAC address; wanted are 12 hexadecimal digits, such as 00:11:22:aa:bb:cc")
    return ":".join(digits[at : at + 2] for at in range(0, len(digits), 2))


def slot(text: str) -> str:
    """A PCI address as the kernel writes it; any other label as it is."""
    if found := PCI.fullmatch(text.lower()):
        domain = (found[1] or "0000").lstrip("0").rjust(4, "0")
        return f"{domain}:{found[2]}:{found[3]}.{found[4]}"
    return " ".join(text.split())
