"""Which ordered part is which part of the host: by its numbers, then by its slot, then by being the only one left."""

from __future__ import annotations

from dataclasses import dataclass, field

from gpuburn.manifest import COLUMNS, Kind, Part

OWN = 0x02  # in the first byte of a MAC: given by whoever set it up, not by a vendor (IEEE 802, local bit)


@dataclass
class Pairing:
    """pairs: (ordered, name of the host's part). ordered: those without one. shown: {part without one: its column}.

    untold: the host's parts without one that do not tell a number by which others of the kind are ordered.
    """

    pairs: list[tuple[Part, str]] = field(default_factory=list)
    ordered: list[Part] = field(default_factory=list)
    shown: dict[str, str] = field(default_factory=dict)
    untold: list[str] = field(default_factory=list)


def pair(
    ordered: list[Part], there: dict[str, dict[str, str]], kind: Kind, labels: dict[str, str] | None = None
) -> Pairing:
    """Pair the parts of one kind. A number decides before a slot does: a part in another slot is still that part.

    labels: what the board calls the slots of these parts.
    """
    found = Pairing(ordered=list(ordered))
    left = dict(there)
    columns = [name for name, about in COLUMNS.items() if about.of == kind and about.identifies]
    numbers = [name for name in columns if COLUMNS[name].form != "slot"]
    for column in [*numbers, *(name for name in columns if name not in numbers)]:
        _by(found, left, column, labels or {})
    if kind == "gpu" and len(found.ordered) == len(left) == 1 and len(ordered) == len(there):
        found.pairs.append((found.ordered.pop(), left.popitem()[0]))
    if _alike(found.ordered) and len(found.ordered) == len(left):  # which is which makes no difference
        found.pairs += zip(found.ordered, sorted(left))
        found.ordered, left = [], {}
    wanted = [name for name in numbers if any(name in part.values for part in ordered)]
    # Without their own addresses, the ports of a bond all tell the one of the bond.
    shared = {there[name]["nic_mac"] for _, name in found.pairs if "nic_mac" in there[name]}
    for name, values in left.items():
        told = next((column for column in [*wanted, *numbers, *columns] if column in values), "")
        if wanted and not all(column in values for column in wanted):
            found.untold.append(name)
        elif told and not _set_up(values) and values.get("nic_mac", "") not in shared:
            found.shown[name] = told
    return found


def _by(found: Pairing, left: dict[str, dict[str, str]], column: str, labels: dict[str, str]) -> None:
    """Pair what one column tells; the host's own name of a part and the board's label stand for a slot, too."""
    by_value = {values[column].casefold(): name for name, values in left.items() if column in values}
    if COLUMNS[column].form == "slot":
        by_value |= {name.casefold(): name for name in left}
        by_value |= {labels[name].casefold(): name for name in left if name in labels}
    for part in list(found.ordered):
        name = by_value.pop(part.values.get(column, "").casefold(), "")
        if name and name in left:
            found.pairs.append((part, name))
            found.ordered.remove(part)
            del left[name]


def _set_up(values: dict[str, str]) -> bool:
    """Whether an interface's address was set by its host or BMC, so that no vendor can list it."""
    return bool(int(values.get("nic_mac", "00")[:2], 16) & OWN)


def _alike(parts: list[Part]) -> bool:
    """Whether parts that only a slot's label tells apart are the same in all else."""
    rest = [{name: value for name, value in part.values.items() if COLUMNS[name].form != "slot"} for part in parts]
    return all(one == rest[0] for one in rest) and not any(COLUMNS[name].identifies for one in rest[:1] for name in one)
