"""A cohort, a rack, a power domain and a slot that are off are each named for what they are, and explain findings."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from controller.fleet.tables import healthy
from gpuburn.controller.fleet import peers, position

REFERENCES = pd.DataFrame({"about": [f"probe.m{i:02d}" for i in range(4)], "reference": 700.0})


def named(table):
    return {(one.kind, one.name, one.about) for one in position.places(table)}


def test_nothing_is_off_in_a_healthy_fleet():
    table = healthy(128, 4)
    assert position.places(table) == [] and position.majority(table, REFERENCES) == []


@pytest.mark.parametrize("kind, at", [("rack", "r001"), ("power_domain", "p001"), ("slot", 3)])
def test_a_place_is_named_for_what_it_is(kind, at):
    table = healthy(128, 4)
    bad = (table["about"] == "probe.m02") & (table[kind] == at)
    table["value"] *= np.where(bad, 0.96, 1)
    assert named(table) == {(kind, str(at), "probe.m02")}
    explained = position.explain(peers.compare(table).findings, position.places(table))
    assert explained and all(one.explained.endswith(f"{at} is off") for one in explained)


def test_a_bad_majority_shows_only_against_a_reference():
    table = healthy(128, 4)
    bad = (table["about"] == "probe.m01") & (np.random.default_rng(2).random(len(table)) < 0.6)
    table["value"] *= np.where(bad, 0.96, 1)
    (found,) = position.majority(table, REFERENCES)
    assert (found.kind, found.about, found.n) == ("majority", "probe.m01", 128) and found.deviation > 0.02
    assert "peers cannot show it" in found.why
    assert position.majority(table, REFERENCES[:1]) == []


def test_findings_outside_the_place_stay_unexplained():
    table = healthy(128, 4)
    one = (table["about"] == "probe.m02") & (table["host"] == "h009") & (table["slot"] == 1)
    table["value"] *= np.where(one, 0.9, 1)
    (found,) = position.explain(peers.compare(table).findings, position.places(table))
    assert found.host == "h009" and found.explained == ""


def test_order_of_rows_and_unknown_places_change_nothing():
    table = healthy(64, 2)
    table["value"] *= np.where(table["slot"] == 5, 0.95, 1)
    assert named(table) == named(table.sample(frac=1, random_state=3))
    nowhere = table.assign(rack="", power_domain="", slot=-1)
    assert position.places(nowhere) == []


def test_median_polish_leaves_what_neither_host_nor_slot_explains():
    grid = pd.DataFrame(700.0 * np.outer([1, 1, 0.9, 1], [1, 0.99, 1, 1]))
    grid.iloc[0, 3] = 630.0
    left = position.residuals(grid)
    assert left.iloc[0, 3] == pytest.approx(-0.1, abs=0.01) and np.sort(np.abs(left.to_numpy().ravel()))[-2] < 0.01
