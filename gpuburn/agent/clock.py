"""The kernel's own view of its clock: whether it is kept by a time service, and how far off it may be.

adjtimex(2) with no mode set changes nothing and needs no privilege. Structure and constants: <linux/timex.h>.
"""

from __future__ import annotations

import ctypes
import os
from dataclasses import dataclass

UNSYNCHRONISED, NANO = 0x0040, 0x2000
FAULT = 0x1000  # STA_CLOCKERR
TIME_ERROR = 5
LIMIT = 16_000_000  # us: NTP_PHASE_LIMIT, to which the kernel lets maxerror grow while nobody keeps the clock


class Timex(ctypes.Structure):
    """struct timex of 64-bit Linux; offset in ns (status NANO) or us, errors in us."""

    _fields_ = (
        ("modes", ctypes.c_uint), ("offset", ctypes.c_long), ("freq", ctypes.c_long), ("maxerror", ctypes.c_long),
        ("esterror", ctypes.c_long), ("status", ctypes.c_int), ("constant", ctypes.c_long),
        ("precision", ctypes.c_long), ("tolerance", ctypes.c_long), ("time", ctypes.c_long * 2),
        ("tick", ctypes.c_long), ("rest", ctypes.c_long * 16),
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Clock:
    """offset, error: ms, as the kernel's time service left them. why: why nothing is known, else "".

    marked: whether the service marked the clock as kept; chrony without rtcsync keeps it and leaves the mark.
    """

    synchronised: bool = False
    offset: float = 0.0
    error: float = 0.0
    why: str = ""
    marked: bool = True

    @property
    def told(self) -> str:
        """In words."""
        return "not synchronised" if not self.synchronised else "synchronised" if self.marked else "kept, not marked"


def clock() -> Clock:
    """Ask the kernel. A C library without the call, or a sandbox that refuses it, is a reason."""
    told = Timex()
    try:
        libc = ctypes.CDLL(None, use_errno=True)
        state = libc.adjtimex(ctypes.byref(told))
    except (OSError, AttributeError) as error:
        return Clock(why=f"no adjtimex in the C library: {error}")
    if state < 0:
        return Clock(why=f"adjtimex: {os.strerror(ctypes.get_errno())}")
    return of(state, told)


def of(state: int, told: Timex) -> Clock:
    """What the kernel's answer says."""
    unit = 1e6 if told.status & NANO else 1e3
    marked = not told.status & UNSYNCHRONISED
    right = state != TIME_ERROR if marked else told.maxerror < LIMIT and not told.status & FAULT
    return Clock(right, told.offset / unit, told.esterror / 1e3, marked=marked or not right)
