"""Limits: what each admits, that each has its reason, and how a site's numbers go over ours."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from gpuburn import limit as limits
from gpuburn.limit import Limit, When, as_tight, narrowed
from gpuburn.measurement import Point
from gpuburn.site_limits import merge
from gpuburn.strict import Refused

OURS = [
    Limit(
        "a.speed", "GB/s", "our reason", min=10.0, warn_below=12.0, confidence="medium", when=When(kinds=("hardware",))
    ),
    Limit("a.speed", informational="a rehearsal", when=When(kinds=("rehearsal",))),
    Limit("a.wrong", "count", "our reason", max=0.0),
    Limit("a.sum", because="our reason", agree="host"),
]
SITE = "gpuburn_limits_site"


@given(st.floats(-1e3, 1e3), st.floats(-1e3, 1e3), st.floats(0, 1e3))
def test_a_limit_admits_what_lies_within_its_bounds_and_the_bounds(value: float, low: float, width: float) -> None:
    both = Limit("a.b", "s", "r", min=low, max=low + width)
    assert both.admits(value) == (low <= value <= low + width)
    assert Limit("a.b", "s", "r", min=low).admits(value) == (value >= low)
    assert Limit("a.b", "s", "r", max=low).admits(value) == (value <= low)
    assert both.admits(low)
    assert both.admits(low + width)


def test_what_is_no_number_is_admitted_by_nothing() -> None:
    for one in (Limit("a.b", "s", "r", min=0.0), Limit("a.b", "s", "r", max=0.0)):
        assert not one.admits(math.nan)
    assert not Limit("a.b", "s", "r", max=1e300).admits(math.inf)
    assert not Limit("a.b", "s", "r", min=-1e300).admits(-math.inf)


def test_the_edge_itself_is_not_marginal() -> None:
    one = Limit("a.b", "s", "r", min=0.0, warn_below=1.0, warn_above=2.0)
    assert [one.marginal(value) for value in (0.9, 1.0, 2.0, 2.1)] == [True, False, False, True]
    assert not Limit("a.b", "s", "r", min=0.0).marginal(0.0)


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({}, "one of min/max, of, equals, agree or informational"),
        ({"unit": "s"}, "one of min/max, of"),
        ({"unit": "s", "fail_below": 0.9}, "one of min/max, of"),
        ({"unit": "s", "min": 1.0, "fail_below": 0.9}, "go with 'of'"),
        ({"unit": "s", "of": "c.d"}, "'of' needs fail_below"),
        ({"unit": "s", "of": "c.d", "min": 1.0, "fail_below": 0.9}, "one of min/max, of"),
        ({"unit": "s", "of": "c.d", "fail_below": 0.0}, "shares are above 0"),
        ({"unit": "s", "of": "c.d", "fail_below": 0.9, "warn_below": 0.8}, "shares are above 0"),
        ({"unit": "s", "of": "c.d", "fail_above": 1.1, "warn_above": 1.2}, "shares are above 0"),
        ({"of": "c.d", "fail_below": 0.9}, "needs its unit"),
        ({"unit": "s", "min": 1.0, "equals": "a"}, "one of min/max, of"),
        ({"unit": "s", "min": 1.0, "informational": "b"}, "one of min/max, of"),
        ({"equals": "a", "agree": "host"}, "one of min/max, of"),
        ({"min": 1.0}, "needs its unit"),
        ({"unit": "s", "min": 2.0, "max": 1.0}, "min 2 is above max 1"),
    ],
)
def test_a_limit_demands_exactly_one_thing(fields: dict[str, Any], says: str) -> None:
    with pytest.raises(Refused, match=f"^a.b: .*{says}"):
        Limit("a.b", because="a reason", **fields)


@pytest.mark.parametrize("because", ["", " ", "\n\t"])
@pytest.mark.parametrize("fields", [{"unit": "s", "min": 1.0}, {"equals": "a"}, {"agree": "host"}])
def test_a_limit_without_a_reason_is_refused(fields: dict[str, Any], because: str) -> None:
    with pytest.raises(Refused, match="needs a reason"):
        Limit("a.b", because=because, **fields)


@pytest.mark.parametrize(("confidence", "rejects"), [("high", True), ("medium", False), ("low", False)])
def test_only_high_confidence_rejects(confidence: Any, rejects: bool) -> None:
    assert Limit("a.b", "s", "r", min=1.0, confidence=confidence).can_reject is rejects


def test_what_is_informational_rejects_nothing() -> None:
    assert not Limit("a.b", informational="why").can_reject


def test_a_limit_reads_like_a_sentence() -> None:
    assert str(Limit("a.b", "GB/s", "r", min=1.0, max=2.5)) == "1 <= x <= 2.5 GB/s"
    assert str(Limit("a.b", "count", "r", max=0.0)) == "x <= 0 count"
    assert str(Limit("a.b", because="r", equals="x")) == "= x"
    assert str(Limit("a.b", because="r", agree="host")) == "the same over the host"
    assert str(Limit("a.b", informational="w")) == "recorded, not judged"


def test_an_empty_condition_is_no_condition_and_all_others_must_hold() -> None:
    asked = ("hardware", "quick", "vm", "gemm")
    assert When().applies(*asked)
    assert When(kinds=("hardware",), levels=("quick", "soak"), environments=("vm",), steps=("gemm",)).applies(*asked)
    for other in (
        When(kinds=("rehearsal",)), When(levels=("soak",)), When(environments=("container",)), When(steps=("idle",))
    ):  # fmt: skip
        assert not other.applies(*asked)


def test_a_limit_serves_the_profiles_that_it_and_the_step_name() -> None:
    one = Limit("a.b", "s", "r", min=1.0, when=When(profiles=("training",), point=Point.of(mib=1)))
    bound = narrowed(one, "gemm", ["inference", "training"])
    assert bound.when == When(steps=("gemm",), profiles=("training",), point=Point.of(mib=1))
    assert narrowed(one, "gemm", ["inference"]).when.profiles == ()
    assert narrowed(Limit("a.b", "s", "r", min=1.0), "gemm", ["x", "y"]).when.profiles == ("x", "y")


def loaded(tmp_path: Path, text: str) -> list[Limit]:
    (tmp_path / "limits.yml").write_text(text)
    return limits.load(tmp_path / "limits.yml")


def test_a_file_of_limits_is_read(tmp_path: Path) -> None:
    text = "a.b:\n  - {unit: s, max: 1, because: r, when: {kinds: [hardware], point: {mib: 8}}}\n"
    [one] = loaded(tmp_path, text)
    assert one == Limit("a.b", "s", "r", max=1.0, when=When(kinds=("hardware",), point=Point.of(mib=8)))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("- a\n", "mapping of probe.metric to a list"),
        ("a.b: {unit: s, max: 1, because: r}\n", "a.b: wanted is a list"),
        ("a.b: [{unit: s, maxx: 1, because: r}]\n", "unknown 'maxx'; did you mean 'max'"),
        ("a.b: [{unit: s, max: 1}]\n", "needs a reason"),
        ("a.b: [{unit: s, max: .nan, because: r}]\n", "not a finite number"),
        ("a.b: [{unit: s, max: .inf, because: r}]\n", "not a finite number"),
        ("a.b: [{unit: s, max: '1', because: r}]\n", "max: '1' is a str"),
        ("a.b: [{unit: s, max: 1, because: r, when: {kind: [x]}}]\n", "unknown 'kind'; did you mean 'kinds'"),
        ("a.b: [{unit: s, max: 1, because: r, when: {kinds: hardware}}]\n", "kinds: 'hardware' is a str"),
        ("a.b: [{unit: s, max: 1, because: r}]\na.b: []\n", "written twice"),
        ("a.b: [{agree: everyone, because: r}]\n", "'everyone' is not one of"),
        ("a.b: [5]\n", "a.b"),
        ("5: [{unit: s, max: 1, because: r}]\n", "5"),
    ],
)
def test_a_file_with_a_typo_is_not_a_file_without_limits(tmp_path: Path, text: str, says: str) -> None:
    with pytest.raises(Refused, match=says):
        loaded(tmp_path, text)


def merged(*site: tuple[str, dict[str, Any]]) -> list[Limit]:
    return merge(OURS, site)


def theirs(*site: tuple[str, dict[str, Any]]) -> list[Limit]:
    found = merged(*site)
    assert found[: len(OURS)] == OURS
    return found[len(OURS) :]


def test_no_site_limits_leave_ours_alone() -> None:
    assert merged() == OURS
    assert merged((SITE, {})) == OURS


def test_a_contract_number_goes_over_ours_and_may_reject() -> None:
    site = {"a.wrong": {"max": 3, "because": "the contract"}}
    [one] = theirs((SITE, site))
    assert one == Limit("a.wrong", "count", "the contract", max=3.0, source="site")
    faster = {"a.speed": {"min": 11, "because": "the contract"}}
    hardware = Limit(
        "a.speed", "GB/s", "the contract", min=11.0, warn_below=12.0, source="site", when=When(kinds=("hardware",))
    )
    with pytest.raises(Refused, match="needs its unit"):  # ours for the rehearsal has none to give
        merged((SITE, faster))
    [_, first] = merge(OURS[:1], [(SITE, faster)])
    assert first == hardware
    assert first.can_reject


def test_a_site_may_say_itself_that_a_number_only_warns() -> None:
    [_, one] = merge(OURS[2:3], [(SITE, {"a.wrong": {"max": 3, "because": "r", "confidence": "low"}})])
    assert not one.can_reject


def test_a_limit_with_its_unit_stands_alone() -> None:
    site = {"a.speed": {"min": 20, "unit": "GB/s", "because": "the contract"}}
    assert theirs((SITE, site)) == [Limit("a.speed", "GB/s", "the contract", min=20.0, source="site")]


def test_a_site_cannot_call_its_number_ours() -> None:
    site = {"a.new": {"min": 1, "unit": "s", "because": "r", "source": "limits.yml"}}
    assert merge([], [(SITE, site)])[0].source == "site"
    site["a.new"]["source"] = "contract"
    assert merge([], [(SITE, site)])[0].source == "contract"


def test_limits_of_several_variables_come_together() -> None:
    found = merge(
        OURS[2:3], [("gpuburn_limits", {"a.wrong": {"max": 5, "because": "r"}}), (SITE, {"a.wrong": {"warn_above": 2}})]
    )
    assert found[1:] == [Limit("a.wrong", "count", "r", max=5.0, warn_above=2.0, source="site")]


def test_the_same_field_set_by_two_variables_is_refused_naming_both() -> None:
    site = {"a.wrong": {"max": 1, "because": "r"}}
    with pytest.raises(Refused, match=r"gpuburn_limits_b: a\.wrong\.max is already set by gpuburn_limits_a"):
        merged(("gpuburn_limits_a", site), ("gpuburn_limits_b", site))


@pytest.mark.parametrize(
    ("entry", "says"),
    [
        ({"max": 1}, "needs a reason"),
        ({"max": 1, "because": "  "}, "needs a reason"),
        ({"max": 1, "because": None}, "because"),
        ({"maxx": 1, "because": "r"}, "unknown 'maxx'; did you mean 'max'"),
        ({"max": "1", "because": "r"}, "max: '1' is a str"),
        ({"equals": "1", "because": "r"}, "one of min/max, of"),
        (5, "wanted is a mapping"),
        (None, "wanted is a mapping"),
        ([], "wanted is a mapping"),
    ],
)
def test_a_site_limit_that_is_not_one_is_refused_naming_the_variable(entry: Any, says: str) -> None:
    with pytest.raises(Refused, match=f"^{SITE}: a.wrong.*{says}"):
        merged((SITE, {"a.wrong": entry}))


FIELDS = st.dictionaries(st.sampled_from(["min", "max", "warn_below", "warn_above"]), st.integers(0, 9), max_size=4)


@given(FIELDS, FIELDS)
def test_variables_that_share_no_field_merge_in_any_order(one: dict[str, int], two: dict[str, int]) -> None:
    two = {key: value for key, value in two.items() if key not in one}
    pairs = [("gpuburn_limits_a", {"a.wrong": {**one, "because": "r"}}), ("gpuburn_limits_b", {"a.wrong": two})]

    def outcome(site: list[tuple[str, dict[str, Any]]]) -> Any:
        try:
            return merge(OURS, site)
        except Refused:
            return None

    assert outcome(pairs) == outcome(pairs[::-1])


@pytest.mark.parametrize(
    ("now", "before", "tight"),
    [
        ({"min": 5.0}, {"min": 5.0, "warn_below": 6.0}, False),
        ({"min": 6.0}, {"min": 5.0, "warn_below": 6.0}, True),
        ({"min": 5.0, "warn_below": 7.0}, {"min": 5.0, "warn_below": 6.0}, True),
        ({"min": 5.0, "warn_below": 5.5}, {"min": 5.0, "warn_below": 6.0}, False),
        ({"max": 5.0}, {"max": 5.0, "warn_above": 4.0}, False),
        ({"max": 4.0}, {"max": 5.0, "warn_above": 4.0}, True),
        ({"max": 5.0, "warn_above": 3.0}, {"max": 5.0, "warn_above": 4.0}, True),
    ],
)
def test_a_limit_that_warns_later_is_less_tight(now: dict[str, float], before: dict[str, float], tight: bool) -> None:
    one, other = (Limit("p.x", "GB/s", "r", **bounds) for bounds in (now, before))
    assert as_tight(one, other) is tight
