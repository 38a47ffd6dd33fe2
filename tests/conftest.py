"""Fixtures of the words' and the controller's tests. Its place also puts runs.py on the path."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import runs
from hypothesis import settings

from gpuburn.plan import Plan

settings.register_profile("steady", derandomize=True, deadline=None, max_examples=60)
settings.load_profile("steady")

HERE = Path(__file__).parent
HOSTS = ("e2e", "lab", "gpu")  # one after the other: they share the demo's agent, a bridge, the GPUs


def lane(nodeid: str) -> str:
    """What stays together in one process of pytest -n: a file's tests, and all that need hosts."""
    file = nodeid.partition("::")[0]
    return "hosts" if Path(file).parts[1] in HOSTS else file


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """pytest-xdist's --dist loadscope, by lanes."""
    from xdist.scheduler import LoadScopeScheduling

    class Lanes(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return lane(nodeid)

    return Lanes(config, log)


@pytest.fixture(scope="session")
def rehearsal() -> Plan:
    """Three processes on a CPU, as an ordinary user."""
    return runs.plan()


@pytest.fixture(scope="session")
def bare_metal() -> Plan:
    """Eight GPUs on bare metal, as root."""
    return runs.plan(runs.hardware(count=8))
