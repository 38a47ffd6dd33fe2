"""The kernel's log: recorded lines, gaps, floods, and things in its place that are not the log."""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpuburn.agent import kernel_log
from gpuburn.agent.kernel_log import FIRST, LISTED, NOW, OVERRUN, KernelLog, xid

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

    def say(self, number: int, text: str = "calm") -> None:
        self._far.send(f"4,{number},{number * 1000},-;{text}\n".encode())

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
def test_recorded_xids_are_read(line):
    event = xid(line, 5.0)
    assert event and (event.code, event.at, event.about, event.text) == ("kernel.xid", 5.0, *RECORDED[line])


@pytest.mark.parametrize("line", ["NVRM: loading NVIDIA UNIX", "usb 1-1: new device", "Xid 79", ""])
def test_other_lines_are_no_xid(line):
    assert xid(line, 5.0) is None


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
