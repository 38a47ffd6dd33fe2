"""The kernel's log: recorded lines, gaps, floods, and things in its place that are not the log."""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpuburn.agent import kernel_log
from gpuburn.agent.kernel_log import FIRST, LISTED, NOW, OVERRUN, KernelLog, Record
from gpuburn.events import MORE

FELL = "NVRM: Xid (PCI:0000:18:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus."
# As recorded in the field; research, Xid table.
RECORDED = {
    FELL: ("0000:18:00", "Xid 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus."),
    "NVRM: Xid (PCI:0000:3b:00): 48, pid=1234, name=python, An uncorrectable double bit error (DBE) has been detected":
        ("0000:3b:00", "Xid 48, pid=1234, name=python, An uncorrectable double bit error (DBE) has been detected"),
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


def test_kinds_are_bounded_each_for_itself_and_counted_to_the_end(kernel, monkeypatch):
    monkeypatch.setattr(kernel_log, "LISTED", 2)
    log = KernelLog()
    for number in range(10):
        kernel.say(number, FELL)
    kernel.say(10, "watchdog: BUG: soft lockup - CPU#3 stuck for 22s! [python3:4711]")
    assert codes(log) == ["kernel.xid", "kernel.xid", MORE, "kernel.lockup"]
    assert [(one.code, one.about, one.text) for one in log.totals()] == [(MORE, "kernel.xid", "10 in all")]
    log.close()


def test_all_events_together_are_bounded(kernel, monkeypatch):
    monkeypatch.setattr(kernel_log, "ALL", 3)
    log = KernelLog()
    for number in range(3):
        kernel.say(number, FELL)
    kernel.say(3, "watchdog: BUG: soft lockup - CPU#3 stuck for 22s! [python3:4711]")
    assert codes(log) == ["kernel.xid"] * 3
    assert [(one.about, one.text) for one in log.totals()] == [
        ("kernel.lockup", "1 in all"),
        ("kernel.xid", "3 in all"),
    ]
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
        kernel.say(number, FELL)
    events = list(log.events())
    assert len(events) == 4 and events[-1].text == "more than 3; the others are not listed"
    kernel.say(10, FELL)
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
