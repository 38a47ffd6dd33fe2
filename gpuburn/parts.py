"""The parts of a host by their numbers, and what became of them between two looks. Pure.

A part is known by its number (serial, burnt-in address, or for a PCI device its address and ids, for the kernel tells
no more) and located by where it sits. A look that could not see a kind of part says nothing of that kind.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from gpuburn.identity import Identity

GPU = ("0x0300", "0x0302")  # display and 3D controllers; adapters and NVMe have kinds of their own
ADAPTER = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")
# kind: (what its source is called, the keys of its number, the key of its place or "" for the source's own name,
# the gap that says that the kind as a whole could not be seen)
KINDS = {
    "disk": ("disk.", ("model", "serial"), "pci", "sys.block"),
    "nic": ("nic.", ("permanent",), "pci", "sys.class.net"),
    "dimm": ("dimm.", ("manufacturer", "part", "serial"), "", "dimm"),
    "socket": ("socket.", ("version", "serial"), "", "socket"),
    "gpu": ("pci.", ("address", "vendor", "device", "subsystem_vendor", "subsystem_device"), "slot",
            "sys.bus.pci.devices"),
}  # fmt: skip
LAST = {"disk": "serial", "nic": "permanent", "dimm": "serial", "socket": "serial", "gpu": "device"}


@dataclass(frozen=True, slots=True, order=True)
class Part:
    """kind: of KINDS. number: what it is known by. place: where it sits. source: which source of the look told it."""

    kind: str
    number: str
    place: str
    source: str


@dataclass(frozen=True, slots=True)
class Change:
    """What became of one part between two looks."""

    kind: str
    why: str


def parts(look: Identity) -> list[Part]:
    """Every part of a look that has a number of its own; one without its last key has none."""
    found = []
    for kind, (start, keys, place, _) in KINDS.items():
        for source, values in look.sources.items():
            if source.startswith(start) and look.value(f"{source}.{LAST[kind]}") and _fixed(kind, values):
                number = " ".join(values[key] for key in keys if key in values)
                found.append(Part(kind, number, values.get(place) or source.partition(".")[2], source))
    return sorted(found)


def _fixed(kind: str, values: dict[str, str]) -> bool:
    """Whether a part belongs to the machine: what is plugged in over USB (also by a BMC) comes and goes."""
    if kind == "gpu":
        return values.get("class", "").startswith(GPU)
    if kind == "nic":
        return ADAPTER.fullmatch(values.get("pci", "")) is not None
    return values.get("transport", "") != "usb"


def changes(looks: Iterable[Identity]) -> Iterator[Change]:
    """What was lost, came new or moved, from each look to the next."""
    for before, after in itertools.pairwise(looks):
        for kind, (start, _, _, gap) in KINDS.items():
            if not _blind(before, start, gap) and not _blind(after, start, gap):
                was, now = ([one for one in parts(look) if one.kind == kind] for look in (before, after))
                yield from _changes(kind, was, now, after)


def firmware(looks: Iterable[Identity]) -> Iterator[Change]:
    """A disk or an adapter that tells another firmware than at the look before, and is the same otherwise."""
    for before, after in itertools.pairwise(looks):
        for source in before.sources:
            kind, _, name = source.partition(".")
            was, now = before.value(f"{source}.firmware"), after.value(f"{source}.firmware")
            same = before.value(f"{source}.serial") == after.value(f"{source}.serial")
            if kind in ("disk", "ib", "nic") and was and now and was != now and same:
                yield Change(kind, f"firmware {was} of {name} is {now}")


def _blind(look: Identity, start: str, gap: str) -> bool:
    """Whether a look could not see this kind at all: its folder or table was not to be read."""
    return gap in look.missing and not any(source.startswith(start) for source in look.sources)


def _changes(kind: str, was: list[Part], now: list[Part], after: Identity) -> Iterator[Change]:
    then, here = {one.number for one in was}, {one.number for one in now}
    fresh = {one.place: one for one in now if one.number not in then}
    for one in was:
        if one.number in here:
            continue
        if instead := fresh.pop(one.place, None):
            yield Change(kind, f"{one.number} at {one.place} was replaced by {instead.number}")
        elif one.source in after.sources:
            gap = after.missing.get(f"{one.source}.{LAST[kind]}", "absent")
            yield Change(kind, f"{one.number} at {one.place} no longer tells its number: {gap}")
        else:
            yield Change(kind, f"{one.number} at {one.place} is gone")
    yield from (Change(kind, f"{one.number} at {one.place} is new") for one in fresh.values())
    yield from _moved(kind, was, now)


def _moved(kind: str, was: list[Part], now: list[Part]) -> Iterator[Change]:
    """A part that sits elsewhere now; where one number stands in several places (two paths to one disk), all count."""
    places: dict[str, tuple[set[str], set[str]]] = {}
    for at, many in enumerate((was, now)):
        for one in many:
            places.setdefault(one.number, (set(), set()))[at].add(one.place)
    for number, (old, new) in places.items():
        if old and new and not old & new:
            yield Change(kind, f"{number} moved from {', '.join(sorted(old))} to {', '.join(sorted(new))}")


def universal(address: str) -> bool:
    """Whether an Ethernet address is a maker's: the second bit of its first octet says "locally administered".

    IEEE 802, 8.2.2. InfiniBand's twenty octets are none.
    """
    octets = address.split(":")
    return len(octets) == 6 and re.fullmatch(r"[0-9a-f]{2}", octets[0]) is not None and not int(octets[0], 16) & 2
