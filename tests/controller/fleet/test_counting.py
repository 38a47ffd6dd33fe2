"""What counts prove, when the breaker trips, who is the odd one out and who is there twice."""

from __future__ import annotations

import pandas as pd
import pytest
from hypothesis import given, strategies as st
from scipy import stats

from gpuburn.controller.fleet import agreement, breaker
from gpuburn.controller.fleet.proof import proof


@pytest.mark.parametrize("n, words", [(8, "31.2 %"), (32, "8.9 %"), (100, "3.0 %"), (1000, "0.3 %")])
def test_no_failure_still_allows_defects(n, words):
    assert proof(0, n).words == f"0 of {n} failed still allows {words} defects (95 % confidence)"


@given(st.integers(1, 500), st.data())
def test_bounds_are_exact_and_hold_the_observed_rate(n, data):
    failed = data.draw(st.integers(0, n))
    found = proof(failed, n)
    assert 0 <= found.low <= failed / n <= found.high <= 1
    if failed == 0:
        assert stats.binom.cdf(0, n, found.high) == pytest.approx(0.05)
    elif failed < n:
        assert stats.binom.cdf(failed, n, found.high) == pytest.approx(0.025, rel=1e-6)


@pytest.mark.parametrize("failed, of", [(-1, 3), (4, 3), (0, 0)])
def test_no_count_is_refused(failed, of):
    with pytest.raises(ValueError):
        proof(failed, of)


def failing(hosts, code="below", about="gemm.tflops", step="gemm"):
    return pd.DataFrame({"host": [f"h{i}" for i in range(hosts)], "code": code, "about": about, "step": step})


@pytest.mark.parametrize("hosts, judged, trips", [(4, 8, True), (3, 8, False), (7, 7, False), (0, 20, False)])
def test_the_breaker_trips_at_a_share_of_at_least_eight(hosts, judged, trips):
    found = breaker.tripped(failing(hosts), judged)
    assert bool(found) == trips
    assert all("suspect the test, the image or the fabric" in one.why and len(one.hosts) == hosts for one in found)


def test_only_the_same_check_counts_and_a_host_counts_once():
    mixed = pd.concat([failing(3), failing(3, about="copy.gbps"), failing(3)])
    assert breaker.tripped(mixed, 8) == []


def test_more_failing_than_judged_is_refused():
    with pytest.raises(ValueError, match="only 2 were judged"):
        breaker.tripped(failing(3), 2)


def facts(**said):
    return pd.DataFrame({"host": said.keys(), "cohort": "H200", "about": "driver", "step": "", "point": "",
                         "value": said.values()})  # fmt: skip


def test_the_odd_one_out_is_named_by_strict_majority():
    (found,) = agreement.odd(facts(a="580.95", b="580.95", c="570.10"))
    assert (found.host, found.value, found.majority, found.stance) == ("c", "570.10", "580.95", "minority")
    assert "2 of 3 in H200 say '580.95'" in found.why


def test_without_a_majority_all_are_undecided():
    found = agreement.odd(facts(a="1", b="2"))
    assert [(one.host, one.stance, one.majority) for one in found] == [("a", "undecided", ""), ("b", "undecided", "")]


def test_agreement_names_nobody_and_cohorts_are_apart():
    apart = facts(a="1", b="2").assign(cohort=["x", "y"])
    assert agreement.odd(facts(a="1", b="1")) == [] and agreement.odd(apart) == []


def test_an_identity_seen_twice_names_every_claim():
    rows = [("a", "gpu0", "serial", "1655"), ("b", "gpu3", "serial", "1655"), ("b", "gpu4", "serial", "1656"),
            ("a", "gpu0", "uuid", "1656"), ("a", "gpu1", "serial", ""), ("b", "gpu1", "serial", "")]  # fmt: skip
    (found,) = agreement.duplicates(pd.DataFrame(rows, columns=["host", "subject", "kind", "value"]))
    assert found.claims == (("a", "gpu0"), ("b", "gpu3")) and found.why == "serial 1655 is claimed by a gpu0, b gpu3"
