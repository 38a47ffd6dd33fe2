"""Fixtures of the words' and the controller's tests. Its place also puts runs.py on the path."""

from __future__ import annotations

import pytest
import runs
from hypothesis import settings

from gpuburn.plan import Plan

settings.register_profile("steady", derandomize=True, deadline=None, max_examples=60)
settings.load_profile("steady")


@pytest.fixture(scope="session")
def rehearsal() -> Plan:
    """Three processes on a CPU, as an ordinary user."""
    return runs.plan()


@pytest.fixture(scope="session")
def bare_metal() -> Plan:
    """Eight GPUs on bare metal, as root."""
    return runs.plan(runs.hardware(count=8))
