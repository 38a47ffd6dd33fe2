"""A power domain is stepped only where its budget holds all that the run's hosts can draw on it together."""

from __future__ import annotations

from typing import Any

import pytest

from gpuburn import planning
from gpuburn.controller import preflight
from gpuburn.strict import Refused

REAL = {
    "gpuburn_profiles": ["training"], "gpuburn_sku": "h200-sxm", "gpuburn_gpu_count": 8,
    "gpuburn_power_domain": "busway-1", "gpuburn_power_budget_kw": 12,
}  # fmt: skip


def power(**hosts: dict[str, Any]) -> dict[str, str]:
    """Why each host is not stepped; "" where it is. hosts: what differs from REAL."""
    inventory = {name: {**REAL, **changed} for name, changed in hosts.items()}
    return {one.name: one.power for one in preflight.expect(inventory)}


def test_two_hosts_that_fit_into_the_budget_are_stepped():
    assert power(a={}, b={}) == {"a": "", "b": ""}  # 2 x 8 x 700 W


def test_three_hosts_that_do_not_fit_are_not_and_each_says_why():
    why = "the power domain may draw 12 kW, and the GPUs of this run on it up to 16.8 kW"
    assert power(a={}, b={}, c={}) == {"a": why, "b": why, "c": why}


def test_every_domain_is_counted_by_itself_and_a_cpu_draws_nothing_of_it():
    rehearsal = {"gpuburn_kind": "rehearsal"}
    assert set(power(a={}, b={}, c={"gpuburn_power_domain": "busway-2"}, d=rehearsal).values()) == {""}


def test_without_a_budget_nothing_is_stepped():
    bare = {"gpuburn_power_budget_kw": 0, "gpuburn_power_domain": ""}
    assert power(a=bare, b={})["a"] == planning.NO_BUDGET
    assert power(a={"gpuburn_power_budget_kw": 0})["a"] == planning.NO_BUDGET


def test_two_budgets_for_one_domain_are_refused():
    with pytest.raises(Refused, match=r"host a: gpuburn_power_budget_kw is 12 and on b 20; both hang on 'busway-1'"):
        power(a={}, b={"gpuburn_power_budget_kw": 20})


def test_the_plan_has_the_steps_that_the_budget_allows_and_may_be_asked_for_them_alone():
    for budget, planned in ((12, True), (1, False)):
        variables = {**REAL, "gpuburn_power_budget_kw": budget, "gpuburn_level": "quick"}
        [host] = preflight.expect({"a": variables})
        made = planning.make(preflight.request(host, "r", None), "", 0.0)
        assert (made.step("power_steps") is not None) == planned
    [host] = preflight.expect({"a": {**REAL, "gpuburn_level": "quick", "gpuburn_steps": ["power_steps"]}})
    assert [step.name for step in planning.make(preflight.request(host, "r", None), "", 0.0).steps] == ["power_steps"]
