"""Memory modules, processors and slots from the raw SMBIOS table, which only root may read.

Structure and offsets: DMTF DSP0134, System Management BIOS Reference Specification, 6.1.2 (header), 6.1.3 (strings),
7.5 (type 4), 7.10 (type 9), 7.18 (type 17). A field that a structure is too short for is absent. The table comes from
the board's firmware and is not trusted: every step is bounded, nothing here raises.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from gpuburn.agent.look import Look, clean, why

TABLE, ENTRY = "/sys/firmware/dmi/tables/DMI", "/sys/firmware/dmi/tables/smbios_entry_point"
LIMIT = 1024 * 1024  # bytes; the table of a server of 32 modules has some 20 KiB
MOST = 4096  # structures
PROCESSOR, SLOT, MEMORY, END = 4, 9, 17, 127
POPULATED = 0x40  # of a processor's status: socket populated
KIB, EXTENDED, UNKNOWN = 0x8000, 0x7FFF, 0xFFFF  # of a module's size: unit bit, "see extended size", unknown


@dataclass(frozen=True, slots=True)
class Structure:
    """One structure: its type, its formatted area with the header, its strings (numbered from 1)."""

    kind: int
    data: bytes
    strings: tuple[bytes, ...]

    def number(self, at: int, size: int) -> int | None:
        """A little-endian number of so many bytes; None where the structure ends before it."""
        field = self.data[at : at + size]
        return int.from_bytes(field, "little") if len(field) == size else None

    def text(self, at: int) -> str:
        """The string that the byte there names; "" where it names none."""
        index = self.number(at, 1) or 0
        return clean(self.strings[index - 1].decode("utf-8", "replace")) if 0 < index <= len(self.strings) else ""


def structures(table: bytes) -> Iterator[Structure]:
    """Every structure up to the end mark, to the first that is broken, or to the end of what there is."""
    at = 0
    for _ in range(MOST):
        kind, length = (table[at], table[at + 1]) if at + 4 <= len(table) else (END, 0)
        if kind == END or length < 4 or at + length > len(table):
            return
        end = table.find(b"\0\0", at + length)
        if end < 0:
            return
        yield Structure(kind, table[at : at + length], tuple(table[at + length : end].split(b"\0")))
        at = end + 2


def tell(seen: Look) -> dict[str, str]:
    """Sources dimm.<locator> and socket.<name>; the board's name of the slot of each PCI address that it tells."""
    _version(seen)
    try:
        table = seen.raw(TABLE, LIMIT)
    except OSError as error:
        seen.missing["dimm"] = seen.missing["socket"] = why(error, TABLE)
        return {}
    found = list(structures(table))
    for one in (one for one in found if one.kind == PROCESSOR):
        _processor(seen, one)
    modules = [one for one in found if one.kind == MEMORY]
    for one in modules:
        _module(seen, one)
    if not modules:
        seen.missing["dimm"] = f"the board's table lists no memory module: {TABLE}"
    return dict(pair for one in found if one.kind == SLOT for pair in _slot(one))


def ecc(seen: Look) -> dict[str, Any]:
    """modules: how many the board has; checked: how many are wider in all than their data (7.18: total, data width)."""
    try:
        table = seen.raw(TABLE, LIMIT)
    except OSError as error:
        return {"unknown": why(error, TABLE)}
    modules = [one for one in structures(table) if one.kind == MEMORY and one.number(0x0C, 2)]
    widths = [(one.number(0x08, 2) or 0, one.number(0x0A, 2) or 0) for one in modules]
    if not widths or any(UNKNOWN in pair or 0 in pair for pair in widths):
        return {"unknown": "the board does not tell the width of every module"}
    return {"modules": len(widths), "checked": sum(total > data for total, data in widths)}


def _version(seen: Look) -> None:
    """Of the specification that the table follows: in the entry point (5.2.1 and 5.2.2 of DSP0134)."""
    try:
        entry = seen.raw(ENTRY, 64)
    except OSError as error:
        seen.missing["dmi.smbios"] = why(error, ENTRY)
        return
    at = 7 if entry.startswith(b"_SM3_") else 6 if entry.startswith(b"_SM_") else 0
    told = f"{entry[at]}.{entry[at + 1]}" if at and len(entry) > at + 1 else ""
    seen.said("dmi", "smbios", told, f"no entry point of SMBIOS in {ENTRY}")


def _processor(seen: Look, one: Structure) -> None:
    if not (one.number(0x18, 1) or 0) & POPULATED:
        return
    source = _name(seen, "socket", one.text(0x04), "", one)
    for key, at in (("manufacturer", 0x07), ("version", 0x10), ("serial", 0x20), ("part", 0x22)):
        seen.said(source, key, one.text(at))


def _module(seen: Look, one: Structure) -> None:
    """A module; an empty socket (size 0) is none."""
    size = one.number(0x0C, 2)
    if not size:
        return
    source = _name(seen, "dimm", one.text(0x10), one.text(0x11), one)
    for key, at in (("manufacturer", 0x17), ("serial", 0x18), ("part", 0x1A)):
        seen.said(source, key, one.text(at))
    mib = (one.number(0x1C, 4) or 0) & 0x7FFFFFFF if size == EXTENDED else size
    mib = (size & EXTENDED) // 1024 if size & KIB and size != UNKNOWN else mib
    seen.said(source, "size", f"{mib} MiB" if size != UNKNOWN and mib else "", "the board does not know it")
    for key, at, more in (("speed", 0x15, 0x54), ("configured_speed", 0x20, 0x58)):
        speed = one.number(at, 2) or 0
        speed = (one.number(more, 4) or 0) & 0x7FFFFFFF if speed == UNKNOWN else speed
        seen.said(source, key, f"{speed} MT/s" if speed else "", "the board does not know it")
    rank = (one.number(0x1B, 1) or 0) & 0x0F
    seen.said(source, "rank", str(rank or ""), "the board does not know it")


def _slot(one: Structure) -> Iterator[tuple[str, str]]:
    """The PCI address of a slot and its name; a slot without an address says FF (7.10.8, 7.10.9)."""
    segment, bus, function = one.number(0x0D, 2), one.number(0x0F, 1), one.number(0x10, 1)
    name = one.text(0x04)
    if name and segment is not None and bus is not None and function is not None and (bus, function) != (0xFF, 0xFF):
        yield f"{segment:04x}:{bus:02x}:{function >> 3:02x}.{function & 7}", name


def _name(seen: Look, kind: str, place: str, bank: str, one: Structure) -> str:
    """kind.<locator>, with the bank, or the structure's handle, where boards give one locator twice."""
    handle = f"{one.number(2, 2):04x}"
    tried = (place, f"{place} {bank}".strip(), f"{place} {handle}".strip())
    free = (name for name in tried if name and f"{kind}.{name}" not in seen.sources)
    return f"{kind}.{next(free, handle)}"
