"""The storage that a site names: which steps go there, and how much they may write."""

from __future__ import annotations

from dataclasses import replace

import pytest
import runs

from gpuburn import planning
from gpuburn.probe import discover
from gpuburn.storage import GIB, PATIENCE, Storage
from gpuburn.strict import Refused

STEPS = {"checkpoint", "distributed_checkpoint", "dataset", "resume"}


def plan(path="/mnt/data", **changed):
    return planning.make(replace(runs.hardware(level="standard", count=8, sku="h200-sxm"),
                                 storage=Storage(path, **changed)), "", 0.0)  # fmt: skip


def by_name(made):
    return {step.name: step for step in made.steps}


def written(step):
    return discover()[step.probe].stores(step.params, 8)


def test_the_steps_that_test_storage_go_to_the_path_and_no_other():
    made = plan(gib=1e6)
    assert {step.name for step in made.steps if step.params.get("directory") == "/mnt/data"} == STEPS
    assert {step.params["writers"] for name, step in by_name(made).items() if name in STEPS} == {4}
    assert "chassis" in by_name(made) and by_name(made)["chassis"].params["directory"] == ""


def test_a_step_may_wait_for_its_turn_beyond_its_timeout():
    with_path, without = by_name(plan(gib=1e6)), by_name(plan(path=""))
    waits = {name: with_path[name].timeout - without[name].timeout for name in with_path}
    assert {name for name, more in waits.items() if more} == STEPS and waits["resume"] == PATIENCE


def test_without_a_path_nothing_changes():
    steps = by_name(plan(path="", gib=1.0))
    assert all(steps[name].params["directory"] == "" for name in STEPS)
    assert steps["checkpoint"].params["mib"] == 16384 and not plan(path="", gib=1.0).notes


def test_a_step_writes_no_more_than_the_site_allows_and_the_plan_says_so():
    made = plan(gib=256.0)
    for name in STEPS:
        assert written(by_name(made)[name]) <= 256 * GIB
    step = by_name(made)["checkpoint"]
    assert step.params["mib"] == 256 * 1024 // (8 * 3)
    assert written(replace(step, params={**step.params, "mib": step.params["mib"] + 1})) > 256 * GIB
    assert made.notes == ["step checkpoint: mib 10922 in place of 16384, for gpuburn_storage_gib is 256"]


def test_what_cannot_do_with_less_is_refused_with_what_it_writes():
    with pytest.raises(Refused, match=r"gpuburn_storage_gib is 20; step resume writes .* and cannot do with less"):
        plan(gib=20.0)
    with pytest.raises(Refused, match=r"gpuburn_storage_gib is 1; step dataset writes .* wanted is more"):
        planning.make(replace(runs.hardware(level="quick", count=8, sku="h200-sxm"),
                              storage=Storage("/x", gib=1.0), only=("dataset",)), "", 0.0)  # fmt: skip


def test_what_resume_writes_is_counted_from_the_models_own_parameters():
    from gpuburn.agent.training.model import Shape

    probe = discover()["resume"]
    params = probe.settled({}, "test")
    shape = Shape(*(params[name] for name in ("layers", "width", "heads", "kv_heads", "ffn", "vocab", "sequence")))
    saves = params["steps"] // params["every"] + len(params["variants"])
    assert probe.stores(params, 8) == 12 * shape.parameters * 2 * saves


@pytest.mark.parametrize("name", sorted(STEPS))
def test_every_probe_of_storage_has_what_the_plan_sets(name):
    probe = discover()[name]
    assert {"directory", "writers"} <= probe.parameters.keys()
    assert {"storage", "others", "waited"} <= probe.promises.keys()
    assert {one.name for one in discover().values() if one.stores} == STEPS
