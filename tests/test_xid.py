"""Xids: the table is whole and strict, lines of the kernel log are read, and what is not said is never a pass."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

import pytest
from hypothesis import given, strategies as st

from gpuburn import kernel, xid
from gpuburn.strict import Refused

NVLINK5 = range(144, 151)
LINK = "149, NETIR_LINK_EVT  {}   XC0 i0 Link 08 (0x004505c6 0x00000000)"


def test_the_table_is_whole() -> None:
    """Counted once against NVIDIA's catalogue of 2025-10-29."""
    table = xid.load()
    assert len(table) >= 106
    assert {8, 13, 31, 43, 45, 48, 63, 64, 74, 79, 94, 95, 119, 120, 140, 154, 172} <= set(table)
    assert {one.rule for one in table.values()} == set(get_args(xid.Rule))
    assert {number for number, one in table.items() if one.rule == "reject_if_fatal"} == set(NVLINK5)
    assert [number for number, one in table.items() if one.rule == "by_text"] == [154]
    for number, one in table.items():
        assert one.number == number and one.meaning.strip() and len(one.source) > 20


@pytest.mark.parametrize(
    ("number", "wanted"),
    [
        *((number, "reject") for number in (46, 48, 54, 61, 62, 64, 74, 79, 94, 95, 109, 110, 119, 120, 136, 140, 143)),
        *((number, "reject") for number in (155, 156, 157, 158, 165, 167, 168, 169, 171, 172)),
        *((number, "warn") for number in (8, 32, 38, 39, 41, 44, 63, 72, 80, 85, 92, 121, 126, 135, 159, 164)),
        *((number, "app") for number in (11, 13, 25, 31, 37, 43, 45, 60, 69, 89, 105, 137, 139, 141)),
        *((number, "info") for number in (162, 163)),
        *((number, "ignore") for number in (106, 107)),
        *((number, "unknown") for number in (0, 1, 56, 65, 73, 122, 138, 142, 166, 170, 173, 999_999)),
    ],
)
def test_a_number_has_its_class_whatever_the_text(number: int, wanted: str) -> None:
    for text in ("", "Nonfatal", "changed from 0x1 (GPU Reset Required) to 0x0 (None)"):
        found, meaning, _ = xid.classify(number, text)
        assert found == wanted
        assert meaning.strip()


@pytest.mark.parametrize(
    ("text", "wanted", "says"),
    [
        (LINK.format("Fatal"), "reject", "fatal"),
        (LINK.format("FATAL"), "reject", "fatal"),
        (LINK.format("Nonfatal"), "warn", "not fatal"),
        (LINK.format("Non-fatal"), "warn", "not fatal"),
        (LINK.format("Nonfatal") + " Fatal", "reject", "fatal"),
        (LINK.format(""), "reject", "neither Fatal nor Nonfatal"),
        (LINK.format("Fatality"), "reject", "neither Fatal nor Nonfatal"),
        ("", "reject", "neither Fatal nor Nonfatal"),
    ],
)
@pytest.mark.parametrize("number", NVLINK5)
def test_an_nvlink_error_rejects_unless_it_says_that_it_is_not_fatal(
    number: int, text: str, wanted: str, says: str
) -> None:
    found, meaning, action = xid.classify(number, text)
    assert (found, action) == (wanted, "WORKFLOW_NVLINK5_ERR")
    assert meaning.endswith(says) or says in meaning


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("GPU recovery action changed from 0x0 (None) to 0x1 (GPU Reset Required)", "reject"),
        ("GPU recovery action changed from 0x0 (None) to 0x2 (Node Reboot Required)", "reject"),
        ("GPU recovery action changed from 0x0 (None) to 0x3 (Drain P2P)", "reject"),
        ("GPU recovery action changed from 0x1 (GPU Reset Required) to 0x4 (Drain and Reset)", "reject"),
        ("GPU recovery action changed from 0x0 (None) to 0x1 (PF FLR)", "reject"),
        ("GPU recovery action changed from 0x0 (None) to 0x2 (OS Reboot)", "reject"),
        ("GPU recovery action changed from 0x0 (None) to 0x5 (Recover IMEX Domain)", "warn"),
        ("GPU recovery action changed from 0x1 (GPU Reset Required) to 0x0 (None)", "info"),
        ("GPU recovery action changed from 0x1 (GPU Reset Req", "reject"),
        ("GPU recovery action: Node Reboot Required", "reject"),
        ("GPU recovery action changed from 0x0 (None) to", "unknown"),
        ("GPU recovery action changed", "unknown"),
        ("", "unknown"),
    ],
)
def test_a_changed_recovery_rejects_by_what_is_needed_now(text: str, wanted: str) -> None:
    assert xid.classify(154, text)[0] == wanted


def test_the_recovery_that_is_needed_is_said() -> None:
    text = "154, GPU recovery action changed from 0x0 (None) to 0x2 (Node Reboot Required)"
    assert xid.classify(154, text) == ("reject", "GPU recovery action changed: Node Reboot Required", "XID_154")


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ("NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus.", (79, "0000:3b:00")),
        ("6,1,2,-;NVRM: Xid (PCI:0018:01:00): 13, pid=4711, name=python", (13, "0018:01:00")),
        ("NVRM: Xid (PCI:0000:0A:00.0): 48, An uncorrectable double bit error", (48, "0000:0A:00.0")),
        ("NVRM: Xid (0000:03:00): 31, Ch 00000010", (31, "0000:03:00")),  # drivers before 2015
        ("NVRM: Xid (PCI:0000:01:00 GPU-I:05): 94, pid=7194, name=python3, Contained", (94, "0000:01:00")),
        ("NVRM: Xid (PCI:0000:3b:00 GPU-I:01 GPU-CI:00): 13, pid=9, name=a", (13, "0000:3b:00")),
        ("Xid 79, GPU has fallen off the bus.", (79, "")),
        ("NVRM: Xid (PCI:0000:66:00): abc, pid=2280636", None),
        ("NVRM: GPU at PCI:0000:3b:00: GPU-0d0b", None),
        ("nvidia-nvswitch3: SXid (PCI:0000:c1:00.0): 20034, Fatal", None),
        ("Xid", None),
        ("", None),
    ],
)
def test_a_line_tells_number_and_address(line: str, wanted: tuple[int, str] | None) -> None:
    assert xid.number(line) == wanted


def test_what_the_agent_records_is_read_again() -> None:
    event = kernel.told("NVRM: Xid (PCI:0000:3b:00): 149, NETIR_LINK_EVT Fatal XC0 i0 Link 08", 4)
    assert event is not None
    read = xid.number(event.text)
    assert read == (149, "")
    assert xid.classify(read[0], event.text)[0] == "reject"


@given(st.integers(), st.text())
def test_any_number_and_any_text_has_a_class(number: int, text: str) -> None:
    found, meaning, _ = xid.classify(number, text)
    assert found in get_args(xid.Class)
    assert meaning
    assert number in xid.load() or found == "unknown"


@given(st.text())
def test_any_line_can_be_read(text: str) -> None:
    xid.number(text)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("source: s\nxids: [{numbers: [1], meaning: m, rule: fail}]", "'fail' is not one of reject, warn"),
        ("source: s\nxids: [{numbers: [1], meaning: m}]", "'rule' is missing"),
        ("source: s\nxids: [{numbers: [1, 1], meaning: m, rule: warn}]", "Xid 1 stands twice"),
        ("source: s\nxids: [{numbers: ['1'], meaning: m, rule: warn}]", "wanted is a int"),
        ("source: s\nxids: [{numbers: [1], meaning: m, rule: warn, severity: 1}]", "unknown 'severity'"),
        ("xids: []", "'source' is missing"),
        ("- 1", "wanted is a dict"),
    ],
)
def test_a_table_with_a_mistake_is_refused(tmp_path: Path, text: str, says: str) -> None:
    (tmp_path / "xid.yml").write_text(text)
    with pytest.raises(Refused, match=rf"^xid\.yml.*{says}"):
        xid.load(tmp_path / "xid.yml")
