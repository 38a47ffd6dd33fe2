"""Every test in this folder is a lab test; what was left out is said loudly at the end."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from .fixture import LEFT_OUT, LEFT_OUT_OUTPUT, lab  # noqa: F401  the fixture, found here by name


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.lab)


def pytest_testnodedown(node: Any) -> None:
    """With several processes, the one that had the lab tells why it was left out."""
    if reason := getattr(node, "workeroutput", {}).get(LEFT_OUT_OUTPUT):
        node.config.stash[LEFT_OUT] = reason


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if reason := terminalreporter.config.stash.get(LEFT_OUT, None):
        terminalreporter.section("THE LAB IS LEFT OUT", red=True, bold=True)
        terminalreporter.write_line(f"No test ran on a real host, so no deployment is proven: {reason}", red=True)
