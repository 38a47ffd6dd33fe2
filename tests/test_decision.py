"""policy.yml: every row, and every way that a host can end, has its decision. No way leads to accepted but one."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any, get_args

import pytest
from hypothesis import given, strategies as st

from gpuburn import decision
from gpuburn.decision import Decision, Reached, Row, decide, load, marks, worst
from gpuburn.plan import LEVELS, Kind
from gpuburn.strict import Refused
from gpuburn.verdict import Finding, Verdict

PASS, FAIL, INCOMPLETE, _ = Verdict
ROWS = load()
KINDS = get_args(Kind)
NO_RESULT = [one for one in get_args(Reached) if one != "judged"]

TABLE = [
    ("never_reached", None, "hardware", "standard", "untested"),
    ("never_reached", None, "rehearsal", "smoke", "untested"),
    ("not_started", None, "hardware", "standard", "untested"),
    ("not_started", None, "rehearsal", "smoke", "untested"),
    ("lost", None, "hardware", "standard", "rejected"),
    ("vanished", None, "hardware", "standard", "undecided"),
    ("vanished", None, "rehearsal", "smoke", "undecided"),
    ("lost", None, "hardware", "smoke", "rejected"),
    ("lost", None, "rehearsal", "smoke", "trial failed"),
    ("lost", None, "simulated", "standard", "trial failed"),
    ("uncollected", None, "hardware", "standard", "undecided"),
    ("uncollected", None, "rehearsal", "smoke", "undecided"),
    ("refused", None, "hardware", "standard", "undecided"),
    ("refused", None, "rehearsal", "smoke", "undecided"),
    *[("judged", FAIL, "hardware", level, "rejected") for level in LEVELS],
    *[("judged", FAIL, kind, level, "trial failed") for kind in ("rehearsal", "simulated") for level in LEVELS],
    *[("judged", INCOMPLETE, kind, level, "undecided") for kind in KINDS for level in LEVELS],
    ("judged", PASS, "hardware", "smoke", "trial passed"),
    ("judged", PASS, "hardware", "quick", "trial passed"),
    ("judged", PASS, "hardware", "standard", "accepted"),
    ("judged", PASS, "hardware", "soak", "accepted"),
    *[("judged", PASS, kind, level, "trial passed") for kind in ("rehearsal", "simulated") for level in LEVELS],
]


@pytest.mark.parametrize(("reached", "verdict", "kind", "level", "wanted"), TABLE)
def test_the_policy_row_by_row(reached: Any, verdict: Verdict | None, kind: str, level: str, wanted: str) -> None:
    found, because = decide(ROWS, reached, verdict, kind, level)
    assert str(found) == wanted
    assert because.strip()


def test_every_row_of_the_policy_decides_something() -> None:
    used = set()
    for reached, verdict, kind, level, _ in TABLE:
        for marked in (frozenset(), *(frozenset({mark}) for mark in get_args(decision.Mark))):
            matches = (row.matches(reached, str(verdict or ""), kind, level, marked) for row in ROWS)
            used.add(list(matches).index(True))
    assert used == set(range(len(ROWS)))


@pytest.mark.parametrize("reached", NO_RESULT)
def test_a_host_without_a_result_is_never_good(reached: Any) -> None:
    for kind, level, verdict in itertools.product(KINDS, LEVELS, [None, *Verdict]):
        assert not decide(ROWS, reached, verdict, kind, level)[0].good


def test_only_hardware_that_passed_at_standard_or_soak_is_accepted() -> None:
    ways = itertools.product(get_args(Reached), [PASS, FAIL, INCOMPLETE], KINDS, LEVELS)
    accepted = [way for way in ways if decide(ROWS, *way)[0] is Decision.ACCEPTED]
    assert accepted == [("judged", PASS, "hardware", "standard"), ("judged", PASS, "hardware", "soak")]


def test_only_hardware_is_rejected() -> None:
    ways = itertools.product(get_args(Reached), [PASS, FAIL, INCOMPLETE], KINDS, LEVELS)
    assert {way[2] for way in ways if decide(ROWS, *way)[0] is Decision.REJECTED} == {"hardware"}


def test_incomplete_is_never_good() -> None:
    for kind, level in itertools.product(KINDS, LEVELS):
        assert not decide(ROWS, "judged", INCOMPLETE, kind, level)[0].good


def test_what_no_row_speaks_of_is_refused_and_not_guessed() -> None:
    for verdict in (None, Verdict.NOT_APPLICABLE):
        with pytest.raises(Refused, match="no row for reached=judged"):
            decide(ROWS, "judged", verdict, "hardware", "standard")
    with pytest.raises(Refused, match="no row"):
        decide([], "lost", None, "hardware", "standard")


def test_the_first_row_that_matches_decides() -> None:
    rows = [Row(Decision.UNDECIDED, "first", kinds=("hardware",)), Row(Decision.ACCEPTED, "second")]
    assert decide(rows, "judged", PASS, "hardware", "soak") == (Decision.UNDECIDED, "first")
    assert decide(rows, "judged", PASS, "rehearsal", "soak") == (Decision.ACCEPTED, "second")


@pytest.mark.parametrize(
    ("row", "says"),
    [
        ("{decision: acceptd, because: x}", "'acceptd' is not one of accepted"),
        ("{decision: accepted}", "'because' is missing"),
        ("{decision: accepted, because: x, verdict: [pass]}", "unknown 'verdict'; did you mean 'verdicts'"),
        ("{decision: accepted, because: x, verdicts: [passed]}", "'passed' is not one of pass"),
        ("{decision: accepted, because: x, reached: [jugded]}", "'jugded' is not one of judged"),
        ("{decision: accepted, because: x, kinds: [hardwear]}", "'hardwear' is not one of hardware"),
        ("{decision: accepted, because: x, levels: [standart]}", "'standart' is not one of smoke"),
    ],
)
def test_a_policy_with_a_typo_is_refused(tmp_path: Path, row: str, says: str) -> None:
    (tmp_path / "policy.yml").write_text(f"rows:\n  - {row}\n")
    with pytest.raises(Refused, match=rf"policy\.yml: row 1.*{says}"):
        load(tmp_path / "policy.yml")


@pytest.mark.parametrize("text", ["rows: 5\n", "row: []\n", "- a\n", ""])
def test_a_policy_without_rows_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "policy.yml").write_text(text)
    with pytest.raises(Refused, match=r"policy\.yml"):
        load(tmp_path / "policy.yml")


@given(st.lists(st.sampled_from(list(Decision)), max_size=5), st.randoms())
def test_a_host_is_as_good_as_the_worst_of_its_profiles(decisions: list[Decision], random: Any) -> None:
    found = worst(decisions)
    assert worst(sorted(decisions, key=lambda _: random.random())) is found
    if decisions:
        assert found in decisions
        assert found.good == all(one.good for one in decisions)


def test_nothing_demanded_is_untested() -> None:
    assert worst([]) is Decision.UNTESTED


def test_the_order_from_best_to_worst() -> None:
    wanted = ["accepted", "conditional", "trial passed", "undecided", "untested", "trial failed", "rejected"]
    assert [str(one) for one in Decision] == wanted
    assert [one.good for one in Decision] == [True, True, True, False, False, False, False]
    assert decision.FILE.exists()


@pytest.mark.parametrize("mark", ["uncalibrated", "not_observable", "marginal"])
@pytest.mark.parametrize("level", ["standard", "soak"])
def test_a_qualified_pass_on_hardware_is_conditional(mark: str, level: str) -> None:
    made, because = decide(load(), "judged", Verdict.PASS, "hardware", level, frozenset({mark}))
    assert made is Decision.CONDITIONAL and "on condition" in because


@pytest.mark.parametrize(
    "verdict, wanted", [(Verdict.FAIL, Decision.REJECTED), (Verdict.INCOMPLETE, Decision.UNDECIDED)]
)
def test_a_mark_never_softens_what_did_not_pass(verdict: Verdict, wanted: Decision) -> None:
    marked = frozenset({"uncalibrated", "not_observable", "marginal"})
    assert decide(load(), "judged", verdict, "hardware", "standard", marked)[0] is wanted


def test_marks_are_those_of_the_profile_and_no_other() -> None:
    def one(code: str, *profiles: str, marginal: bool = False) -> Finding:
        return Finding(code, "a.b", Verdict.PASS, "", "limit", profiles, marginal=marginal)

    findings = [
        one("uncalibrated", "training"),
        one("limit.met", "inference", marginal=True),
        one("informational", "inference"),
    ]
    assert marks(findings, "training") == {"uncalibrated"}
    assert marks(findings, "inference") == {"marginal"}
