"""SKUs: every file reads strictly, a GPU is recognised by its id or its whole name, and is never another one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpuburn import sku, strict
from gpuburn.sku import Number, Sku
from gpuburn.strict import Refused

H100 = "h100-sxm5-80gb"


def edited(folder: Path, name: str, change: Callable[[dict[str, Any]], object]) -> None:
    """A copy of one SKU's file in that folder, with a change to its document."""
    document = yaml.safe_load((sku.FOLDER / f"{name}.yml").read_text())
    change(document)
    (folder / f"{document['id']}.yml").write_text(yaml.safe_dump(document, sort_keys=False))


@pytest.mark.parametrize("name", sku.ids())
def test_a_sku_is_recognised_by_something_and_every_number_has_its_source(name: str) -> None:
    one = sku.load(name)
    assert one.id == name
    assert one.names and one.pci_device_ids and one.pci_source
    assert (one.pcie is None) == (one.form == "superchip" and "c2c_peak" in one.numbers)
    for key, numbers in one.numbers.items():
        assert numbers, key
        for number in numbers:
            assert len(number.source) >= 20, key
            assert number.value > 0, key
            assert (number.method == "") == (
                key.startswith("peak_") or key.endswith("_peak") or key in ("memory", "power")
            )


def test_no_number_stands_twice() -> None:
    for name in sku.ids():
        for key, numbers in sku.load(name).numbers.items():
            said = [(one.value, one.basis, one.method, one.devices, one.source) for one in numbers]
            assert len(said) == len(set(said)), f"{name} {key}"


def test_the_tables_are_whole() -> None:
    """Counted once against the collected reference: a number that gets lost is missed here."""
    numbers = [one for name in sku.ids() for many in sku.load(name).numbers.values() for one in many]
    assert len(sku.ids()) >= 42
    assert len(numbers) >= 773
    assert sum(one.confidence == "high" for one in numbers) >= 325
    assert sum(one.basis == "measured" for one in numbers) >= 311


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
        (("form: pcie", "form: mezzanine"), "'mezzanine' is not one of sxm, pcie, superchip"),
        (("confidence: high", "confidence: sure"), "'sure' is not one of high, medium, low"),
        (("basis: measured", "basis: hearsay"), "'hearsay' is not one of datasheet, measured"),
        (("value: 24", "value: .nan"), "nan is not a finite number"),
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


@pytest.mark.parametrize("told", ["2330", "0x2330", "0X2330", "10DE:2330", "0x233010DE", "233010de", " 2330 "])
@pytest.mark.parametrize("name", ["", "NVIDIA H100 80GB HBM3", "NVIDIA H200", "GH100 engineering sample"])
def test_the_pci_device_id_decides_whatever_the_name_says(told: str, name: str) -> None:
    found = sku.match(told, name)
    assert found is not None and found.id == H100


@pytest.mark.parametrize("name", sku.ids())
def test_every_sku_is_found_by_its_ids_and_by_its_names(name: str) -> None:
    one = sku.load(name)
    assert all(sku.match(told, "") is one for told in one.pci_device_ids)
    assert all(sku.match("", told) is one for told in one.names)


@pytest.mark.parametrize(
    "name",
    [
        "", "H100", "NVIDIA", "NVIDIA A10 ", "NVIDIA A100", "NVIDIA H100", "nvidia l40s", "NVIDIA L40S-48Q",
        "NVIDIA B20", "GRID A100-SXM4-80GB", "NVIDIA H100 80GB HBM3 MIG 1g.10gb", "NVIDIA H800 NVL", "xNVIDIA L4",
    ],
)  # fmt: skip
@pytest.mark.parametrize("told", ["", "ffff", "2330ffff", "1002:2330", "0x23301002", "233", "02330"])
def test_an_unknown_id_and_a_part_of_a_name_match_nothing(told: str, name: str) -> None:
    assert sku.match(told, name) is None


def test_the_longer_name_of_a_sibling_is_not_taken_for_the_shorter_one() -> None:
    for name, wanted in (("NVIDIA L40S", "l40s"), ("NVIDIA H200", "h200-sxm"), ("NVIDIA H200 NVL", "h200-nvl")):
        found = sku.match("", name)
        assert found is not None and found.id == wanted


@pytest.mark.parametrize(("key", "theirs"), [("pci_device_ids", "27b8"), ("names", "NVIDIA L4")])
def test_two_skus_that_claim_the_same_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, key: str, theirs: str
) -> None:
    edited(tmp_path, "l4", lambda document: None)
    edited(tmp_path, "t4", lambda document: document[key].append(theirs))
    monkeypatch.setattr(sku, "FOLDER", tmp_path)
    with pytest.raises(Refused, match=rf"^t4\.yml: '{theirs}' is also l4's"):
        sku.match("27b8", "")


def of(*numbers: Number) -> Sku:
    form: Any = "sxm"
    return Sku("x", "nvidia", "hopper", "9.0", form, ["x"], [], {"gemm_bf16": list(numbers), "power": list(numbers)})


def number(value: float, basis: Any = "measured", confidence: Any = "high", **more: Any) -> Number:
    return Number(value, "TFLOP/s", basis, "a source", confidence, **{"method": "gemm sustained", **more})


LOWER = number(700)


@pytest.mark.parametrize(
    "other",
    [
        number(800), number(600, "threshold"), number(600, "datasheet"), number(600, "derived"),
        number(600, confidence="medium"), number(600, confidence="low"), number(600, method="gemm burst"),
        number(600, method="gemm best shape"), number(600, method=""), number(600, devices=8),
    ],
    ids=str,
)  # fmt: skip
def test_the_lowest_is_measured_of_high_confidence_and_of_the_same_method(other: Number) -> None:
    assert sku.lowest(of(other, LOWER), "gemm_bf16", "gemm sustained", 4) is LOWER
    assert sku.lowest(of(LOWER, other), "gemm_bf16", "gemm sustained", 4) is LOWER
    if other.value < LOWER.value:
        assert sku.lowest(of(other), "gemm_bf16", "gemm sustained", 4) is None


def test_the_lowest_of_an_all_reduce_is_that_of_so_many_devices() -> None:
    many = of(number(500, devices=8), number(300, devices=16), number(900))
    found = [sku.lowest(many, "gemm_bf16", "gemm sustained", devices) for devices in (0, 4, 8, 16)]
    assert [one and one.value for one in found] == [900, 900, 500, 300]
    assert sku.lowest(many, "gemm_fp8", "gemm sustained") is None


def test_the_lowest_of_real_tables() -> None:
    def value(name: str, key: str, method: str, devices: int = 0) -> float | None:
        found = sku.lowest(sku.load(name), key, method, devices)
        return found.value if found else None

    assert value(H100, "gemm_bf16", "gemm sustained") == 730  # not 794.5 of the best shape
    assert value(H100, "gemm_fp8", "gemm sustained") == 1290.1
    assert value("a100-sxm4-80gb", "gemm_bf16", "gemm sustained") == 261.2
    assert value("a100-sxm4-80gb", "triad", "babelstream triad") == 1700  # not 1371 of cudaMemcpy
    assert value("h200-sxm", "allreduce", "nccl-tests", 8) == 480  # not 367 of the ring, nor the floor of 431
    assert value("b200", "allreduce", "nccl-tests", 4) == 673
    assert value("b200", "allreduce", "nccl-tests", 2) is None
    assert value("rtx-4090", "gemm_bf16", "gemm sustained") is None  # bursts by volunteers only


def test_a_specified_number_is_the_datasheets_by_the_best_source() -> None:
    sheets = of(number(1, confidence="high"), number(2, "datasheet", "low"), number(3, "datasheet", "medium"))
    found = sheets.number("power")
    assert found is not None and found.value == 3
    assert sheets.number("memory") is None
    power = sku.load("h200-sxm").number("power")
    assert power is not None and (power.value, power.unit) == (700, "W")


def test_files_are_written_so_that_a_person_reads_a_number_in_two_or_three_lines() -> None:
    for name in sku.ids():
        text = (sku.FOLDER / f"{name}.yml").read_text()
        numbers = sum(len(many) for many in sku.load(name).numbers.values())
        assert 20 <= len(text.splitlines()) <= 300, name
        assert len(text.splitlines()) < 4 * numbers + 40, name


def test_a_whole_table_is_read_once() -> None:
    assert sku.load("l4") is sku.load("l4")
    assert strict.plain(sku.load("l4"))["numbers"]["memory"][0]["unit"] == "GB"
