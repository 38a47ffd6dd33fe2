"""The kernel's log: recorded lines, gaps, floods, and things in its place that are not the log."""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpuburn.agent import flood, kernel_log
from gpuburn.agent.kernel_log import FIRST, LISTED, NOW, OVERRUN, KernelLog, Record
from gpuburn.events import LOST, MORE

FELL = "NVRM: Xid (PCI:0000:18:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus."
# As recorded in the field; research, Xid table.
RECORDED = {
    FELL: ("0000:18:00", "Xid 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus."),
    "NVRM: Xid (PCI:0000:3b:00): 48, pid=1234, name=python, An uncorrectable double bit error (DBE) has been detected":
        ("0000:3b:00", "Xid 48, pid=1234, name=python, An uncorrectable double bit error (DBE) has been detected"),
    "NVRM: Xid (PCI:0000:01:00 GPU-I:05): 94, pid=7194, name=python3, Contained: CE User Channel (0x9). RST: No":
        ("0000:01:00", "Xid 94, pid=7194, name=python3, Contained: CE User Channel (0x9). RST: No"),
    "[ 1234.5] NVRM: Xid (PCI:0009:01:00.0): 149, NETIR_LINK_EVT  Fatal   XC0 i0 Link 02":
        ("0009:01:00.0", "Xid 149, NETIR_LINK_EVT  Fatal   XC0 i0 Link 02"),
}  # fmt: skip


class Kernel:
    """A log that a test writes: each record one read, as in /dev/kmsg."""

    def __init__(self) -> None:
        self._far, near = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        near.setblocking(False)
        self.descriptor = near.detach()

    def say(self, number: int, text: str = "calm", level: int = 4, at: float = 0.0) -> None:
        stamp = int(at * 1e6) or number * 1000
        self._far.send(f"{level},{number},{stamp},-,caller=T7;{text}\n DEVICE=+pci:0000:18:00.0\n".encode())

    def raw(self, data: bytes) -> None:
        self._far.send(data)


@pytest.fixture
def kernel(monkeypatch: pytest.MonkeyPatch) -> Iterator[Kernel]:
    one = Kernel()
    monkeypatch.setattr(kernel_log, "opened", lambda path: (os.dup(one.descriptor), ""))
    yield one
    os.close(one.descriptor)


def codes(log: KernelLog) -> list[str]:
    return [event.code for event in log.events()]


@pytest.mark.parametrize("line", RECORDED)
def test_recorded_xids_are_read(kernel, line):
    log = KernelLog()
    kernel.say(1, line)
    [event] = log.events()
    assert (event.code, event.about, event.text) == ("kernel.xid", *RECORDED[line])
    log.close()


@pytest.mark.parametrize(("level", "found"), [
    (3, ["kernel.error"]), (2, ["kernel.critical"]), (0, ["kernel.critical"]), (4, []), (6, []),
    (8 + 3, []), (24 + 2, []),
])  # fmt: skip
def test_an_unknown_record_is_shown_by_the_kernels_own_priority_and_only_its_own(kernel, level, found):
    log = KernelLog()
    kernel.say(1, "frobnicator 7: the frob is lost", level)
    assert codes(log) == found
    log.close()


APEI = "Hardware error from APEI Generic Hardware Error Source: 0"
HEALED = "It has been corrected by h/w and requires no further action"
# What the platform's firmware says of one error, line by line, and the events that it must be: (kind, about).
FIRMWARE = {
    "a corrected memory error": (
        (APEI, HEALED, "event severity: corrected", " Error 0, type: corrected", "  section_type: memory error",
         "  error_status: 0x0000000000000400", "  node:0 card:1 module:71"), [("edac_corrected", "host")]),
    "a corrected PCIe error": (
        (APEI, HEALED, "event severity: corrected", " Error 0, type: corrected", "  section_type: PCIe error",
         "  port_type: 0, PCIe end point", "  device_id: 0000:3b:00.0", "  vendor_id: 0x10de, device_id: 0x2330"),
        [("pcie_corrected", "0000:3b:00.0")]),
    "an uncorrected PCIe error": (
        ("event severity: recoverable", "  section_type: PCIe error", "  device_id: 0000:3b:00.0"),
        [("pcie_nonfatal", "0000:3b:00.0")]),
    "an uncorrected memory error": (
        ("event severity: recoverable", "  section_type: memory error"), [("edac_uncorrected", "host")]),
    "a processor's": (
        ("event severity: recoverable", "  section_type: ARM processor error"), [("mce_uncorrected", "host")]),
    "a CXL device's": (
        ("event severity: recoverable", "  section_type: CXL Protocol Error"), [("platform_recoverable", "host")]),
    "one about two parts": (
        ("event severity: corrected", "  section_type: PCIe error", "  device_id: 0000:3b:00.0",
         "  section_type: memory error"), [("pcie_corrected", "0000:3b:00.0"), ("edac_corrected", "host")]),
    "one about no part": (("event severity: fatal",), [("platform_fatal", "host")]),
    "one that does not say how grave it is": ((APEI, "  section_type: memory error"), [("hardware_error", "host")]),
}  # fmt: skip


def told(log: KernelLog) -> list[tuple[str, str]]:
    return [(event.code.removeprefix("kernel."), event.about) for event in log.events()]


@pytest.mark.parametrize("case", FIRMWARE)
def test_all_lines_of_one_error_of_the_firmware_are_one_event_of_its_part(kernel, case):
    lines, wanted = FIRMWARE[case]
    log = KernelLog()
    for number, line in enumerate(lines):
        kernel.say(number + 1, f"{{1}}[Hardware Error]: {line}", level=3)
    assert told(log) == wanted and told(log) == []
    log.close()


def test_errors_of_the_firmware_are_told_apart_by_their_numbers(kernel):
    log = KernelLog()
    lines = [(n, line) for n in (1, 2) for line in ("event severity: corrected", "  section_type: PCIe error")]
    for number, (n, line) in enumerate(lines):
        kernel.say(2 * number + 1, f"{{{n}}}[Hardware Error]: {line}")
        kernel.say(2 * number + 2, "frobnicator 7: what another processor says in between")
    assert told(log) == [("pcie_corrected", "host")] * 2
    log.close()


def test_lines_that_come_after_a_look_add_nothing_to_what_it_told(kernel):
    log = KernelLog()
    kernel.say(1, "{1}[Hardware Error]: event severity: corrected")
    assert told(log) == [("platform_corrected", "host")]
    kernel.say(2, "{1}[Hardware Error]:   section_type: memory error", level=3)
    assert told(log) == []
    kernel.say(3, "{2}[Hardware Error]:   section_type: memory error", level=3)
    assert told(log) == [("hardware_error", "host")]
    log.close()


def test_a_process_cannot_write_lines_into_an_error_of_the_firmware(kernel):
    log = KernelLog()
    kernel.say(1, "{1}[Hardware Error]: event severity: corrected")
    kernel.say(2, "{1}[Hardware Error]:   section_type: PCIe error", level=8 + 3)
    assert told(log) == [("platform_corrected", "host")]
    log.close()


def test_a_corrected_machine_check_of_amd_is_one_event(kernel):
    log = KernelLog()
    kernel.say(1, "[Hardware Error]: Corrected error, no action required.", level=0)
    kernel.say(2, "[Hardware Error]: CPU:2 (19:11:1) MC20_STATUS[Over|CE|MiscV|AddrV|-|-|SyndV|CECC|-|-|-]: 0xdc20", 0)
    assert told(log) == [("mce_corrected", "host")]
    log.close()


def test_a_process_that_writes_to_the_log_is_not_the_kernel(kernel):
    """Whoever writes to /dev/kmsg is given a facility of its own (devkmsg_write): its Xid is none."""
    log = KernelLog()
    kernel.say(1, FELL, level=8 + 3)
    assert codes(log) == []
    kernel.say(2, FELL, level=3)
    assert codes(log) == ["kernel.xid"]
    log.close()


@pytest.mark.parametrize(("data", "read"), [
    ("6,339,5140900,-,caller=T1;NET: one\n SUBSYSTEM=net\n", Record(0, 6, 339, 5.1409, "NET: one")),
    ("30,1,0,-;systemd[1]: a;b", Record(3, 6, 1, 0.0, "systemd[1]: a;b")),
    ("6,339;x", None), ("6,x,1,-;x", None), ("6,1,-1,-;x", None), ("", None), ("\u0663,1,1,-;x", None),
    ("6," + "9" * 4000 + ",1,-;x", None),
])  # fmt: skip
def test_a_record_is_read_strictly(data, read):
    assert Record.read(data) == read


@pytest.fixture
def clock(monkeypatch):
    """Unix time, and the seconds that the host has been up."""
    now = {"unix": 1000.0, "up": 100.0}
    monkeypatch.setattr("time.time", lambda: now["unix"])
    monkeypatch.setattr("time.clock_gettime", lambda which: now["up"])
    return now


def moments(log: KernelLog) -> list[float]:
    return [event.at for event in log.events()]


def test_an_event_has_the_moment_of_its_record_and_not_of_its_reading(kernel, clock):
    kernel.say(1)
    log = KernelLog(after=0)
    kernel.say(2, FELL, at=40.0)
    assert moments(log) == [940.0], "said while no supervisor listened: 60 s before the look"
    log.close()


def test_a_clock_of_the_kernel_that_drifts_does_not_move_an_event_before_the_look_that_did_not_see_it(kernel, clock):
    log = KernelLog()
    clock.update(unix=1010.0, up=110.0)
    kernel.say(1, FELL, at=20.0)
    assert moments(log) == [1000.0]
    kernel.say(2, FELL, at=999.0)
    assert moments(log) == [1010.0], "nor after the look that did"
    log.close()


AER = "nvidia 0000:3b:00.0: PCIe Bus Error: severity=Correctable, type=Physical Layer, (Receiver ID)"
OFF = "NVRM: GPU 0000:5d:00.0: GPU has fallen off the bus."
UE = "EDAC MC0: 1 UE memory read error on CPU_SrcID#0_MC#0_Chan#0_DIMM#0 (channel:0 slot:0 page:0x0 offset:0x0)"


def xid(number: int, address: str) -> str:
    return f"NVRM: Xid (PCI:{address}): {number}, pid=1, name=python"


def test_kinds_are_bounded_each_for_itself_and_counted_to_the_end(kernel, monkeypatch):
    monkeypatch.setattr(flood, "EACH_XID", 2)
    log = KernelLog()
    for number in range(10):
        kernel.say(number, FELL)
    kernel.say(10, "watchdog: BUG: soft lockup - CPU#3 stuck for 22s! [python3:4711]")
    assert codes(log) == ["kernel.xid", "kernel.xid", MORE, "kernel.lockup"]
    said = (MORE, "kernel.xid", "10 in all of 0000:18:00 Xid 79")
    assert [(one.code, one.about, one.text) for one in log.totals()] == [said]
    log.close()


def test_a_flood_of_one_xid_hides_no_other_xid_and_no_other_gpu(kernel, monkeypatch):
    monkeypatch.setattr(flood, "EACH_XID", 2)
    log = KernelLog()
    lines = [xid(31, "0000:3b:00")] * 9 + [xid(31, "0000:5d:00"), xid(79, "0000:3b:00"), xid(79, "0000:5d:00")]
    for number, line in enumerate(lines):
        kernel.say(number, line)
    told = [(one.about, one.text[:6]) for one in log.events() if one.code == "kernel.xid"]
    fell = [("0000:3b:00", "Xid 79"), ("0000:5d:00", "Xid 79")]
    assert told == [("0000:3b:00", "Xid 31")] * 2 + [("0000:5d:00", "Xid 31"), *fell]
    log.close()


def test_a_flood_of_corrected_errors_hides_nothing_that_fails_or_disturbs(kernel, monkeypatch):
    """All events of one weight are bounded together, and no weight takes another's room."""
    monkeypatch.setattr(kernel_log, "ALL", {"fail": 2, "incomplete": 2, "": 3})
    log = KernelLog()
    others = [AER.replace("3b", f"{bus:02x}") for bus in range(9)]
    for number, line in enumerate([*others, OFF, UE, "Out of memory: Killed process 1 (python) total-vm:1kB"]):
        kernel.say(number, line)
    assert codes(log) == [*["kernel.pcie_corrected"] * 3, "kernel.off_bus", "kernel.edac_uncorrected", "kernel.oom"]
    [left] = log.totals()
    assert (left.code, left.about, left.text) == (MORE, "kernel.pcie_corrected", "6 of parts of which none is listed")
    log.close()


def test_where_failures_are_too_many_to_be_listed_that_is_said_once(kernel, monkeypatch):
    monkeypatch.setattr(kernel_log, "ALL", {"fail": 2, "incomplete": 2, "": 3})
    log = KernelLog()
    for number in range(5):
        kernel.say(number, xid(79, f"0000:{number:02x}:00"))
    found = list(log.events())
    assert [one.code for one in found] == ["kernel.xid", "kernel.xid", LOST]
    assert found[-1].text == "more than 2 events of hardware that failed; the others are not listed"
    log.close()


def test_parts_without_end_take_no_room_without_end(kernel, monkeypatch):
    monkeypatch.setattr(flood, "KEYS", 3)
    log = KernelLog()
    for number in range(9):
        kernel.say(number, AER.replace("3b", f"{number:02x}"))
    assert codes(log) == ["kernel.pcie_corrected"] * 9 and len(log._flood._told) == 4
    log.close()


def test_the_tail_of_the_log_is_whole_records_and_bounded(kernel):
    for number in range(50):
        kernel.say(number, f"line {number}")
    data, why = kernel_log.tail(500)
    assert why == "" and len(data) <= 500
    assert Record.read(data.decode()) is not None and b"line 49\n" in data and b"line 1\n" not in data


def test_a_tail_that_cannot_be_had_says_why(tmp_path):
    data, why = kernel_log.tail(500, tmp_path / "kmsg")
    assert data == b"" and "No such file" in why


def test_what_was_said_before_the_run_is_not_its_own(kernel):
    kernel.say(41, FELL)
    log = KernelLog()
    assert log.last == 41 and codes(log) == []
    kernel.say(42, FELL)
    assert codes(log) == ["kernel.xid"] and log.last == 42
    log.close()


def test_after_a_restart_the_log_goes_on_where_it_was(kernel):
    for number in (40, 41, 42, 43):
        kernel.say(number, FELL)
    log = KernelLog(after=41)
    assert codes(log) == ["kernel.xid", "kernel.xid"] and log.last == 43
    log.close()


def test_records_that_were_overwritten_in_between_are_an_overrun(kernel):
    kernel.say(50)
    log = KernelLog(after=41)
    [event] = log.events()
    assert event.code == OVERRUN and event.text == "8 records were overwritten before they were read"
    kernel.say(60)
    assert codes(log) == [], "one gap is as telling as many"
    log.close()


def test_after_a_boot_all_is_read_from_its_first_record(kernel):
    kernel.say(0, FELL)
    kernel.say(1)
    log = KernelLog(after=FIRST)
    assert codes(log) == ["kernel.xid"] and log.last == 1
    log.close()


def test_epipe_is_an_overrun_and_the_log_goes_on(kernel, monkeypatch):
    kernel.say(7)
    log = KernelLog()
    read, calls = os.read, []

    def overwritten(descriptor: int, size: int) -> bytes:
        calls.append(size)
        if len(calls) == 1:
            raise BrokenPipeError(errno.EPIPE, "overwritten")
        return read(descriptor, size)

    kernel.say(12, FELL)
    monkeypatch.setattr(os, "read", overwritten)
    assert codes(log) == [OVERRUN, "kernel.xid"]
    log.close()


@pytest.mark.parametrize("record", [b"no record at all", b"4;x", b"4,x,5,-;x", b"\xff\xfe"])
def test_something_that_is_no_record_ends_the_following_and_is_an_overrun(kernel, record):
    log = KernelLog()
    kernel.raw(record)
    assert codes(log) == [OVERRUN] and codes(log) == []


def test_the_end_of_the_log_is_no_endless_loop(kernel):
    """A character device such as /dev/null in the log's place reads as empty for ever."""
    log = KernelLog()
    kernel._far.close()
    assert codes(log) == [OVERRUN] and codes(log) == []


def test_a_log_that_fails_is_an_overrun(kernel, monkeypatch):
    log = KernelLog()

    def failing(descriptor: int, size: int) -> bytes:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, "read", failing)
    [event] = log.events()
    assert event.code == OVERRUN and "Input/output error" in event.text


def test_a_gpu_that_repeats_itself_does_not_fill_the_evidence(kernel, monkeypatch):
    monkeypatch.setattr(kernel_log, "LISTED", 3)
    log = KernelLog()
    for number in range(10):
        kernel.say(number, OFF)
    events = list(log.events())
    assert len(events) == 4 and events[-1].text == "more than 3 of 0000:5d:00.0; the others are not listed"
    kernel.say(10, OFF)
    assert codes(log) == [] and LISTED == 1000
    log.close()


@pytest.mark.parametrize("kind", ["pipe", "file", "null", "missing"])
def test_what_is_not_the_kernels_log_is_said(kind, tmp_path):
    path = Path("/dev/null") if kind == "null" else tmp_path / kind
    if kind == "pipe":
        os.mkfifo(path)
    if kind == "file":
        path.write_text(f"4,1,1,-;{FELL}\n")
    log = KernelLog(path)
    assert log.why and str(path) in log.why and codes(log) == [] and log.last == NOW
    log.close()
    log.close()
