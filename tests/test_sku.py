"""SKUs: every file reads strictly, and an unknown GPU is never another one."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuburn import sku
from gpuburn.measurement import UNITS
from gpuburn.strict import Refused


@pytest.mark.parametrize("name", sku.ids())
def test_a_sku_is_recognised_by_something_and_every_number_has_its_source(name: str) -> None:
    one = sku.load(name)
    assert one.id == name
    assert one.names or one.pci_device_ids
    for key, number in one.numbers.items():
        assert number.source.strip(), key
        assert number.unit.strip(), key
        assert number.value > 0, key


def test_no_two_skus_share_a_name() -> None:
    seen: dict[str, str] = {}
    for name in sku.ids():
        for one in sku.load(name).names:
            assert one not in seen, f"{one!r}: {name} and {seen.get(one)}"
            seen[one] = name


@pytest.mark.parametrize("name", ["a101", "", "../skus/l4", "A10", "l4.yml"])
def test_an_unknown_gpu_is_refused_and_never_replaced(name: str) -> None:
    with pytest.raises(Refused, match=r"host node1: unknown"):
        sku.load(name, "host node1")


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (("id: l4", "id: l40"), "id is 'l40', wanted is 'l4'"),
        (("vendor: nvidia", "vendor: amd"), "'amd' is not one of nvidia"),
        (("architecture:", "architektur:"), "unknown 'architektur'; did you mean 'architecture'"),
    ],
)
def test_a_sku_with_a_mistake_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: tuple[str, str], says: str
) -> None:
    text = (sku.FOLDER / "l4.yml").read_text()
    assert change[0] in text
    (tmp_path / "l4.yml").write_text(text.replace(*change, 1))
    monkeypatch.setattr(sku, "FOLDER", tmp_path)
    with pytest.raises(Refused, match=rf"^l4\.yml.*{says}"):
        sku.load("l4")


def test_units_of_power_and_speed_are_the_fields() -> None:
    for name in sku.ids():
        power = sku.load(name).numbers.get("power")
        assert power is None or power.unit == "W"
    assert "W" in UNITS
