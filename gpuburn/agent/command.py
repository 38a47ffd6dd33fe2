"""A program of the system asked once: by its full path, with a deadline, bounded. Never waited for without end.

A disk or a driver that hangs leaves a process that no signal ends; it is left behind, and the reason is told.
"""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import signal
import subprocess
import time

PLACES = "/usr/sbin:/usr/bin:/sbin:/bin:/usr/local/sbin:/usr/local/bin"
LIMIT = 512 * 1024  # bytes of an answer
PATIENCE = 0.5  # seconds from SIGKILL to giving it up


class SilentError(Exception):
    """Why a program gave no answer."""


def found(name: str) -> str:
    """The full path of a program of the system, "" where it is not installed."""
    return shutil.which(name, path=PLACES) or ""


def answer(command: list[str], seconds: float) -> bytes:
    """What it writes to its standard output, whatever its exit status. Raises SilentError."""
    try:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            start_new_session=True, env={"PATH": PLACES, "LC_ALL": "C"},
        )  # fmt: skip
    except OSError as error:
        raise SilentError(f"{command[0]}: {error.strerror}") from None
    assert process.stdout is not None
    try:
        return _read(process.stdout.fileno(), command[0], time.monotonic() + seconds)
    finally:
        process.stdout.close()
        if process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(PATIENCE)


def _read(pipe: int, name: str, end: float) -> bytes:
    text = b""
    while len(text) <= LIMIT:
        left = end - time.monotonic()
        if left <= 0 or not select.select([pipe], [], [], left)[0]:
            raise SilentError(f"{name} gave no answer in time")
        more = os.read(pipe, 65536)
        if not more:
            return text
        text += more
    raise SilentError(f"{name} said more than {LIMIT} bytes")
