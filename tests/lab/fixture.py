"""The lab as a pytest fixture, for every conftest that imports it; skips or fails where there can be none."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from .lab import Lab
from .packages import Unavailable

REQUIRED = "GPUBURN_REQUIRE_LAB"
LEFT_OUT = pytest.StashKey[str]()
LEFT_OUT_OUTPUT = "lab_left_out"  # the same, from a process of pytest -n to the one that prints


@pytest.fixture(scope="session")
def lab(request: pytest.FixtureRequest) -> Iterator[Lab]:
    """One lab for all tests of a run; tests make their own hosts in it."""
    with ExitStack() as stack:
        try:
            running = stack.enter_context(Lab())
        except Unavailable as reason:
            request.config.stash[LEFT_OUT] = str(reason)
            getattr(request.config, "workeroutput", {})[LEFT_OUT_OUTPUT] = str(reason)
            if os.environ.get(REQUIRED) == "1":
                pytest.fail(f"{REQUIRED}=1, and the lab cannot run here: {reason}", pytrace=False)
            pytest.skip(f"THE LAB IS LEFT OUT: {reason}")
        yield running
