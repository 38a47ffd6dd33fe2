"""The SKUs' tables on a terminal: nothing that a number is known for is left out."""

from __future__ import annotations

import pytest

from gpuburn import sku
from gpuburn.controller import skus
from gpuburn.probe import discover
from gpuburn.sku import Number


def test_all_skus_are_listed_with_what_may_reject() -> None:
    head, *rows = skus.listed().splitlines()
    assert head.split() == ["sku", "architecture", "memory", "PCI", "ids", "high", "medium", "low"]
    assert [row.split()[0] for row in rows] == sku.ids()
    h200 = next(row for row in rows if row.startswith("h200-sxm "))
    assert h200.split()[1:5] == ["hopper", "141", "GB", "2335"]
    many = [one for numbers in sku.load("h200-sxm").numbers.values() for one in numbers]
    assert [int(count) for count in h200.split()[5:]] == [
        sum(one.confidence == confidence for one in many) for confidence in sku.CONFIDENCE
    ]


@pytest.mark.parametrize("name", sku.ids())
def test_every_number_is_shown_with_its_source_and_note(name: str) -> None:
    text = skus.shown(name)
    one = sku.load(name)
    for key, numbers in one.numbers.items():
        assert f"\n\n{key}\n" in text
        part = text.partition(f"\n\n{key}\n")[2].partition("\n\n")[0]
        for number in numbers:
            assert f"  {number.value:g} {number.unit}  {number.basis}, {number.confidence}" in part
            assert number.source in part and number.note in part and number.method in part
    assert all(device in text for device in (*one.pci_device_ids, *one.names))


def test_a_number_serves_only_a_limit_of_its_own_method() -> None:
    for (family, method), about in skus.SERVES.items():
        probe, _, metric = about.partition(".")
        assert metric in discover()[probe].promises
        name = f"{family}_bf16" if family == "gemm" else family
        assert skus.serves(name, Number(1, "", "measured", "", "high", method)) == f"{about}, may fail"
        assert skus.serves(name, Number(1, "", "measured", "", "low", method)) == f"{about}, may inform only"
        assert skus.serves(name, Number(1, "", "threshold", "", "high", method)) == ""
        assert skus.serves(name, Number(1, "", "measured", "", "high", f"{method} elsewhere")) == ""


def test_what_is_special_of_a_part_is_said() -> None:
    assert "NVLink 3, 12 links, only with bridges" in skus.shown("a100-pcie-80gb")
    assert "PCIe Gen6 x16; Gen6 link; many hosts are Gen5" in skus.shown("b300")
    assert "no hardware for bf16, tf32, fp8" in skus.shown("t4")
    assert "P2P disabled by stock driver" in skus.shown("rtx-4090")
