"""Vital product data that a PCI device carries: its name, part number and serial number, as its maker wrote them.

The layout is the PCI Local Bus Specification's (revision 3.0, appendix I): resources with a tag and a length, and in
the read-only one keywords of two letters, each with a length of one byte. The kernel gives it to root alone.
"""

from __future__ import annotations

from collections.abc import Iterator

from gpuburn.agent.look import Look, why

LIMIT = 4096  # bytes: names and numbers stand at the beginning; every four of them cost the device an access
NAME, READ_ONLY = 0x82, 0x90  # the tags, as they are written
KEYS = {"PN": "part", "SN": "serial"}
# HGX B200 and B300: NVSwitches are no PCI devices, but sit behind functions of a ConnectX-7 whose data says so.
SWITCH_MANAGER = b"SMDL=SW_MNG"


def tell(seen: Look, source: str, path: str) -> None:
    """model, part and serial of the device at path/vpd into this source, or why they are not there."""
    try:
        found, gap = fields(seen.raw(f"{path}/vpd", LIMIT)), "the device's vital product data does not tell it"
    except OSError as error:
        found, gap = {}, why(error, f"{path}/vpd")
    for key in ("model", *KEYS.values()):
        seen.said(source, key, found.get(key, ""), gap)


def manages_switches(seen: Look, path: str) -> bool:
    """Whether the device at path says that it is the way to NVSwitches; one that may not be read says nothing."""
    try:
        return SWITCH_MANAGER in seen.raw(f"{path}/vpd", LIMIT)
    except OSError:
        return False


def fields(data: bytes) -> dict[str, str]:
    """{"model", "part", "serial"} as far as the data tells them; what is cut short or garbled tells nothing more."""
    found: dict[str, str] = {}
    for tag, body in _resources(data):
        if tag == NAME:
            found["model"] = _text(body)
        elif tag == READ_ONLY:
            found |= {KEYS[name]: _text(value) for name, value in _keywords(body) if name in KEYS}
    return found


def _resources(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Large resources up to the end tag; a small one other than that has no place here."""
    at = 0
    while at + 3 <= len(data) and data[at] & 0x80:
        size = int.from_bytes(data[at + 1 : at + 3], "little")
        body = data[at + 3 : at + 3 + size]
        if len(body) == size:
            yield data[at], body
        at += 3 + size


def _keywords(body: bytes) -> Iterator[tuple[str, bytes]]:
    at = 0
    while at + 3 <= len(body):
        size = body[at + 2]
        value = body[at + 3 : at + 3 + size]
        if len(value) == size:
            yield body[at : at + 2].decode("latin-1"), value
        at += 3 + size


def _text(value: bytes) -> str:
    return value.decode("ascii", "replace").rstrip("\0 ")
