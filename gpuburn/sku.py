"""A GPU model: how it is recognised and its numbers, each with its source. Counts and serials are the inventory's.

Whether the numbers can be true is for plausible; what becomes of them is for the limits.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from gpuburn import plausible, strict
from gpuburn.strict import Refused, known

FOLDER = Path(__file__).parent / "skus"
VENDOR = "10de"  # NVIDIA's, as PCI calls it
CONFIDENCE = ("high", "medium", "low")


@dataclass(frozen=True, slots=True)
class Number:
    """One reference value, as its source states it; of a published range the lower end, the range in the note.

    basis: datasheet; measured by somebody; threshold, below which another tool rejects; derived by arithmetic.
    confidence: high may reject, medium warns, low informs. method: the way of measuring; numbers of two methods are
    never compared. devices: it holds only for that many devices together; 0 for any.
    """

    value: float
    unit: str
    basis: Literal["datasheet", "measured", "threshold", "derived"]
    source: str
    confidence: Literal["high", "medium", "low"]
    method: str = ""
    devices: int = 0
    note: str = ""


@dataclass(frozen=True, slots=True)
class Pcie:
    """The link that the GPU itself can hold: its generation and its lanes."""

    gen: int
    width: int
    note: str = ""


@dataclass(frozen=True, slots=True)
class Nvlink:
    """links: 0 where not known. per_link: GB/s one way, 0 where not known. bridge: only where bridges are fitted."""

    gen: int
    links: int = 0
    per_link: float = 0.0
    bridge: bool = False
    note: str = ""


@dataclass(frozen=True, slots=True)
class Sku:
    """names are anchored: a name that only contains one of them is another model.

    sm_clock, memory_clock: MHz at most; memory_bus: bits; 0 where not known. pcie, nvlink: None where it has none.
    unsupported: dtypes without hardware of their own. exceeds_peak_ok: boards clock above the specified boost.
    """

    id: str
    vendor: Literal["nvidia"]
    architecture: str
    compute_capability: str
    form: Literal["sxm", "pcie", "superchip"]
    names: list[str]
    pci_device_ids: list[str]
    numbers: dict[str, list[Number]]
    pci_source: str = ""
    memory_type: str = ""
    ecc: str = ""
    sm_clock: float = 0.0
    memory_clock: float = 0.0
    memory_bus: int = 0
    pcie: Pcie | None = None
    nvlink: Nvlink | None = None
    unsupported: list[str] = field(default_factory=list)
    exceeds_peak_ok: bool = False
    note: str = ""

    def number(self, name: str) -> Number | None:
        """What the part is specified for (datasheet, or derived from one), by the best source; None if nobody says."""
        specified = [one for one in self.numbers.get(name, []) if one.basis in ("datasheet", "derived")]
        return min(specified, key=lambda one: CONFIDENCE.index(one.confidence), default=None)


def lowest(sku: Sku, name: str, method: str, devices: int = 0) -> Number | None:
    """The lowest number that may reject: measured, of high confidence, by that method, for that many devices.

    A threshold of another tool, a datasheet's promise or a number by another method is never chosen.
    """
    fit = [
        one
        for one in sku.numbers.get(name, [])
        if (one.basis, one.confidence, one.method) == ("measured", "high", method) and one.devices in (0, devices)
    ]
    return min(fit, key=lambda one: one.value, default=None)


def ids() -> list[str]:
    """Every SKU that this version knows."""
    return sorted(path.stem for path in FOLDER.glob("*.yml"))


def load(name: str, where: str = "sku") -> Sku:
    """One SKU by its id; an unknown one is refused and never replaced by another."""
    known(name, ids(), where)
    return _read(FOLDER / f"{name}.yml")


def match(pci_device_id: str, name: str) -> Sku | None:
    """The SKU that a device tells to be; None if it is none that we know, and then nobody's numbers apply to it.

    The PCI device id decides, whatever the name says: a board's id is fused, its name is the driver's text. It is read
    as "2330", "0x2330", "10de:2330" or as NVML's pciDeviceId, 0x233010de, in any case. Where the id is not given or
    not known, the whole name decides; a part of a name never does.
    """
    by_id, by_name = _index(FOLDER)
    found = by_id.get(_device_id(pci_device_id)) or by_name.get(name)
    return load(found) if found else None


def _device_id(text: str) -> str:
    """Four lower-case hex digits, or "" if another vendor's."""
    digits = text.strip().lower().removeprefix("0x")
    if len(digits) == 8 and ":" not in digits:
        digits = f"{digits[4:]}:{digits[:4]}"
    vendor, colon, device = digits.rpartition(":")
    return device if not colon or vendor == VENDOR else ""


@functools.cache
def _read(path: Path) -> Sku:
    sku = strict.build(Sku, strict.load_yaml(path), path.name)
    if sku.id != path.stem:
        raise Refused(f"{path.name}: id is {sku.id!r}, wanted is {path.stem!r}")
    wrong = plausible.problems(sku)
    if wrong:
        raise Refused(f"{path.name}: {wrong[0]}")
    return sku


@functools.cache
def _index(folder: Path) -> tuple[dict[str, str], dict[str, str]]:
    """SKUs by PCI device id, and by name. Refuses two that claim the same."""
    by_id: dict[str, str] = {}
    by_name: dict[str, str] = {}
    for path in sorted(folder.glob("*.yml")):
        sku = _read(path)
        claims = [(by_id, one.lower()) for one in sku.pci_device_ids] + [(by_name, one) for one in sku.names]
        for taken, claim in claims:
            if claim in taken:
                raise Refused(f"{path.name}: {claim!r} is also {taken[claim]}'s; wanted is one SKU for each")
            taken[claim] = sku.id
    return by_id, by_name
