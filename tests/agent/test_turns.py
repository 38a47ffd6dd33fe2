"""Turns by files: who waits for whom, and that a dead neighbour holds nobody up for ever. Time is the test's own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from gpuburn.agent import turns
from gpuburn.agent.turns import Turns


class Clock:
    """A second for each nap; what is to happen at a second happens then."""

    def __init__(self) -> None:
        self.now, self.events = 0.0, dict[float, Callable[[], None]]()

    def monotonic(self) -> float:
        return self.now

    def sleep(self, _: float) -> None:
        self.now += 1
        self.events.pop(self.now, lambda: None)()


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(turns, "time", made)
    return made


def test_the_first_waits_for_nobody(tmp_path: Path, clock: Clock) -> None:
    Turns(tmp_path, 0, 3, 9.0).wait("a")
    assert clock.now == 0


def test_the_third_waits_for_the_first_two_in_this_matter(tmp_path: Path, clock: Clock) -> None:
    first, second, third = (Turns(tmp_path, rank, 3, 9.0) for rank in range(3))
    first.done("another matter")
    clock.events = {3.0: lambda: first.done("a"), 5.0: lambda: second.done("a")}
    third.wait("a")
    assert clock.now == 5


def test_all_meet_when_the_last_has_come(tmp_path: Path, clock: Clock) -> None:
    first, second = (Turns(tmp_path, rank, 2, 9.0) for rank in range(2))
    clock.events = {4.0: lambda: second.done("b")}
    first.meet("b")
    assert clock.now == 4
    second.meet("b")
    assert clock.now == 4


@pytest.mark.parametrize("rank", [1, 2])
def test_a_dead_neighbour_is_waited_for_no_longer_than_its_turn_may_take(tmp_path, clock, rank):
    Turns(tmp_path, rank, 3, 9.0).wait("a")
    assert clock.now == 9 * rank


def test_what_one_has_given_up_the_next_does_not_wait_for_again(tmp_path: Path, clock: Clock) -> None:
    Turns(tmp_path, 1, 3, 9.0).wait("a")
    Turns(tmp_path, 1, 3, 9.0).done("a")
    Turns(tmp_path, 2, 3, 9.0).wait("a")
    assert clock.now == 9
