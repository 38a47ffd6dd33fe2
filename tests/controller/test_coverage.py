"""What a host's steps came to: minutes that were had, work, heat, and comparisons; nothing of what did not run."""

from __future__ import annotations

import dataclasses

import pytest
import runs

from gpuburn.controller import coverage
from gpuburn.controller.coverage import Coverage
from gpuburn.measurement import NOWHERE, Measurement, Work
from gpuburn.outcome import Outcome, Status
from gpuburn.plan import Plan
from gpuburn.probe import discover


def told(name: str, subject: str, low: float, high: float, unit: str = "1") -> Measurement:
    return Measurement(name, unit, subject, NOWHERE, high, low, high, 2)


@pytest.fixture
def plan() -> Plan:
    return runs.plan(runs.hardware(count=2))


def gemm(plan: Plan, **changed: object) -> Outcome:
    """Two devices, a thousand products of 8192 each, half of them compared."""
    outcome = runs.outcomes(plan)["gemm"]
    subjects = [dataclasses.replace(one, work=Work(1000, 2**40)) for one in outcome.subjects]
    seen = [
        *(told("gemm.checked", one.subject, 0.5, 0.5) for one in subjects),
        *(told("gemm.wrong", one.subject, 0, 3, "count") for one in subjects),
        told("telemetry.temperature", "gpu0", 41, 71, "C"),
        told("telemetry.temperature", "gpu1", 39, 68, "C"),
    ]
    whole = dataclasses.replace(outcome, subjects=subjects, measurements=seen, seconds=7200.0, params={"size": 8192})
    return dataclasses.replace(whole, **changed)


def test_products_are_told_in_operations_and_how_many_of_them_were_compared(plan):
    [row] = coverage.of(plan, [gemm(plan)]).rows
    assert (row.step, row.turns, row.minutes, row.heat) == ("gemm", 1, 120.0, "39 to 71 C")
    assert row.work == "2,000 iterations; 2 TiB; 2.2e+15 FLOP, 1.1e+15 of them compared bit by bit"
    assert row.found == "6 differing"


def test_full_load_on_end_is_that_of_one_completed_step(plan):
    assert coverage.of(plan, [gemm(plan)]).words == "120.0 min, 120.0 of them full load on end (gemm)"
    cut = coverage.of(plan, [gemm(plan, status=Status.TIMED_OUT)])
    assert cut.words == "120.0 min" and cut.longest == ""


def test_what_did_not_run_is_no_row_and_what_was_not_told_is_empty(plan):
    assert coverage.of(plan, []) == Coverage() and Coverage().words == "nothing ran"
    [row] = coverage.of(plan, [gemm(plan, measurements=[], subjects=[])]).rows
    assert (row.heat, row.found) == ("", "") and "compared" in row.work


def test_turns_are_one_row(plan):
    step = plan.step("gemm")
    again = dataclasses.replace(step, name="gemm-r2")
    both = dataclasses.replace(plan, steps=[step, again])
    [row] = coverage.of(both, [gemm(plan), gemm(plan, step="gemm-r2", seconds=60.0)]).rows
    assert (row.turns, row.minutes, row.found) == (2, 121.0, "12 differing")


def test_every_comparison_of_a_probe_is_one_that_it_promises():
    probes = discover()
    assert all(name in probes[probe].metrics for probe, names in coverage.COMPARED.items() for name in names)
    assert set(coverage.FULL) <= set(probes)
