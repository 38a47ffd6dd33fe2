"""Identity: filler of a board vendor is absent, a real serial is kept, however odd."""

from __future__ import annotations

import pytest

from gpuburn.identity import Identity, is_junk

JUNK = [
    "", " ", "To be filled by O.E.M.", "to be filled by oem", "To be filled", "Default string", "DEFAULT STRING",
    "System Serial Number", "Not Specified", "None", "N/A", "na", "unknown", "0123456789", "123456789", "0",
    "0000000000",    "00000000-0000-0000-0000-000000000000", "FFFFFFFF", "xxxxxxxx", "-", " None ",
    "Not Available", "Base Board Serial Number", "Chassis Serial Number", "Board Serial Number", "Invalid", "INVALID",
    "OEM", "O.E.M.", "Empty", "TBD", "[N/A]", "[Unknown Error]", "Unknown Error", "12345678", "1234567890", "..",
    "GPU-00000000-0000-0000-0000-000000000000", "0x0000", "Default", "Not Applicable", "Not Settable",
    "Type2 - Board Serial Number", "FFFFFFFF-FFFF-FFFF-FFFF-FFFFFFFFFFFF", "03000200-0400-0500-0006-000700080009",
    "NotSpecified", "Not Present", "Filled By OEM", "00:00:00:00:00:00", "ff:ff:ff:ff:ff:ff",
]  # fmt: skip
REAL = [
    "S123456",
    "0123456789A",
    "CN7792194F0123",
    "1",
    "F0F0",
    "none-01",
    "X11DPG",
    "10000000",
    "unknown-rack-7",
    "GPU-5fd3a6f0-0000-0000-0000-000000000000",
    "1234567",
    "OEM-1",
    "0x0410",
    "03000200-0400-0500-0006-000700080010",
    "00:00:00:00:00:01",
    "Presently",
]


@pytest.mark.parametrize("value", JUNK)
def test_filler_is_no_serial(value: str) -> None:
    assert is_junk(value)


@pytest.mark.parametrize("value", REAL)
def test_a_real_value_is_kept(value: str) -> None:
    assert not is_junk(value)


def test_a_value_is_found_by_source_and_key_and_absent_otherwise() -> None:
    look = Identity(1.0, "b", {"dmi": {"serial": "S1"}, "nvml.gpu0": {"uuid": "GPU-1"}})
    assert look.value("dmi.serial") == "S1"
    assert look.value("nvml.gpu0.uuid") == "GPU-1"
    assert look.value("dmi.other") == ""
    assert look.value("ipmi.serial") == ""
    assert look.value("serial") == ""
