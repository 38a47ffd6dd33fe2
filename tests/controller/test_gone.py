"""Who went away under load and who was only not looked at: by the journal alone, and never by silence alone."""

from __future__ import annotations

from typing import Any

import pytest

from gpuburn.controller.gone import UNWATCHED, excuse, started
from gpuburn.journal import Entry

DEADLINE = 1000.0


def at(moment: float, event: str, **details: Any) -> Entry:
    return Entry(1, moment, event, "", "", {key: str(value) for key, value in details.items()})


def running(moment: float) -> Entry:
    return at(moment, "phase", phase="running")


def silent(*moments: float) -> list[Entry]:
    return [at(moment, "unreachable", task="See how the run stands") for moment in moments]


def watch(moment: float, answered: int, silent: int) -> Entry:
    return at(moment, "watch", answered=answered, silent=silent)


UNTIL = at(1005.0, "watched", until=1004.0)
ONE_OF_FOUR = [watch(51.0, 3, 1), watch(61.0, 3, 1), UNTIL]
ALL_AT_ONCE = [watch(51.0, 0, 4), watch(61.0, 0, 4), watch(1001.0, 0, 4), UNTIL]


@pytest.mark.parametrize(
    ("entries", "run", "says"),
    [
        # watched to the end
        ([running(10), *silent(50, 60, 1001)], ONE_OF_FOUR, ""),
        ([running(10)], [UNTIL], ""),
        ([running(10), *silent(50, 60, 1001)], [watch(51, 0, 1), watch(61, 0, 1), UNTIL], ""),
        # nobody watched
        ([running(10)], [], UNWATCHED),
        ([running(10), *silent(1100)], [], UNWATCHED),
        ([running(10), *silent(50)], [watch(51, 3, 1)], UNWATCHED),
        ([running(10)], [at(500, "watched", until=499.0)], UNWATCHED),
        ([running(10), *silent(50), running(60)], [watch(51, 3, 1)], UNWATCHED),
        ([running(10), *silent(50), running(60), *silent(1100)], [watch(51, 3, 1)], UNWATCHED),
        # away during the run, and still when somebody came back
        ([running(10), *silent(50, 1100)], [watch(51, 3, 1), watch(1101, 3, 1)], ""),
        # the controller lost its way
        ([running(10), *silent(50, 60, 1001)], ALL_AT_ONCE, "none of the 4 hosts"),
        ([running(10), *silent(50, 60, 1001)], [watch(51, 3, 1), *ALL_AT_ONCE[1:]], "none of the 4 hosts"),
        # and found it again, while this host stayed away
        ([running(10), *silent(50, 60, 1001)], [*ALL_AT_ONCE, watch(1101, 3, 1)], ""),
    ],
)  # fmt: skip
def test_a_host_went_away_only_where_somebody_looked_and_others_answered(
    entries: list[Entry], run: list[Entry], says: str
) -> None:
    said = excuse(entries, run, DEADLINE)
    assert said.startswith(says) and bool(said) is bool(says)


@pytest.mark.parametrize(
    ("entries", "was"),
    [
        ([], False),
        ([at(1, "phase", phase="absent")], False),
        ([at(1, "started", why="the answer was lost; it may be at work")], False),
        ([at(1, "started")], True),
        ([at(1, "phase", phase="starting")], True),
    ],
)
def test_a_host_was_at_work_where_it_was_seen_so(entries: list[Entry], was: bool) -> None:
    assert started(entries) is was
