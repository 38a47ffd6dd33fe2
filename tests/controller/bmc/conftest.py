"""A certificate for the whole session, a BMC for each test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.controller.bmc import server, tree
from tests.controller.bmc.server import Bmc


@pytest.fixture(scope="session")
def pair(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, str]:
    return server.certify(tmp_path_factory.mktemp("bmc"))


@pytest.fixture
def bmc(pair: tuple[Path, Path, str]) -> Iterator[Bmc]:
    with server.running(tree.host(), pair) as one:
        yield one
