"""A GPU model: how it is recognised and its numbers, each with its source. Counts and serials are the inventory's."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from gpuburn import strict
from gpuburn.strict import Refused, known

FOLDER = Path(__file__).parent / "skus"


@dataclass(frozen=True, slots=True)
class Number:
    """One reference value. basis: datasheet, measured, threshold or derived. confidence decides what it may do."""

    value: float
    unit: str
    basis: Literal["datasheet", "measured", "threshold", "derived"]
    source: str
    confidence: Literal["high", "medium", "low"]
    method: str = ""
    note: str = ""


@dataclass(frozen=True, slots=True)
class Sku:
    """names are anchored: a name that only contains one of them is another model."""

    id: str
    vendor: Literal["nvidia"]
    architecture: str
    compute_capability: str
    form: str
    names: list[str]
    pci_device_ids: list[str]
    numbers: dict[str, Number] = field(default_factory=dict)


def ids() -> list[str]:
    """Every SKU that this version knows."""
    return sorted(path.stem for path in FOLDER.glob("*.yml"))


def load(name: str, where: str = "sku") -> Sku:
    """One SKU by its id; an unknown one is refused and never replaced by another."""
    known(name, ids(), where)
    path = FOLDER / f"{name}.yml"
    sku = strict.build(Sku, strict.load_yaml(path), path.name)
    if sku.id != name:
        raise Refused(f"{path.name}: id is {sku.id!r}, wanted is {name!r}")
    return sku
