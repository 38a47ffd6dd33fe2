"""One host's order against what the host tells: an outcome and a sentence for every item. Pure: the same both always
give the same. What an outcome leads to is judging.py's business.
"""

from __future__ import annotations

from collections.abc import Iterator

from gpuburn.controller.manifest.pairs import Pairing, pair
from gpuburn.controller.manifest.shown import Shown
from gpuburn.manifest import COLUMNS, COUNTED, KINDS, Item, Kind, Ordered, Part
from gpuburn.plan import HOST

NAMED = 8  # values that a sentence lists
PHYSICAL = ("nic", "nvme", "dimm")  # what a hypervisor or a container may show others of
LINK = ("pcie_gen", "pcie_width")  # a hypervisor may hide it
NOTHING = "nothing on the host tells it"


def compare(ordered: Ordered, shown: Shown) -> list[Item]:
    """Every item: those of the host, those of its parts, and what the manifest says nothing of."""
    items = [*_host(ordered, shown)]
    for kind in KINDS:
        items += _kind(ordered, shown, kind)
    return [*items, *_unlisted(ordered, shown)]


def _host(ordered: Ordered, shown: Shown) -> Iterator[Item]:
    for column, value in ordered.values.items():
        if COLUMNS[column].of == "host":
            yield value_item(column, value, shown, HOST)


def value_item(column: str, ordered: str, shown: Shown, part: str) -> Item:
    """One value of one part, or of the host."""
    there = shown.parts.get(part, {}).get(column, "")
    if not there:
        return unseen(column, ordered, shown, part)
    if column == "gpu_slot":
        return _slot(ordered, there, part, shown.labels)
    by = shown.by.get(f"{part}.{column}", "")
    told = f"{there} ({by})" if by else there
    if same(column, ordered, there, exact=f"{part}.{column}" in shown.exact):
        return Item("match", column, f"{told}, as ordered", ordered, there, part, by=by)
    zeros = ordered.lstrip("0").casefold() == there.lstrip("0").casefold() and COLUMNS[column].form == "serial"
    hint = "; only zeros in front differ, which spreadsheets drop" if zeros else ""
    return Item("mismatch", column, f"ordered is {ordered}, there is {told}{hint}", ordered, there, part, by=by)


def _slot(ordered: str, there: str, part: str, labels: dict[str, str]) -> Item:
    """A slot is compared only where the host speaks the same language: PCI address, gpuburn's own name, or a label that
    the board gives one of its GPUs."""
    label = labels.get(part, "")
    at = f"{there} ({label})" if label else there
    if ordered.casefold() in (part.casefold(), there.casefold(), label.casefold()):
        return Item("match", "gpu_slot", f"{at}, as ordered", ordered, there, part)
    if comparable(ordered) or ordered.casefold() in (one.casefold() for one in labels.values()):
        return Item("mismatch", "gpu_slot", f"ordered is {ordered}, there is {part} at {at}", ordered, there, part)
    why = f"{ordered} is a label, and the host tells PCI addresses: {part} is at {there}"
    return Item("not_comparable", "gpu_slot", why, ordered, there, part, seeable=False)


def comparable(slot: str) -> bool:
    """Whether a slot is named as the host names it."""
    digits = slot.lower().removeprefix("gpu")
    return slot.count(":") == 2 or (digits != slot.lower() and digits.isdigit())


def same(column: str, ordered: str, there: str, exact: bool = False) -> bool:
    """exact: what told it leaves no margin."""
    about = COLUMNS[column]
    if about.form in ("number", "count", "lanes"):
        low, high = (1.0, 1.0) if exact else about.shares
        return float(ordered) * low <= float(there) <= float(ordered) * high
    return ordered.casefold() == there.casefold()


def unseen(column: str, ordered: str, shown: Shown, part: str) -> Item:
    """An ordered value that the host does not tell, with why; whether it could have."""
    seeable, why = _seeable(column, shown)
    why = why or shown.missing.get(f"{part}.{column}", NOTHING)
    return Item("not_comparable", column, f"ordered is {ordered}; not told: {why}", ordered, "", part, seeable)


def _seeable(column: str, shown: Shown) -> tuple[bool, str]:
    """Whether the host could show a column in its environment, with its privileges; and why not."""
    of = COLUMNS[column].of
    if not shown.gpus and (of == "gpu" or column == "gpu_count"):
        return False, "a rehearsal shows no GPU"
    rooted = of == "dimm" or column in ("dimm_count", "product_serial", "board_serial", "chassis_serial")
    physical = of in PHYSICAL or column in COUNTED or column in LINK
    if shown.blind and (rooted or (physical and shown.virtual and column != "gpu_count")):
        return False, shown.blind
    return True, ""


def _kind(ordered: Ordered, shown: Shown, kind: Kind) -> Iterator[Item]:
    """The parts of one kind, each ordered one with the one that it is, and what is left on both sides."""
    every = ordered.every(kind)
    if not ordered.of(kind):
        yield from _each(kind, every, shown)
        return
    pairing = pair(ordered.of(kind), shown.of(kind), kind, shown.labels)
    for part, name in pairing.pairs:
        for column, value in {**every, **part.values}.items():
            yield value_item(column, value, shown, name)
    yield from _left(pairing, shown, kind, every)


def _each(kind: Kind, every: dict[str, str], shown: Shown) -> Iterator[Item]:
    """What was ordered of every part of a kind, without their numbers."""
    for column, value in every.items():
        there = shown.of(kind)
        if not there:
            yield unseen(column, value, shown, HOST)
        for name in there:
            yield value_item(column, value, shown, name)


def _left(pairing: Pairing, shown: Shown, kind: Kind, every: dict[str, str]) -> Iterator[Item]:
    virtual = shown.virtual and kind in PHYSICAL
    certain = kind in shown.whole and not pairing.untold and not virtual
    for part in pairing.ordered:
        column = next(name for name in part.values if COLUMNS[name].identifies)
        value = part.values[column]
        numbered = [name for name in part.values if COLUMNS[name].identifies and COLUMNS[name].form != "slot"]
        if certain and (numbered or comparable(value)):
            column = (numbered or [column])[0]
            why = f"ordered is {part.names()}; no {kind} on the host is it"
            yield Item("missing", column, why, part.values[column])
        else:
            yield from _untold(part, every, pairing, shown, kind)
    for name, column in pairing.shown.items():
        there = shown.parts[name][column]
        if virtual or any(part for part in pairing.ordered if not _numbered(part)):
            continue
        why = f"{name} is {there}, which the manifest does not list for this host"
        yield Item("unexpected", column, why, "", there, name)


def _numbered(part: Part) -> bool:
    return any(COLUMNS[name].identifies and COLUMNS[name].form != "slot" for name in part.values)


def _untold(part: Part, every: dict[str, str], pairing: Pairing, shown: Shown, kind: Kind) -> Iterator[Item]:
    """An ordered part of which nothing tells whether it is there."""
    for column, value in {**every, **part.values}.items():
        seeable, why = _seeable(column, shown)
        if COLUMNS[column].form == "slot" and not comparable(value):
            seeable, why = False, why or "the host names its slots otherwise"
        elif not why and pairing.untold:
            why = f"{', '.join(pairing.untold[:NAMED])} on the host may be it: {_reason(pairing, shown)}"
        elif not why:
            why = f"nothing tells which {kind} it is" if kind in shown.whole else f"not every {kind} showed itself"
        yield Item("not_comparable", column, f"ordered is {value}; {why}", value, "", HOST, seeable)


def _reason(pairing: Pairing, shown: Shown) -> str:
    """Why a part does not tell its number."""
    first = pairing.untold[0]
    return next((why for name, why in shown.missing.items() if name.startswith(f"{first}.")), NOTHING)


def _unlisted(ordered: Ordered, shown: Shown) -> Iterator[Item]:
    """What the host tells and the manifest says nothing of: one item for each column."""
    for column, about in COLUMNS.items():
        if about.of == "place" or ordered.said(column):
            continue
        found = {there: None for values in shown.parts.values() if (there := values.get(column, ""))}
        if found:
            told = [*found][:NAMED]
            more = f" and {len(found) - len(told)} more" if len(found) > len(told) else ""
            why = f"the manifest says nothing of it; there is {', '.join(told)}{more}"
            yield Item("not_in_manifest", column, why, "", ", ".join(told))
