"""Vital product data of adapters: as a card has it, cut short at every byte, and garbled."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuburn.agent import vpd
from gpuburn.agent.look import Look

NAME = b"\x82\x23\x00NVIDIA ConnectX-7 HHHL Adapter Card"
NUMBERS = b"\x90\x29\x00PN\x10MCX75310AAS-NEATSN\x0dMT2242600GX3 RV\x03\x00\x00\x00"
CARD = NAME + NUMBERS + b"\x78"
TOLD = {"model": "NVIDIA ConnectX-7 HHHL Adapter Card", "part": "MCX75310AAS-NEAT", "serial": "MT2242600GX3"}


def test_a_card_tells_its_name_part_and_serial() -> None:
    assert vpd.fields(CARD) == TOLD


def test_no_length_that_is_cut_short_or_garbled_tells_something_else() -> None:
    for end in range(len(CARD)):
        assert vpd.fields(CARD[:end]).items() <= TOLD.items(), end
    for at in range(len(CARD)):
        vpd.fields(CARD[:at] + b"\xff" + CARD[at + 1 :])


@pytest.mark.parametrize("data", [b"", b"\x78", b"\x00" * 64, b"\xff" * 64, b"\x82", b"\x82\x00\x00"])
def test_empty_and_blank_memories_tell_nothing(data: bytes) -> None:
    assert {value for value in vpd.fields(data).values() if value} == set()


def test_what_is_not_told_is_named(tmp_path: Path) -> None:
    seen = Look(tmp_path)
    vpd.tell(seen, "nic.eth0", "/device")
    assert seen.missing["nic.eth0.serial"] == "No such file or directory: /device/vpd"
    (tmp_path / "device").mkdir()
    (tmp_path / "device" / "vpd").write_bytes(b"\x78")
    vpd.tell(seen, "nic.eth0", "/device")
    assert seen.missing["nic.eth0.model"] == "the device's vital product data does not tell it"
    assert seen.sources == {}
