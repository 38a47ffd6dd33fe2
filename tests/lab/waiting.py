"""Bounded polling, the only way in which the lab waits; it never sleeps for a fixed time and hopes."""

from __future__ import annotations

import time
from collections.abc import Callable


def until(
    condition: Callable[[], object], what: str | Callable[[], str], timeout: float = 30, every: float = 0.02
) -> None:
    """Return once the condition holds; a TimeoutError names what was waited for (a function is asked at the end)."""
    end = time.monotonic() + timeout
    while not condition():
        if time.monotonic() > end:
            raise TimeoutError(f"waited {timeout:g} s in vain for {what if isinstance(what, str) else what()}")
        time.sleep(every)
