"""The rows of "Would we have caught it?": a published fault, our finding, our decision, and the test that shows both.

A test is a row: it builds the fault and returns the account of the host that has it; what the row claims is asserted
here, so that the table in docs/methods.md cannot say more than the tests do.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import pytest

from gpuburn.controller.account import Account
from gpuburn.finding import codes
from gpuburn.policy import Decision
from gpuburn.strict import Refused

UNEXPLAINED = "unexplained"  # a mark of policy.yml: a pass after a fail without a recorded cause
WAYS = ("lost", "never_reached", "not_started", "refused", "uncollected", "vanished")
BEFORE = "refused before the run"
ROWS: dict[str, Row] = {}


@dataclass(frozen=True, slots=True)
class Row:
    """peer and where: whose fault, and its public address: repo#issue, repo!pull or repo:file.

    finding: a code of codes.yml, how far the host came, UNEXPLAINED, or BEFORE. accuses: the fault of the peer is that
    a good host is rejected; ours then must not be.
    """

    peer: str
    where: str
    fault: str
    finding: str
    decision: str
    test: str
    accuses: bool = False


def caught(peer: str, where: str, fault: str, finding: str, decision: str, accuses: bool = False
           ) -> Callable[[Callable[..., Account]], Callable[..., None]]:  # fmt: skip
    """The test returns the account of the host with the fault; it has this finding and this decision."""
    assert finding in codes() or finding in (*WAYS, UNEXPLAINED), finding
    assert decision in [str(one) for one in Decision], decision
    assert Decision(decision) is not (Decision.REJECTED if accuses else Decision.ACCEPTED), decision

    def register(test: Callable[..., Account]) -> Callable[..., None]:
        _add(Row(peer, where, fault, finding, decision, _named(test), accuses))

        @functools.wraps(test)
        def asserted(*args: Any, **kwargs: Any) -> None:
            one = test(*args, **kwargs)
            assert str(one.decision) == decision, one.reason
            assert finding in {one.reached, *_told(one, accuses)}, one.reason
            assert one.reason

        return asserted

    return register


def _told(one: Account, accuses: bool) -> Iterable[str]:
    """The codes that tell of something: what is no plain pass; for a host that is good, all of them."""
    marks = {UNEXPLAINED} if one.history and one.history.unexplained else set()
    return marks | {f.code for f in one.findings() if accuses or f.severity or str(f.verdict) == "not_applicable"}


def stopped(peer: str, where: str, fault: str, says: str) -> Callable[[Callable[..., Any]], Callable[..., None]]:
    """The test does what the peer let through; it is refused by name before the first watt, and nothing is decided."""

    def register(test: Callable[..., Any]) -> Callable[..., None]:
        _add(Row(peer, where, fault, BEFORE, "", _named(test)))

        @functools.wraps(test)
        def asserted(*args: Any, **kwargs: Any) -> None:
            with pytest.raises(Refused, match=says):
                test(*args, **kwargs)

        return asserted

    return register


def _named(test: Callable[..., Any]) -> str:
    return f"{inspect.getmodule(test).__name__.rpartition('.')[2]}.py::{test.__name__}"  # type: ignore[union-attr]


def _add(row: Row) -> None:
    assert ROWS.get(row.test, row) == row, f"two rows are shown by {row.test}"
    ROWS[row.test] = row
