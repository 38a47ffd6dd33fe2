"""The raw table of a board, written byte by byte after DSP0134: what it tells, and what it cannot do to its reader."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from gpuburn.agent import smbios
from gpuburn.agent.look import Look


def structure(kind: int, body: bytes, *strings: str, handle: int = 1) -> bytes:
    """Header, formatted area, strings; a structure without strings ends with two zero bytes all the same."""
    text = b"".join(one.encode() + b"\0" for one in strings) or b"\0"
    return struct.pack("<BBH", kind, 4 + len(body), handle) + body + text + b"\0"


def module(
    *strings: str, size: int = 0x7FFF, extended: int = 65536, speed: int = 5600, handle: int = 1, total: int = 80
) -> bytes:
    """Type 17 of SMBIOS 3.3; strings: locator, bank, manufacturer, serial, part."""
    body = struct.pack(
        "<HHHHHBBBBBHHBBBBBIH", 0, 0, total, 64, size, 9, 0, 1, 2, 34, 0, speed, 3, 4, 0, 5, 2, extended, 4800
    )
    assert len(body) == 0x22 - 4
    return structure(17, body, *strings, handle=handle)


def slot(name: str, bus: int, function: int) -> bytes:
    return structure(9, struct.pack("<BBBBBHBBHBB", 1, 0xA5, 0xD, 4, 4, 1, 0, 0, 0, bus, function), name)


def processor(*strings: str, status: int = 0x41) -> bytes:
    """Type 4; strings: socket, manufacturer, version, serial, part."""
    body = struct.pack("<BBBBQBBHHHBBHHHBBB", 1, 3, 0, 2, 0, 3, 0, 100, 4000, 2000, status, 0, 0, 0, 0, 4, 0, 5)
    return structure(4, body, *strings)


END = structure(127, b"")
SAMSUNG = ("P0_DIMM_A1", "BANK 0", "Samsung", "80CE0122", "M321R8GA0BB0-CQKZJ")


def told(tmp_path: Path, table: bytes) -> tuple[Look, dict[str, str]]:
    path = tmp_path / "sys/firmware/dmi/tables/DMI"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(table)
    seen = Look(tmp_path)
    return seen, smbios.tell(seen)


def test_a_module_tells_who_it_is_where_it_is_and_how_large(tmp_path):
    seen, _ = told(tmp_path, module(*SAMSUNG) + END)
    assert seen.sources["dimm.P0_DIMM_A1"] == {
        "manufacturer": "Samsung", "serial": "80CE0122", "part": "M321R8GA0BB0-CQKZJ", "size": "65536 MiB",
        "speed": "5600 MT/s", "configured_speed": "4800 MT/s", "rank": "2",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("size", "extended", "wanted"),
    [(0x4000, 0, "16384 MiB"), (0x7FFF, 131072, "131072 MiB"), (0x8400, 0, "1 MiB"), (0xFFFF, 0, ""), (0x7FFF, 0, "")],
)
def test_sizes_in_their_three_forms(tmp_path, size, extended, wanted):
    seen, _ = told(tmp_path, module(*SAMSUNG, size=size, extended=extended) + END)
    assert seen.sources["dimm.P0_DIMM_A1"].get("size", "") == wanted
    assert ("dimm.P0_DIMM_A1.size" in seen.missing) == (not wanted)


def test_an_empty_socket_is_no_module(tmp_path):
    seen, _ = told(tmp_path, module(*SAMSUNG) + module("P0_DIMM_A2", size=0) + END)
    assert [name for name in seen.sources if name.startswith("dimm.")] == ["dimm.P0_DIMM_A1"]


def test_filler_in_a_serial_is_absent_and_named(tmp_path):
    seen, _ = told(tmp_path, module("A1", "B", "Samsung", "Not Specified", "P") + END)
    assert seen.missing["dimm.A1.serial"] == "filler: Not Specified"


def test_one_locator_twice_is_two_modules(tmp_path):
    table = b"".join(module("DIMM 0", bank, "S", f"SN{bank}", "P", handle=9) for bank in ("A", "B", "B")) + END
    seen, _ = told(tmp_path, table)
    assert sorted(seen.sources) == ["dimm.DIMM 0", "dimm.DIMM 0 0009", "dimm.DIMM 0 B"]


def test_an_old_short_structure_gives_what_it_has(tmp_path):
    whole = module(*SAMSUNG, size=0x4000)
    short = bytes([17, 0x15]) + whole[2:0x15] + whole[0x22:]  # SMBIOS 2.1 ends before the speed
    seen, _ = told(tmp_path, short + END)
    assert seen.sources == {"dimm.P0_DIMM_A1": {"size": "16384 MiB"}}


def test_processors_that_are_there_are_named_by_their_socket(tmp_path):
    table = (
        processor("CPU0", "Intel", "Xeon Platinum 8480C", "A1B2C3", "CM8071") + processor("CPU1", "", status=0) + END
    )
    seen, _ = told(tmp_path, table)
    assert seen.sources["socket.CPU0"]["serial"] == "A1B2C3"
    assert "socket.CPU1" not in seen.sources


def test_a_slot_has_the_address_of_its_device(tmp_path):
    _, slots = told(
        tmp_path, slot("PCIE SLOT 3", 0x18, 0x00) + slot("M.2", 0x2A, 0x09) + slot("empty", 0xFF, 0xFF) + END
    )
    assert slots == {"0000:18:00.0": "PCIE SLOT 3", "0000:2a:01.1": "M.2"}


@pytest.mark.parametrize(("entry", "version"), [
    (b"_SM3_\x00\x18\x03\x05\x00", "3.5"), (b"_SM_\x00\x1f\x02\x08", "2.8"), (b"_DMI_", ""), (b"", ""), (b"_SM3_", ""),
])  # fmt: skip
def test_the_version_of_the_table(tmp_path, entry, version):
    path = tmp_path / "sys/firmware/dmi/tables/smbios_entry_point"
    path.parent.mkdir(parents=True)
    path.write_bytes(entry)
    seen, _ = told(tmp_path, END)
    assert seen.sources.get("dmi", {}).get("smbios", "") == version


def test_without_root_the_reason_stands_in_place_of_the_modules(tmp_path):
    seen = Look(tmp_path)
    assert smbios.tell(seen) == {} and seen.missing["dimm"].startswith("No such file")


def test_a_table_without_modules_says_so(tmp_path):
    seen, _ = told(tmp_path, END)
    assert seen.missing["dimm"].startswith("the board's table lists no memory module")


@pytest.mark.parametrize("broken", [
    b"\x11", b"\x11\x03\x00\x00", b"\x11\x00\x00\x00" * 9, b"\x11\xff\x00\x00\x00\x00", module(*SAMSUNG)[:-2],
])  # fmt: skip
def test_a_broken_table_ends_where_it_breaks(tmp_path, broken):
    seen, _ = told(tmp_path, module(*SAMSUNG) + broken)
    assert [name for name in seen.sources if name.startswith("dimm.")] == ["dimm.P0_DIMM_A1"]


@given(st.binary(max_size=400))
def test_whatever_a_board_writes_is_read_to_an_end(table):
    for one in smbios.structures(table + module(*SAMSUNG)):
        assert len(one.data) >= 4 and isinstance(one.text(0x10), str)


@given(st.lists(st.sampled_from([4, 9, 17, 200]), max_size=9), st.binary(min_size=0, max_size=120))
def test_every_value_is_one_clean_bounded_line(tmp_path_factory, kinds, body):
    table = b"".join(structure(kind, body[: 4 + kind], "a\x1b[31m", "\x7f" * 300) for kind in kinds)
    seen, slots = told(tmp_path_factory.mktemp("board"), table)
    values = [value for source in seen.sources.values() for value in source.values()]
    assert all(value.isprintable() and len(value) <= 200 for value in [*values, *seen.sources, *slots, *slots.values()])


@pytest.mark.parametrize(("totals", "wanted"), [
    ((80, 80), {"modules": 2, "checked": 2}), ((64, 64), {"modules": 2, "checked": 0}),
    ((72, 64), {"modules": 2, "checked": 1}), ((0xFFFF,), None), ((0,), None), ((), None),
])  # fmt: skip
def test_whether_the_memory_has_bits_to_check_with(tmp_path, totals, wanted):
    seen, _ = told(tmp_path, b"".join(module(*SAMSUNG, total=total) for total in totals) + module("X", size=0) + END)
    found = smbios.ecc(seen)
    assert found == wanted if wanted else "width" in found["unknown"]
