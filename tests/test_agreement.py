"""Who is wrong when some must say the same."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, strategies as st

from gpuburn.agreement import disagreeing

SAID = st.dictionaries(st.text("wxyz", min_size=1, max_size=3), st.sampled_from("abc"), max_size=9)


@pytest.mark.parametrize(
    ("said", "found"),
    [
        ("", {}),
        ("a", {}),
        ("aaaa", {}),
        ("ab", {0: "undecided", 1: "undecided"}),
        ("aab", {2: "minority"}),
        ("abc", {0: "undecided", 1: "undecided", 2: "undecided"}),
        ("aabb", {0: "undecided", 1: "undecided", 2: "undecided", 3: "undecided"}),
        ("aabc", {0: "undecided", 1: "undecided", 2: "undecided", 3: "undecided"}),
        ("aaabc", {3: "minority", 4: "minority"}),
        ("aaaaaaab", {7: "minority"}),
    ],
)
def test_more_than_half_must_agree_before_another_is_called_wrong(said: str, found: dict[int, str]) -> None:
    assert disagreeing({str(i): one for i, one in enumerate(said)}) == {str(i): one for i, one in found.items()}


@given(SAID)
def test_nobody_is_called_wrong_who_says_what_most_say(said: dict[str, str]) -> None:
    found = disagreeing(said)
    counts = Counter(said.values())
    for subject, why in found.items():
        assert why == ("minority" if 2 * max(counts.values()) > len(said) else "undecided")
        if why == "minority":
            assert 2 * counts[said[subject]] < len(said)
    assert bool(found) == (len(counts) > 1)


@given(SAID)
def test_the_order_in_which_they_speak_does_not_matter(said: dict[str, str]) -> None:
    assert disagreeing(dict(reversed(said.items()))) == disagreeing(said)
