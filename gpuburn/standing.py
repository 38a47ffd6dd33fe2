"""How a host of a delivery stands: which of its attempts decides, and what is still open. Pure: no clock, no disk.

Every attempt stays, in the order of time. Never the best of them: the last one that says something, under criteria no
laxer than those that counted before it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from gpuburn.attempt import GOOD, Attempt, Laxer, Leave, changed, swapped
from gpuburn.criteria import OTHER
from gpuburn.decision import Condition, Decided, worst
from gpuburn.policy import Decision

FURTHER = 2  # full passes after the first that explain a failure as well as a recorded cause does

# The rules, in words, as docs/deliveries.md prints them.
RULES = {
    "complete": "an attempt that is undecided or untested decides nothing and hides nothing",
    "pending": "such an attempt after the one that decides is an open item, and holds the host back from acceptance, "
    "until a complete one follows or its cause is recorded",
    "held": "where a tripped breaker holds a failure back, nobody is acceptable by an earlier pass: the host is "
    "undecided until the breaker is released or a complete attempt follows",
    "last": "the last complete attempt decides, never the best; earlier ones stay and are shown",
    "laxer": "a pass under laxer criteria than those that counted before, or others that cannot be compared, never "
    "supersedes; a fail always counts",
    "part": "a swapped part (serial, UUID, board) voids the host's earlier passes; its fails stay",
    "unexplained": "a pass after a fail is conditional until a cause is recorded or two further full passes follow",
    "checked": "what failed by a check that was held is a failure too, until its cause is recorded, although nobody "
    "released the breaker",
    "waived": "what failed and was waived is a failure too: a later pass leaves it to be explained",
    "lost": "an attempt that was not good and whose run's folder is gone stays unexplained; nothing is accepted until "
    "the folder is back",
    "full": "a full pass is on hardware, at a level that may accept, with nothing waived",
    "trial": "a rehearsal or a simulated run says nothing about hardware, once hardware has run",
    "waiver": "when a waiver has expired, what it waived is failed again",
    "bar": "criteria that counted are never lowered within a delivery: other terms are another delivery",
}


@dataclass(frozen=True, slots=True)
class Line:
    """One attempt as it is shown: numbered from 1, what changed since the one before, and what it counts for."""

    number: int
    attempt: Attempt
    changed: list[str]
    note: str


@dataclass(frozen=True, slots=True)
class Standing:
    """decides: the number of the attempt that does; 0: none is complete. unexplained: numbers of such failures.

    pending: numbers of the attempts after it that are not complete, and for which nobody recorded a cause. lost: that
    an attempt was not good of which nothing is left.
    """

    host: str
    decision: Decision
    reason: str
    by_profile: dict[str, Decided]
    lines: list[Line]
    decides: int = 0
    unexplained: tuple[int, ...] = ()
    leaves: tuple[Leave, ...] = ()
    pending: tuple[int, ...] = ()
    lost: str = ""

    @property
    def good(self) -> bool:
        """Whether it counts into the yield."""
        return self.decision in GOOD

    @property
    def first_pass(self) -> bool:
        """Whether it was good at once: no attempt failed, or needed a waiver, before the first that is good."""
        if self.lost:
            return False
        for line in self.lines:
            one = line.attempt
            if one.outcome == "fail" or one.leaves or one.held or one.loosened:
                return False
            if one.decision in GOOD:
                return self.good
        return False

    @property
    def conditions(self) -> list[Condition]:
        return list(dict.fromkeys(c for one in self.by_profile.values() for c in one.conditions))

    @property
    def deciding(self) -> Attempt | None:
        return self.lines[self.decides - 1].attempt if self.decides else None


@dataclass
class _Walk:
    """Where the rules stand after some attempts."""

    notes: dict[int, str] = field(default_factory=dict)
    bar: Attempt | None = None
    decides: int = 0
    unexplained: list[int] = field(default_factory=list)
    streak: int = 0
    pending: list[int] = field(default_factory=list)
    held: int = 0

    def take(self, number: int, note: str) -> None:
        """The attempt decides from here on."""
        if self.decides:
            self.notes[self.decides] = f"superseded by attempt {number}"
        self.decides, self.notes[number] = number, note
        self.pending, self.held = [], 0

    def wait(self, number: int, one: Attempt) -> None:
        """The attempt is not complete: it decides nothing, and is not forgotten."""
        self.notes[number] = f"not complete: {one.decision}"
        if one.held:
            self.notes[number] = f"held until the breaker is released: {one.held}"
            self.held, self.streak = number, 0
            if not one.cause:
                self.unexplained.append(number)
        if one.held or not one.cause:
            self.pending.append(number)


def stand(
    attempts: Iterable[Attempt], today: str = "", laxer: Laxer | None = None, lost: str = ""
) -> Standing:  # fmt: skip
    """How the host stands after these attempts, in whatever order they come. today: YYYY-MM-DD; "": no waiver ends.

    lost: that an attempt was not good of which nothing is left, in words.
    """
    laxer = laxer or Laxer()
    ordered = sorted(attempts, key=lambda one: (one.when, one.run))
    changes, void = _changes(ordered, laxer)
    walk, hardware = _Walk(), any(one.kind == "hardware" for one in ordered)
    for number, one in enumerate(ordered, 1):
        if one.leaves and not one.cause and one.outcome != "fail":  # whatever else it counts for, something failed
            walk.unexplained.append(number)
        if hardware and one.kind != "hardware":
            walk.notes[number] = f"a {one.kind} run says nothing about hardware"
        elif one.outcome == "open":
            walk.wait(number, one)
        elif one.outcome == "fail":
            _failed(walk, number, one, laxer)
        else:
            _passed(walk, number, one, laxer, void.get(number, ""))
    lines = [Line(number, one, changes[number - 1], walk.notes[number]) for number, one in enumerate(ordered, 1)]
    return _settled(walk, lines, today, lost)


def _changes(ordered: list[Attempt], laxer: Laxer) -> tuple[list[list[str]], dict[int, str]]:
    """What changed before each attempt; and why attempts before the last swap of a part are void."""
    known: dict[str, str] = {}
    told: list[list[str]] = []
    void: dict[int, str] = {}
    for index, one in enumerate(ordered):
        told.append(changed(one, ordered[index - 1], known, laxer) if index else [])
        if others := swapped(known, one.parts):
            void.update({number: f"void: in attempt {index + 1}, {others[0]}" for number in range(1, index + 1)})
        known.update(one.parts)
    return told, void


def _failed(walk: _Walk, number: int, one: Attempt, laxer: Laxer) -> None:
    """A fail always decides: what fails under laxer criteria fails under the stricter, too. It never lowers the bar."""
    why = laxer(one, walk.bar) if walk.bar else ""
    walk.take(number, "decides")
    if not why and one.criteria is not None:
        walk.bar = one
    walk.streak = 0
    if not one.cause:
        walk.unexplained.append(number)


def _passed(walk: _Walk, number: int, one: Attempt, laxer: Laxer, void: str) -> None:
    why = laxer(one, walk.bar) if walk.bar else ""
    if why:
        walk.notes[number] = f"never supersedes, {why if why.startswith(OTHER) else f'its criteria are laxer: {why}'}"
        return
    walk.bar = one  # a void pass still says what was demanded
    if void:
        walk.notes[number] = void
        return
    walk.take(number, "decides")
    if one.full:
        walk.streak += 1
    elif one.leaves:
        walk.streak = 0
    if walk.streak > FURTHER:
        walk.unexplained.clear()


def _settled(walk: _Walk, lines: list[Line], today: str, lost: str) -> Standing:
    host = lines[-1].attempt.host if lines else ""
    if not walk.decides:
        return _undecided(host, walk, lines)
    one = lines[walk.decides - 1].attempt
    before = [number for number in walk.unexplained if number != walk.decides]
    marks: frozenset[str] = frozenset({"unexplained"} if (before or lost) and one.outcome == "pass" else ())
    over = [leave for leave in one.leaves if today and leave.expires < today]
    made = one.decided(marks, spoilt=bool(over))
    decision = worst(decided.decision for decided in made.values())
    reason = one.reason
    if over:
        reason = f"waiver {over[0].id} by {over[0].person} expired on {over[0].expires}: {over[0].about} failed"
    elif marks and lost:
        reason = f"{lost}; attempt {walk.decides} passed"
    elif marks:
        failed = lines[before[-1] - 1].attempt
        waived = " by a check that was held" if failed.held else " by what was waived" if failed.leaves else ""
        reason = f"attempt {before[-1]} failed{waived}, and nobody recorded the cause; attempt {walk.decides} passed"
    if walk.held and decision.good:
        last = lines[walk.held - 1].attempt
        made, decision = last.decided(), Decision.UNDECIDED
        reason = f"attempt {walk.held} failed by a check that is held, and its breaker is not released: {last.held}"
    return Standing(
        host,
        decision,
        reason,
        made,
        lines,
        walk.decides,
        tuple(walk.unexplained),
        one.leaves,
        tuple(walk.pending),
        lost,
    )


def _undecided(host: str, walk: _Walk, lines: list[Line]) -> Standing:
    """No attempt counts: as undecided or untested as the last one; a pass that does not count is undecided."""
    last = lines[-1].attempt if lines else None
    if last is None:
        return Standing(host, Decision.UNTESTED, "nothing ran on the host", {}, lines)
    if last.outcome == "open":
        return Standing(host, last.decision, last.reason, last.decided(), lines, 0, tuple(walk.unexplained))
    why = f"no attempt counts; the last: {lines[-1].note}"
    return Standing(host, Decision.UNDECIDED, why, {}, lines, 0, tuple(walk.unexplained))
