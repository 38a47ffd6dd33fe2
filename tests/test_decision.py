"""policy.yml: every row, and every way that a host can end, has its decision. No way leads to accepted but one."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any, get_args

import pytest
from hypothesis import given, strategies as st

from gpuburn import policy
from gpuburn.decision import Case, Condition, Decided, decide, marks, worst
from gpuburn.finding import Finding, Verdict
from gpuburn.plan import LEVELS, Kind
from gpuburn.policy import Decision, Mark, Policy, Reached, Row, load
from gpuburn.strict import Refused

PASS, FAIL, INCOMPLETE, _ = Verdict
POLICY = load()
MARKS = get_args(Mark)
ALL = (  # a row for every way that a host can end
    "[{decision: rejected, because: x, verdicts: [fail], kinds: [hardware]}, "
    "{decision: trial failed, because: x, verdicts: [fail]}, {decision: undecided, because: x}]"
)
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
    found = decide(POLICY, Case(reached, verdict, kind, level))
    assert str(found.decision) == wanted
    assert found.because.strip() and found.conditions == []


def test_every_row_of_the_policy_decides_something() -> None:
    used = set()
    for reached, verdict, kind, level, _ in TABLE:
        for mark, environment in itertools.product(("", *MARKS), ("bare_metal", "vm")):
            case = Case(reached, verdict, kind, level, environment, frozenset({mark} - {""}))
            used.add([case.fits(row) for row in POLICY.rows].index(True))
    assert used == set(range(len(POLICY.rows)))


@pytest.mark.parametrize("reached", NO_RESULT)
def test_a_host_without_a_result_is_never_good(reached: Any) -> None:
    for kind, level, verdict in itertools.product(KINDS, LEVELS, [None, *Verdict]):
        assert not decide(POLICY, Case(reached, verdict, kind, level)).decision.good


def test_only_hardware_that_passed_at_standard_or_soak_is_accepted() -> None:
    ways = itertools.product(get_args(Reached), [PASS, FAIL, INCOMPLETE], KINDS, LEVELS)
    accepted = [way for way in ways if decide(POLICY, Case(*way)).decision is Decision.ACCEPTED]
    assert accepted == [("judged", PASS, "hardware", "standard"), ("judged", PASS, "hardware", "soak")]


def test_only_hardware_is_rejected() -> None:
    ways = itertools.product(get_args(Reached), [PASS, FAIL, INCOMPLETE], KINDS, LEVELS)
    assert {way[2] for way in ways if decide(POLICY, Case(*way)).decision is Decision.REJECTED} == {"hardware"}


def test_incomplete_is_never_good() -> None:
    for kind, level in itertools.product(KINDS, LEVELS):
        assert not decide(POLICY, Case("judged", INCOMPLETE, kind, level, marks=frozenset(MARKS))).decision.good


def test_what_no_row_speaks_of_is_refused_and_not_guessed() -> None:
    for verdict in (None, Verdict.NOT_APPLICABLE):
        with pytest.raises(Refused, match=r"no row for .*judged"):
            decide(POLICY, Case("judged", verdict, "hardware", "standard"))
    with pytest.raises(Refused, match="no row"):
        decide(Policy([]), Case("lost", None, "hardware", "standard"))


def test_the_first_row_that_matches_decides() -> None:
    rows = [Row(Decision.UNDECIDED, "first", kinds=("hardware",)), Row(Decision.TRIAL_FAILED, "second")]
    assert decide(Policy(rows), Case("judged", PASS, "hardware", "soak")) == Decided(Decision.UNDECIDED, "first")
    assert decide(Policy(rows), Case("judged", PASS, "rehearsal", "soak")) == Decided(Decision.TRIAL_FAILED, "second")


def test_every_condition_is_told_with_its_owner_and_its_day() -> None:
    case = Case("judged", PASS, "hardware", "standard", marks=frozenset({"marginal", "uncalibrated"}))
    found = decide(POLICY, case, at=1796083200.0)  # 2026-12-01
    assert found.decision is Decision.CONDITIONAL
    assert found.conditions == [
        Condition("a re-test of what was marginal passes", "the vendor", "2026-12-31"),
        Condition(
            "numbers without a reference are compared with peers, a baseline or the contract", "the buyer", "2026-12-31"
        ),
    ]


@pytest.mark.parametrize(
    "environment, owner", [("vm", "the provider"), ("container", "the provider"), ("bare_metal", "the vendor")]
)
def test_what_could_not_be_observed_is_owed_by_whoever_can_see_it(environment: str, owner: str) -> None:
    found = decide(POLICY, Case("judged", PASS, "hardware", "soak", environment, frozenset({"not_observable"})))
    assert found.conditions[0].owner == owner


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
        ("{decision: accepted, because: x, marks: [waved]}", "'waved' is not one of uncalibrated"),
        ("{decision: accepted, because: ' '}", "needs a reason"),
        ("{decision: accepted, because: x, condition: y}", "go with conditional, all three"),
        ("{decision: conditional, because: x}", "go with conditional, all three"),
        ("{decision: conditional, because: x, condition: y, owner: z}", "go with conditional, all three"),
    ],
)
def test_a_policy_with_a_typo_is_refused(tmp_path: Path, row: str, says: str) -> None:
    (tmp_path / "policy.yml").write_text(f"rows:\n  - {row}\n")
    with pytest.raises(Refused, match=rf"policy\.yml\.rows\[0\].*{says}"):
        load(tmp_path / "policy.yml")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("decision_rule: guarded", "'guarded' is not one of simple, guard_band"),
        ("peers: reject", "'reject' is not one of inform, warn, fail"),
        ("breaker: {share: 0.0}", "a share from"),
        ("breaker: {hosts: 7}", "at least 8 hosts, and a share from 0.1 to 1"),
        ("breaker: {share: 0.09}", "a share from 0.1 to 1"),
        ("baseline: {fail_below: 0.99}", "fail_below <= warn_below"),
        ("baseline: {fail_below: 0}", "0 < fail_below"),
        ("decision: simple", "unknown 'decision'; did you mean 'decision_rule'"),
    ],
)
def test_a_setting_that_means_nothing_is_refused(tmp_path: Path, text: str, says: str) -> None:
    (tmp_path / "policy.yml").write_text(f"rows: []\n{text}\n")
    with pytest.raises(Refused, match=says):
        load(tmp_path / "policy.yml")


def test_another_order_of_the_keys_is_the_same_policy_and_another_row_is_not(tmp_path: Path) -> None:
    (tmp_path / "a.yml").write_text(f"rows: {ALL}\npeers: fail\n")
    (tmp_path / "b.yml").write_text(f"# a remark\npeers: fail\nrows: {ALL}\n")
    (tmp_path / "c.yml").write_text(f"peers: fail\nrows: {ALL.replace('undecided', 'untested')}\n")
    first, second, third = (load(tmp_path / name).digest for name in ("a.yml", "b.yml", "c.yml"))
    assert first == second != third


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
    assert policy.FILE.exists()


@pytest.mark.parametrize("mark", MARKS)
@pytest.mark.parametrize("level", ["standard", "soak"])
def test_a_qualified_pass_on_hardware_is_conditional(mark: str, level: str) -> None:
    made = decide(POLICY, Case("judged", PASS, "hardware", level, marks=frozenset({mark})))
    assert made.decision is Decision.CONDITIONAL
    assert all(one.condition and one.owner and one.due for one in made.conditions) and len(made.conditions) == 1


@pytest.mark.parametrize(
    "verdict, wanted", [(Verdict.FAIL, Decision.REJECTED), (Verdict.INCOMPLETE, Decision.UNDECIDED)]
)
def test_a_mark_never_softens_what_did_not_pass(verdict: Verdict, wanted: Decision) -> None:
    case = Case("judged", verdict, "hardware", "standard", marks=frozenset(MARKS))
    assert decide(POLICY, case).decision is wanted


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


PASSED = "verdicts: [pass], kinds: [hardware], levels: [standard]"


@pytest.mark.parametrize(
    ("row", "says"),
    [
        ("{decision: accepted, because: x}", "for verdicts: .pass. of judged hosts alone"),
        ("{decision: accepted, because: x, verdicts: [pass, incomplete], kinds: [hardware], levels: [soak]}", "alone"),
        (f"{{decision: accepted, because: x, reached: [judged, refused], {PASSED}}}", "judged hosts alone"),
        ("{decision: accepted, because: x, verdicts: [pass], kinds: [hardware]}", "levels: .standard, soak."),
        ("{decision: accepted, because: x, verdicts: [pass], kinds: [hardware], levels: [quick]}", "levels: .standard"),
        ("{decision: accepted, because: x, verdicts: [pass], levels: [soak]}", "kinds: .hardware."),
        ("{decision: trial passed, because: x}", "for verdicts: .pass."),
        ("{decision: trial passed, because: x, verdicts: [fail]}", "for verdicts: .pass."),
    ],
)
def test_no_policy_accepts_what_did_not_pass_or_cannot_be_accepted(tmp_path: Path, row: str, says: str) -> None:
    (tmp_path / "policy.yml").write_text(f"rows: [{row}, {ALL[1:-1]}]\n")
    with pytest.raises(Refused, match=says):
        load(tmp_path / "policy.yml")


def test_a_policy_with_a_gap_is_refused_and_names_it(tmp_path: Path) -> None:
    (tmp_path / "policy.yml").write_text(
        "rows:\n  - {decision: rejected, because: x, verdicts: [fail], kinds: [hardware]}\n"
        "  - {decision: undecided, because: x, kinds: [hardware]}\n"
    )
    with pytest.raises(Refused, match="no row for reached judged, verdict pass, kind rehearsal"):
        load(tmp_path / "policy.yml")


ACCEPTS = "{decision: accepted, because: x, verdicts: [pass], kinds: [hardware], levels: [standard, soak]}"


@pytest.mark.parametrize(
    ("rows", "says"),
    [
        ("{decision: undecided, because: x}", "what failed is rejected, not undecided"),
        (
            "{decision: undecided, because: x, marks: [marginal]}, " + ALL[1:-1],
            "what failed is rejected, not undecided",
        ),
        (f"{ACCEPTS}, {ALL[1:-1]}", "a pass with mark waived is at best conditional"),
        (
            ACCEPTS.replace("because: x", "because: x, marks: [uncalibrated]")
            + ", {decision: undecided, because: x, marks: [waived, unexplained, loosened]}, "
            + ALL[1:-1],
            "a pass with mark waived and uncalibrated is at best conditional",
        ),
    ],
)
def test_no_policy_hides_a_failure_or_what_a_person_must_answer_for(tmp_path: Path, rows: str, says: str) -> None:
    (tmp_path / "policy.yml").write_text(f"rows: [{rows}]\n")
    with pytest.raises(Refused, match=says):
        load(tmp_path / "policy.yml")
