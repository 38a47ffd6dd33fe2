"""One limit against one step: shares of other measurements, repeatability, the guard band."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from hypothesis import given, strategies as st

from gpuburn.comparison import Asked, compare
from gpuburn.finding import Finding
from gpuburn.limit import Limit, Reference, When
from gpuburn.measurement import NOWHERE, Fact, Measurement, Metric, Observed
from gpuburn.outcome import Outcome, Status
from gpuburn.plan import Step

STEP = Step("triad", "p", "device", 1, ("training",), "r", {}, 1.0, 2.0)
WHEN = When(steps=("triad",), profiles=("training",))
SPEED = Metric("GB/s", better="higher")


def measured(value: float, name: str = "p.speed", unit: str = "GB/s", cv: float | None = 0.001, subject: str = "gpu0"
             ) -> Measurement:  # fmt: skip
    return Measurement(name, unit, subject, NOWHERE, value, value, value, 9, cv)


def judged(limit: Limit, *found: Measurement, rule: str = "simple", metric: Metric = SPEED) -> Finding:
    outcome = Outcome("triad", "p", 1, Status.COMPLETED, "", 0.0, 1.0, 1, [], [*found], [])
    [one] = compare(Asked(limit, STEP, metric, [("gpu0", NOWHERE)], rule), outcome)
    return one


def limit(**fields: Any) -> Limit:
    return Limit("p.speed", "GB/s", "r", **{"when": WHEN, **fields})


SHARE = limit(of="telemetry.peak", fail_below=0.7, warn_below=0.76)
PEAK = measured(1000.0, "telemetry.peak")


@pytest.mark.parametrize(
    ("value", "code", "marginal"),
    [(800.0, "limit.met", False), (760.0, "limit.met", False), (759.0, "limit.met", True),
     (700.0, "limit.met", True), (699.0, "limit.failed", False)],
)  # fmt: skip
def test_a_share_of_another_measurement_of_the_same_device(value: float, code: str, marginal: bool) -> None:
    one = judged(SHARE, measured(value), PEAK)
    assert (one.code, one.marginal) == (code, marginal)
    assert "0.7 of telemetry.peak 1000 GB/s" in one.why


@pytest.mark.parametrize(
    "peak",
    [[], [measured(1000.0, "telemetry.peak", subject="gpu1")], [measured(1000.0, "telemetry.peak", "MHz")],
     [measured(0.0, "telemetry.peak")], [measured(-5.0, "telemetry.peak")]],
)  # fmt: skip
def test_without_its_reference_a_share_proves_nothing(peak: list[Measurement]) -> None:
    one = judged(SHARE, measured(999.0), *peak)
    assert (one.code, str(one.verdict)) == ("limit.no_reference", "incomplete")


def test_a_share_that_only_warns_rejects_nobody() -> None:
    warns = limit(of="telemetry.peak", warn_below=0.9)
    assert not warns.can_reject
    one = judged(warns, measured(10.0), PEAK)
    assert (one.code, one.marginal, one.severity) == ("limit.met", True, "minor")


REFERRED = limit(of="sku.x", fail_below=0.85).resolved(Reference("x", 1000.0, "a lab"))


@pytest.mark.parametrize(
    ("value", "cv", "code"),
    [(900.0, 0.049, "limit.met"), (900.0, 0.051, "limit.unrepeatable"), (840.0, 0.051, "limit.unrepeatable"),
     (900.0, None, "limit.unrepeatable"), (500.0, 0.051, "limit.failed"), (840.0, 0.049, "limit.failed")],
)  # fmt: skip
def test_no_limit_is_tighter_than_three_times_the_spread(value: float, cv: float | None, code: str) -> None:
    assert judged(REFERRED, measured(value, cv=cv)).code == code


def test_a_number_without_a_reference_has_no_tolerance_to_compare() -> None:
    assert limit(min=850.0).tolerance is None
    assert judged(limit(min=850.0), measured(900.0, cv=None)).code == "limit.met"


@pytest.mark.parametrize(
    ("value", "cv", "code"),
    [(900.0, 0.05, "limit.unrepeatable"), (900.0, 0.03, "limit.met"), (800.0, 0.05, "limit.unrepeatable"),
     (800.0, 0.03, "limit.failed"), (851.0, 0.0, "limit.met"), (400.0, 0.3, "limit.failed")],
)  # fmt: skip
def test_a_number_of_ones_own_decides_where_the_median_is_known_well_enough(value: float, cv: float, code: str
                                                                            ) -> None:  # fmt: skip
    """Nine readings that vary by 5 %: their median is known to 3 x 1.2533 x 5 % / 3 = 6.3 %."""
    assert judged(limit(min=850.0), measured(value, cv=cv)).code == code


@pytest.mark.parametrize(("source", "value", "code", "marginal"), [
    ("site", 100.0, "limit.met", False), ("site", 1000.0, "limit.slack", True), ("contract", 1e9, "limit.slack", True),
    ("limits.yml", 1e9, "limit.met", False),
])  # fmt: skip
def test_a_sites_number_that_can_hardly_fail_is_no_proof(source: Any, value: float, code: str, marginal: bool) -> None:
    one = judged(limit(min=99.0, source=source), measured(value))
    assert (one.code, one.marginal) == (code, marginal)


def test_a_sites_floor_of_nought_and_a_ceiling_without_end_are_no_proof() -> None:
    lower = Metric("GB/s", better="lower")
    assert judged(limit(min=0.0, source="site"), measured(5.0)).code == "limit.slack"
    assert judged(limit(max=9.0, source="site"), measured(5.0)).code == "limit.slack"  # more is better: it wants a min
    assert judged(limit(max=1e12, source="site"), measured(5.0), metric=lower).code == "limit.slack"
    assert judged(limit(max=9.0, source="site"), measured(5.0), metric=lower).code == "limit.met"


@pytest.mark.parametrize(("source", "code"), [
    ("site", "limit.unrepeatable"), ("contract", "limit.unrepeatable"), ("limits.yml", "limit.met"),
])  # fmt: skip
def test_one_reading_proves_nothing_by_a_number_of_the_sites_own(source: Any, code: str) -> None:
    """Its spread is not known; a count of errors, which is no speed, has none."""
    once = dataclasses.replace(measured(900.0, cv=None), count=1)
    assert judged(limit(min=850.0, source=source), once).code == code
    assert judged(limit(min=850.0, source=source), once, metric=Metric("GB/s")).code == "limit.met"


def test_the_guard_band_of_one_reading_is_not_known() -> None:
    assert judged(limit(min=1000.0), measured(2000.0, cv=None), rule="guard_band").code == "limit.within_guard"
    count = Metric("GB/s", "sum")
    assert judged(limit(max=0.0), measured(0.0, cv=None), rule="guard_band", metric=count).code == "limit.met"


def test_what_is_no_median_has_no_repeats() -> None:
    tail = Metric("GB/s", "p99")
    assert judged(REFERRED, measured(900.0, cv=None), metric=tail).code == "limit.met"


@pytest.mark.parametrize(
    ("value", "code"),
    [(1030.0, "limit.met"), (1010.0, "limit.within_guard"), (990.0, "limit.within_guard"), (970.0, "limit.failed")],
)
def test_the_guard_band_decides_nothing_within_twice_the_spread(value: float, code: str) -> None:
    assert judged(limit(min=1000.0), measured(value, cv=0.01), rule="guard_band").code == code
    assert judged(limit(max=1000.0), measured(2000.0 - value, cv=0.01), rule="guard_band").code in (
        code, "limit.within_guard",
    )  # fmt: skip


VALUES = st.floats(1.0, 2000.0)


@given(VALUES, VALUES, VALUES, st.floats(0.0, 0.2) | st.none(), st.sampled_from(["simple", "guard_band"]))
def test_tightening_never_turns_a_fail_into_a_pass(value: float, a: float, b: float, cv: float | None, rule: str
                                                   ) -> None:  # fmt: skip
    loose, tight = sorted((a, b))
    before = judged(limit(min=loose), measured(value, cv=cv), rule=rule)
    after = judged(limit(min=tight), measured(value, cv=cv), rule=rule)
    if str(before.verdict) == "fail":
        assert str(after.verdict) == "fail"
    if str(after.verdict) == "pass":
        assert str(before.verdict) == "pass"


def test_what_the_site_demands_less_of_is_told_once_per_step() -> None:
    one = dataclasses.replace(limit(min=1.0), loosened="5 <= x GB/s", source="site")
    outcome = Outcome("triad", "p", 1, Status.COMPLETED, "", 0.0, 1.0, 1, [], [measured(2.0)], [])
    told = list(compare(Asked(one, STEP, SPEED, [("gpu0", NOWHERE), ("gpu1", NOWHERE)]), outcome))
    assert [f.code for f in told] == ["limit.loosened", "limit.met", "limit.unmeasured"]
    assert "gpuburn itself: 5 <= x GB/s" in told[0].why


@pytest.mark.parametrize(
    ("said", "code"),
    [("h200-sxm", "fact.met"), ("h100-pcie", "fact.failed"), ("unknown: 0x999910de NVIDIA H200 X", "fact.untold"),
     ("none: Not Supported", "fact.untold")],
)  # fmt: skip
def test_another_model_fails_and_an_unknown_one_is_not_proven(said: str, code: str) -> None:
    one = Limit("p.sku", because="ordered", equals="h200-sxm", when=WHEN)
    facts = [Fact("p.sku", said, subject="gpu0")]
    outcome = Outcome("triad", "p", 1, Status.COMPLETED, "", 0.0, 1.0, 1, [], [], facts)
    assert [f.code for f in compare(Asked(one, STEP, Observed(), [("gpu0", NOWHERE)]), outcome)] == [code]


def test_a_demand_on_our_own_watching_proves_nothing_where_it_is_missed_and_rejects_nobody() -> None:
    watching = limit(max=15.0, missed="incomplete")
    assert not watching.can_reject
    assert (judged(watching, measured(20.0)).code, str(judged(watching, measured(20.0)).verdict)) == (
        "limit.unproven", "incomplete",
    )  # fmt: skip
    assert judged(watching, measured(2.0)).code == "limit.met"


LACKED = Metric("GB/s", absent="boards without it")
SAID = "p.unanswered"


def without(why: str, metric: Metric = LACKED, where: str = "bare_metal", of: Limit | None = None, *found: Measurement,
            reference: Metric | None = None, subject: str = "gpu0") -> Finding:  # fmt: skip
    """A limit on a number that is not there, where the host says why."""
    facts = [Fact(SAID, why, subject=subject)]
    outcome = Outcome("triad", "p", 1, Status.COMPLETED, "", 0.0, 1.0, 1, [], [*found], facts)
    asked = Asked(of or limit(max=1), STEP, metric, [("gpu0", NOWHERE)], "simple", where, (SAID,), reference)
    [one] = compare(asked, outcome)
    return one


@pytest.mark.parametrize(("why", "where", "code"), [
    ("speed: Not Supported", "bare_metal", "not_supported"),
    ("other: Not Supported", "bare_metal", "limit.unmeasured"),
    ("nothing", "bare_metal", "limit.unmeasured"),
    ("speed: Insufficient Permissions", "bare_metal", "limit.unmeasured"),
    ("speed: Insufficient Permissions", "container", "not_observable"),
    ("speed: Function Not Found", "vm", "not_observable"),
    ("speed: GPU is lost", "vm", "limit.unmeasured"),
    ("speed: Unknown Error", "container", "limit.unmeasured"),
])  # fmt: skip
def test_an_absence_is_excused_by_the_drivers_own_word_and_by_nothing_else(why: str, where: str, code: str) -> None:
    one = without(why, where=where)
    assert one.code == code
    assert one.verdict == ("incomplete" if code == "limit.unmeasured" else "not_applicable")


def test_no_excuse_for_what_every_device_has_what_the_sku_promises_or_another_device_said() -> None:
    assert without("speed: Not Supported", metric=SPEED).code == "limit.unmeasured"
    promised = limit(min=1.0, reference=Reference("sku x", 1.0, "s"))
    assert without("speed: Not Supported", of=promised).code == "limit.unmeasured"
    assert without("speed: Not Supported", subject="gpu1").code == "limit.unmeasured"


@pytest.mark.parametrize(("why", "code"), [("peak: Not Supported", "not_supported"), ("nothing", "limit.no_reference")])
def test_a_share_of_what_the_board_does_not_tell_is_not_judged(why: str, code: str) -> None:
    share = limit(of="p.peak", fail_below=0.7)
    assert without(why, SPEED, "bare_metal", share, measured(900.0), reference=LACKED).code == code
    assert without(why, SPEED, "bare_metal", share, measured(900.0), reference=SPEED).code == "limit.no_reference"


@pytest.mark.parametrize(("said", "where", "code"), [
    ("none: Not Supported", "bare_metal", "not_supported"), ("none: Unknown Error", "bare_metal", "fact.untold"),
    ("unknown: Not Supported", "bare_metal", "fact.untold"), ("none: Insufficient Permissions", "vm", "not_observable"),
    ("on", "vm", "fact.failed"), ("off", "vm", "fact.met"),
])  # fmt: skip
def test_a_mode_that_a_board_does_not_have_is_no_wrong_mode(said: str, where: str, code: str) -> None:
    demand = Limit("p.mig", because="r", equals="off", when=WHEN)
    outcome = Outcome("triad", "p", 1, Status.COMPLETED, "", 0.0, 1.0, 1, [], [], [Fact("p.mig", said, subject="gpu0")])
    asked = Asked(demand, STEP, Observed("m", absent="boards without"), [("gpu0", NOWHERE)], "simple", where)
    assert [one.code for one in compare(asked, outcome)] == [code]
    bare = dataclasses.replace(asked, promise=Observed("m"))
    assert [one.code for one in compare(bare, outcome)] == [code if code.startswith("fact") else "fact.untold"]
