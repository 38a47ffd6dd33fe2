"""Deliveries: which attempt decides, row by row; and no order of runs, and nothing that shows less, ever helps."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
import runs
from hypothesis import given, strategies as st

from gpuburn import criteria, policy
from gpuburn.attempt import Attempt, Laxer, Leave
from gpuburn.decision import Case
from gpuburn.finding import Verdict
from gpuburn.plan import LEVELS
from gpuburn.policy import Decision
from gpuburn.standing import RULES, Standing, stand

POLICY = policy.load()
VERDICTS = {"pass": Verdict.PASS, "fail": Verdict.FAIL, "open": Verdict.INCOMPLETE}
CRITERIA = {level: criteria.of(runs.plan(runs.hardware(count=2, level=level))) for level in LEVELS}
LEAVE = Leave("W-1", "A. Person", "gemm.tflops", "2026-06-30")


def attempt(word: str, number: int = 1, **changed: Any) -> Attempt:
    """word: pass, fail or open; a level, caused, waived, loosened, held, rehearsal, other (parts), never (reached)."""
    said = word.split()
    level = next((one for one in said if one in LEVELS), "standard")
    kind = "rehearsal" if "rehearsal" in said else "hardware"
    waived = "waived" in said
    marks = frozenset({"waived", "loosened"} & {*said})
    case = Case("judged", VERDICTS[said[0]], kind, level, marks=marks)
    if "never" in said:
        case = dataclasses.replace(case, reached="never_reached", verdict=None)
    parts = {} if "silent" in said else {"gpu0 serial": "B" if "other" in said else "A", "host serial": "H"}
    named = {
        "run": f"2026010{number}T000000Z-0000", "host": "node1", "at": 1_767_225_600.0 + 86_400 * number,
        "kind": kind, "level": level, "cases": {"training": case}, "policy": POLICY, "digest": level,
        "criteria": CRITERIA[level], "parts": parts, "reason": "why", "leaves": (LEAVE,) if waived else (),
        "cause": "the riser was loose" if "caused" in said else "", "held": "0 TFLOP/s" if "held" in said else "",
    }  # fmt: skip
    return Attempt(**{**named, **changed})


def history(*words: str, today: str = "") -> Standing:
    return stand([attempt(word, number) for number, word in enumerate(words, 1)], today)


@pytest.mark.parametrize(
    ("words", "decision", "decides", "unexplained"),
    [
        # the last complete attempt decides, never the best
        (["pass"], "accepted", 1, ()),
        (["fail"], "rejected", 1, (1,)),
        (["open"], "undecided", 0, ()),
        (["open never"], "untested", 0, ()),
        (["pass", "pass"], "accepted", 2, ()),
        (["pass", "fail"], "rejected", 2, (2,)),
        (["pass", "open"], "accepted", 1, ()),
        (["pass", "open never"], "accepted", 1, ()),
        (["fail", "open"], "rejected", 1, (1,)),
        (["open", "open never"], "untested", 0, ()),
        (["open", "pass"], "accepted", 2, ()),
        # laxer criteria never supersede with a pass; a fail under them still counts
        (["pass soak", "pass"], "accepted", 1, ()),
        (["fail soak", "pass"], "rejected", 1, (1,)),
        (["fail soak caused", "pass"], "rejected", 1, ()),
        (["pass soak", "fail quick"], "rejected", 2, (2,)),
        (["pass soak", "fail quick caused", "pass quick"], "rejected", 2, ()),
        (["pass soak", "fail quick caused", "pass"], "rejected", 2, ()),
        (["pass soak", "fail quick caused", "pass soak"], "accepted", 3, ()),
        (["pass quick", "pass"], "accepted", 2, ()),
        (["pass", "pass quick"], "accepted", 1, ()),
        (["pass smoke"], "trial passed", 1, ()),
        (["fail smoke"], "rejected", 1, (1,)),
        # a pass after an unexplained fail
        (["fail", "pass"], "conditional", 2, (1,)),
        (["fail caused", "pass"], "accepted", 2, ()),
        (["fail", "pass", "pass"], "conditional", 3, (1,)),
        (["fail", "pass", "pass", "pass"], "accepted", 4, ()),
        (["fail", "pass", "open", "pass", "pass"], "accepted", 5, ()),
        (["fail", "pass", "pass", "fail", "pass"], "conditional", 5, (1, 4)),
        (["fail", "pass", "pass", "fail caused", "pass"], "conditional", 5, (1,)),
        (["fail", "pass", "pass", "pass", "fail caused", "pass"], "accepted", 6, ()),
        (["fail caused", "fail", "pass"], "conditional", 3, (2,)),
        (["fail", "pass", "pass waived", "pass", "pass"], "conditional", 5, (1, 3)),
        (["fail smoke", "pass smoke", "pass", "pass", "pass"], "accepted", 5, ()),
        (["fail smoke", "pass smoke", "pass smoke", "pass smoke", "pass"], "conditional", 5, (1,)),
        # what was waived failed, too
        (["pass waived"], "conditional", 1, (1,)),
        (["pass waived", "pass"], "conditional", 2, (1,)),
        (["pass waived caused", "pass"], "accepted", 2, ()),
        (["pass waived", "pass", "pass", "pass"], "accepted", 4, ()),
        (["pass soak", "pass waived", "pass soak"], "conditional", 3, (2,)),
        (["open waived", "pass"], "conditional", 2, (1,)),
        # a failure that a breaker holds
        (["pass", "open held"], "undecided", 1, (2,)),
        (["pass", "open held", "open"], "undecided", 1, (2,)),
        (["pass", "open held", "pass quick"], "undecided", 1, (2,)),
        (["pass", "open held caused"], "undecided", 1, ()),
        (["pass", "open held", "pass"], "conditional", 3, (2,)),
        (["pass", "open held caused", "pass"], "accepted", 3, ()),
        (["pass", "pass", "open held", "pass"], "conditional", 4, (3,)),
        (["open held", "pass", "pass", "pass"], "accepted", 4, ()),
        (["open held", "pass"], "conditional", 2, (1,)),
        (["fail", "open held"], "rejected", 1, (1, 2)),
        (["pass smoke", "open held"], "undecided", 1, (2,)),
        (["pass", "open held rehearsal"], "accepted", 1, ()),
        # a swapped part
        (["pass", "open other"], "undecided", 0, ()),
        (["pass", "open never silent"], "accepted", 1, ()),
        (["pass", "pass other"], "accepted", 2, ()),
        (["pass", "pass", "fail other"], "rejected", 3, (3,)),
        (["fail", "pass", "open other"], "rejected", 1, (1,)),
        (["fail", "pass other"], "conditional", 2, (1,)),
        (["fail caused", "pass other"], "accepted", 2, ()),
        (["fail", "pass", "pass", "pass other"], "conditional", 4, (1,)),
        (["fail", "pass", "pass", "pass", "pass other"], "conditional", 5, (1,)),
        (["pass soak", "pass other"], "undecided", 0, ()),
        (["pass", "open silent", "pass other"], "accepted", 3, ()),
        (["pass", "open silent", "open other"], "undecided", 0, ()),
        # rehearsals beside hardware
        (["pass rehearsal"], "trial passed", 1, ()),
        (["fail rehearsal"], "trial failed", 1, (1,)),
        (["fail rehearsal", "pass"], "accepted", 2, ()),
        (["pass", "fail rehearsal"], "accepted", 1, ()),
        (["open", "pass rehearsal"], "undecided", 0, ()),
    ],
)  # fmt: skip
def test_which_attempt_decides(words: list[str], decision: str, decides: int, unexplained: tuple[int, ...]) -> None:
    found = history(*words)
    assert (str(found.decision), found.decides, found.unexplained) == (decision, decides, unexplained)
    assert [line.number for line in found.lines] == [*range(1, len(words) + 1)]
    assert all(line.note for line in found.lines)


@pytest.mark.parametrize(
    ("words", "pending"),
    [
        (["pass"], ()), (["pass", "open"], (2,)), (["pass", "open never"], (2,)), (["pass", "open", "open"], (2, 3)),
        (["pass", "open", "pass"], ()), (["pass", "open", "fail"], ()), (["pass", "open caused"], ()),
        (["pass", "open held caused"], (2,)), (["pass", "open", "pass quick"], (2,)), (["open", "pass"], ()),
        (["pass", "open rehearsal"], ()),
    ],
)  # fmt: skip
def test_an_incomplete_attempt_after_the_one_that_decides_is_pending(
    words: list[str], pending: tuple[int, ...]
) -> None:
    assert history(*words).pending == pending


def test_what_the_site_loosened_is_no_full_pass_and_no_first_one() -> None:
    assert not history("pass loosened", "pass").first_pass and not history("pass loosened").lines[0].attempt.full
    assert str(history("fail", "pass", "pass", "pass loosened").decision) == "conditional"
    assert str(history("fail", "pass", "pass", "pass").decision) == "accepted"


def test_what_is_held_and_what_was_waived_is_the_reason() -> None:
    found = history("pass", "open held")
    assert found.reason == "attempt 2 failed by a check that is held, and its breaker is not released: 0 TFLOP/s"
    assert found.lines[1].note == "held until the breaker is released: 0 TFLOP/s"
    assert not history("open held", "pass").first_pass
    assert history("open held", "pass").reason == (
        "attempt 1 failed by a check that was held, and nobody recorded the cause; attempt 2 passed"
    )
    assert history("pass waived", "pass").reason == (
        "attempt 1 failed by what was waived, and nobody recorded the cause; attempt 2 passed"
    )


def test_the_first_host_of_all_has_no_attempt() -> None:
    assert stand([]).decision is Decision.UNTESTED


@pytest.mark.parametrize(
    ("words", "notes"),
    [
        (["pass", "open", "fail"], ["superseded by attempt 3", "not complete: undecided", "decides"]),
        (["pass soak", "pass"], ["decides", "never supersedes, its criteria are laxer: level was soak, is standard"]),
        (["pass", "pass other"], ["void: in attempt 2, gpu0 serial was A, is B", "decides"]),
        (["pass rehearsal", "pass"], ["a rehearsal run says nothing about hardware", "decides"]),
    ],
)
def test_every_attempt_says_what_it_counts_for(words: list[str], notes: list[str]) -> None:
    assert [line.note for line in history(*words).lines] == notes


def test_what_changed_between_attempts_is_told() -> None:
    before = attempt("pass quick", 1, versions={"host driver": "570", "gpu0 vbios": "1", "gpu1 vbios": "1"})
    other = dataclasses.replace(POLICY, peers="fail")
    now = attempt("pass other", 2, versions={"host driver": "580", "gpu0 vbios": "2", "gpu1 vbios": "2"}, policy=other)
    first, second = stand([before, now]).lines
    assert first.changed == []
    assert second.changed == [
        "part: gpu0 serial was A, is B", "vbios of gpu0, gpu1 was 1, is 2", "driver of host was 570, is 580",
        "level was quick, is standard", f"policy was {POLICY.digest[:12]}, is {other.digest[:12]}",
        "criteria: others, none of them laxer",
    ]  # fmt: skip
    [_, third] = stand([attempt("pass"), attempt("pass quick", 2)]).lines
    assert third.changed[-1] == "criteria: laxer: level was standard, is quick"


def test_a_changed_limit_counts_as_criteria_do() -> None:
    plan = runs.plan(runs.hardware(count=2, level="standard"))
    loose = criteria.of(runs.with_limit(plan, "gemm.wrong", max=5.0))
    found = stand([attempt("fail"), attempt("pass", 2, digest="loose", criteria=loose)])
    assert found.decision is Decision.REJECTED
    assert "gemm.wrong in step gemm" in found.lines[1].note and "x <= 5 count" in found.lines[1].note


def test_a_pass_without_a_plan_never_supersedes_and_a_fail_without_one_counts() -> None:
    assert stand([attempt("fail"), attempt("pass", 2, criteria=None, digest="")]).decision is Decision.REJECTED
    assert stand([attempt("pass"), attempt("fail", 2, criteria=None, digest="")]).decision is Decision.REJECTED


def test_the_condition_of_an_unexplained_fail_has_an_owner_and_a_day() -> None:
    found = history("fail", "pass")
    assert [(c.owner, c.due) for c in found.conditions] == [("the vendor", "2026-02-02")]
    assert found.reason == "attempt 1 failed, and nobody recorded the cause; attempt 2 passed"


@pytest.mark.parametrize(("today", "decision"), [("2026-06-30", "conditional"), ("2026-07-01", "rejected")])
def test_when_a_waiver_has_expired_what_it_waived_is_failed_again(today: str, decision: str) -> None:
    found = history("pass waived", today=today)
    assert str(found.decision) == decision
    assert (found.reason == "waiver W-1 by A. Person expired on 2026-06-30: gemm.tflops failed") is (
        decision == "rejected"
    )


@pytest.mark.parametrize(
    ("words", "first"),
    [
        (["pass"], True), (["pass quick", "pass"], True), (["open", "pass"], True), (["pass", "pass"], True),
        (["fail", "pass"], False), (["fail caused", "pass"], False), (["pass waived"], False),
        (["pass", "fail"], False), (["open"], False), (["pass smoke"], False),
    ],
)  # fmt: skip
def test_first_pass_is_without_a_fail_a_waiver_or_a_second_try(words: list[str], first: bool) -> None:
    assert history(*words).first_pass is first


def test_many_changes_are_told_in_short() -> None:
    many = {f"gpu{index} serial": "A" for index in range(16)}
    found = stand([attempt("pass", parts=many), attempt("pass", 2, parts=dict.fromkeys(many, "B"))])
    assert len(found.lines[1].changed) == 7 and found.lines[1].changed[-1] == "and 10 more"


def test_each_pair_of_criteria_is_compared_once() -> None:
    calls: list[int] = []
    laxer = Laxer(lambda now, before: calls.append(1) or criteria.laxer(now, before))  # type: ignore[func-returns-value]
    for _ in range(5):
        stand([attempt("pass quick"), attempt("pass", 2), attempt("pass quick", 3)], laxer=laxer)
    assert len(calls) == 2


WORDS = st.builds(
    lambda verdict, level, more: " ".join([verdict, level, *more]),
    st.sampled_from(["pass", "fail", "open"]), st.sampled_from(LEVELS),
    st.lists(st.sampled_from(["caused", "waived", "rehearsal", "other", "silent", "held"]), unique=True, max_size=3),
)  # fmt: skip
HISTORIES = st.lists(WORDS, max_size=7)
ORDER = list(Decision)


@given(HISTORIES, st.randoms())
def test_merging_the_runs_in_any_order_gives_the_same(words: list[str], random: Any) -> None:
    attempts = [attempt(word, number) for number, word in enumerate(words, 1)]
    mixed = sorted(attempts, key=lambda _: random.random())
    assert stand(mixed) == stand(attempts)


def _badness(found: Standing) -> int:
    return ORDER.index(found.decision)


@given(
    HISTORIES,
    st.integers(0, 7),
    st.sampled_from(["open", "open held", "open silent", "open other", "fail", "fail smoke"]),
)
def test_an_attempt_that_shows_less_never_improves_a_host(words: list[str], place: int, less: str) -> None:
    """Put in anywhere: an attempt that shows nothing, or a fail."""
    place = min(place, len(words))
    before, after = history(*words), history(*words[:place], less, *words[place:])
    if any("rehearsal" not in word for word in words) and before.decides:
        assert _badness(after) >= _badness(before)
    else:  # nothing was said about hardware
        assert not after.decision.good


@given(st.lists(WORDS, min_size=1, max_size=6), st.sampled_from(["smoke", "quick", "standard"]))
def test_a_pass_under_laxer_criteria_than_all_before_never_improves_a_host(words: list[str], level: str) -> None:
    above = LEVELS[LEVELS.index(level) + 1 :]
    first = f"fail {above[0]}"  # the bar is above the pass that is added
    before = history(first, *words)
    assert _badness(history(first, *words, f"pass {level}")) >= _badness(before)


@given(HISTORIES)
def test_nothing_is_accepted_whose_last_counting_attempt_failed_or_whose_fail_is_unexplained(words: list[str]) -> None:
    found = history(*words)
    if found.decision is Decision.ACCEPTED:
        assert not found.unexplained
        assert not any(found.lines[number - 1].attempt.held for number in found.pending)
        assert found.deciding is not None and found.deciding.full
        assert not any(line.attempt.outcome == "fail" and line.attempt.kind == "hardware"
                       for line in found.lines[found.decides:])  # fmt: skip


def test_the_rules_are_told() -> None:
    assert len(RULES) == 14 and all(RULES.values())
