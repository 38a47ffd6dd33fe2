"""Before the first watt: all mistakes of an inventory in one message, each host judged by itself, plans made once."""

from __future__ import annotations

import dataclasses
import json
import re
from pathlib import Path
from typing import Any

import pytest
import runs

from gpuburn import planning, strict
from gpuburn.controller.preflight import Host, Look, describe, expect, plan, refusal
from gpuburn.controller.run import Run
from gpuburn.plan import Plan
from gpuburn.strict import Refused

TRIAL = {
    "gpuburn_profiles": ["training"],
    "gpuburn_kind": "rehearsal",
    "gpuburn_level": "smoke",
    "gpuburn_become": False,
}
REAL = {"gpuburn_profiles": ["training"], "gpuburn_sku": "h200-sxm", "gpuburn_gpu_count": 8}
SEEN: dict[str, Any] = {
    "python": "3.12.3", "os": "Ubuntu 24.04", "architecture": "x86_64", "free_disk_gib": 100.0, "memory_gib": 64.0,
    "time": 1000.0, "uid": 0, "systemd": True, "gpus": ["0000:17:00.0"], "busy": [], "unfinished": [],
}  # fmt: skip


def hosts(**inventory: dict[str, Any]) -> list[Host]:
    return expect(inventory, "hosts.yml")


def wrong(inventory: dict[str, Any]) -> str:
    with pytest.raises(Refused) as refused:
        expect(inventory, "hosts.yml")
    return str(refused.value)


def planned(run: Run, looked: list[Host], looks: dict[str, Any], now: float, write: bool = True) -> dict[str, Any]:
    """looks: {host: what it printed, or an object that it printed as JSON, or None}."""
    printed = {name: one if one is None or isinstance(one, str) else json.dumps(one) for name, one in looks.items()}
    return plan(run, looked, printed, now, write, "hosts.yml")


def test_a_trial_and_a_real_host_are_expected_as_the_inventory_says() -> None:
    two, one = hosts(node2=TRIAL, node1={**REAL, "gpuburn_rack": "a1", "gpuburn_unit": 7})[::-1]
    assert (one.name, two.name) == ("node1", "node2")
    assert dataclasses.astuple(one.expected())[:8] == (
        "node1", "hardware", "standard", "bare_metal", ["training"], "", "h200-sxm", 8
    )  # fmt: skip
    assert (one.expected().rack, one.expected().unit) == ("a1", "7")
    assert two.expected().count == 3


def test_everything_that_is_wrong_is_said_at_once_one_line_a_host() -> None:
    said = wrong(
        {"node1": {"gpuburn_profile": []}, "node2": TRIAL, "node3": {**REAL, "gpuburn_sku": "h201"}, "node4": {}}
    )
    lines = said.splitlines()
    assert len(lines) == 3
    assert lines[0].startswith("hosts.yml: host node1: unknown 'gpuburn_profile'; did you mean 'gpuburn_profiles'")
    assert lines[1].startswith("hosts.yml: host node3")
    assert "h201" in lines[1]
    assert lines[2].startswith("hosts.yml: host node4: gpuburn_profiles is not set")


@pytest.mark.parametrize(
    "name", ["../etc", "a/b", "<script>", "node 1", "", ".", "..", "-rf", "x" * 101, "é", "a\n", "a\0"]
)
def test_a_host_name_that_could_be_a_path_or_a_page_is_refused(name: str) -> None:
    said = wrong({name: TRIAL})
    assert "host name" in said
    assert "wanted are letters, digits" in said
    assert len(said.splitlines()) == 1


@pytest.mark.parametrize("name", ["node1", "10.0.0.7", "gpu-a01-u07.site.example", "rack_1", "0"])
def test_a_plain_host_name_is_taken(name: str) -> None:
    assert expect({name: TRIAL})[0].name == name


def test_the_placeholder_says_which_file_to_edit_and_how() -> None:
    said = wrong({"replace-me": {"gpuburn_placeholder": True}})
    assert said.startswith("hosts.yml: host replace-me is a placeholder: edit hosts.yml, put your servers in its place")
    assert "run the same command again" in said


def test_no_host_at_all_is_refused() -> None:
    assert "no host matches; wanted is -l with a group or host" in wrong({})


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"gpuburn_sku": "h201-sxm"}, "unknown 'h201-sxm'; did you mean 'h200-sxm'"),
        ({"gpuburn_sku": ""}, "gpuburn_sku is not set"),
        ({"gpuburn_profiles": ["trainning"]}, "unknown 'trainning'; did you mean 'training'"),
        ({"gpuburn_profiles": []}, "gpuburn_profiles is not set"),
        ({"gpuburn_limits": {"gemm.tflops": {"min": 600}}}, r"gpuburn_limits: gemm\.tflops: a limit needs a reason"),
        ({"gpuburn_limits": {"gemm.tflops": 600}}, r"gpuburn_limits: gemm\.tflops: wanted is a mapping"),
        ({"gpuburn_limits": {"gemm.tflop": {"min": 1, "unit": "TFLOP/s", "because": "r"}}}, "did you mean 'tflops'"),
        ({"gpuburn_limits": {"gemm.tflops": {"min": 1, "unit": "TFLOPS", "because": "r"}}}, "limited in 'TFLOPS'"),
        (
            {f"gpuburn_limits_{one}": {"gemm.wrong": {"max": 1, "because": "r"}} for one in "ab"},
            r"gpuburn_limits_b: gemm\.wrong\.max is already set by gpuburn_limits_a",
        ),
    ],
)
def test_a_mistake_names_file_host_key_and_wish(changed: dict[str, Any], says: str) -> None:
    with pytest.raises(Refused, match=f"^hosts.yml: host node1.*{says}"):
        expect({"node1": {**REAL, **changed}}, "hosts.yml")


def look(**changed: Any) -> Look:
    return Look(**{**SEEN, **changed})


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"python": "3.9.18"}, "python is 3.9.18, wanted is 3.10 or newer"),
        ({"python": "2.7"}, "python is 2.7"),
        ({"python": "three"}, "python is three"),
        ({"python": ""}, "python is "),
        ({"free_disk_gib": 11.9}, "11.9 GiB free"),
        ({"time": 1301.0}, r"its clock is \+301 s off"),
        ({"time": 699.0}, "its clock is -301 s off"),
        ({"busy": ["python (7)"]}, r"in use by python \(7\); hosts in use are refused"),
        ({"unfinished": [runs.RUN, "20250101T000000Z-0000"]}, "run 20250101T000000Z-0000 is not finished"),
        ({"uid": 1000}, "become gave uid 1000, wanted is root"),
    ],
)
def test_a_host_that_must_not_be_touched_says_why(changed: dict[str, Any], says: str) -> None:
    [host] = hosts(node1=REAL)
    assert re.search(says, refusal(host, look(**changed), runs.RUN, 1000.0))


@pytest.mark.parametrize(
    "changed", [{}, {"python": "3.10.0"}, {"free_disk_gib": 12.0}, {"time": 1300.0}, {"unfinished": [runs.RUN]}]
)
def test_a_host_that_is_ready_may_be_touched(changed: dict[str, Any]) -> None:
    [host] = hosts(node1=REAL)
    assert refusal(host, look(**changed), runs.RUN, 1000.0) == ""


def test_storage_that_the_workers_cannot_write_to_is_refused_by_file_key_and_wish(run: Run) -> None:
    named = hosts(node1={**TRIAL, "gpuburn_storage": "/mnt/data"}, node2=TRIAL)
    broken = {**SEEN, "storage": "gpuburn may not write to it"}
    told = planned(run, named, {"node1": broken, "node2": broken}, 1000.0)
    assert told["node1"]["refused"] == (
        "node1: hosts.yml: host node1: gpuburn_storage is '/mnt/data': gpuburn may not write to it; "
        "wanted is a folder that the account of the login may write to"
    )
    assert "plan" in told["node2"], "it names none"
    assert not run.plan("node1")


def test_storage_that_is_named_stands_in_the_plan(run: Run) -> None:
    named = hosts(node1={**TRIAL, "gpuburn_storage": "/mnt/data", "gpuburn_storage_writers": 2})
    planned(run, named, {"node1": SEEN}, 1000.0)
    kept = run.plan("node1")
    assert kept is not None
    there = {step.name: step.params["writers"] for step in kept.steps if step.params.get("directory") == "/mnt/data"}
    assert there == {"checkpoint": 2, "distributed_checkpoint": 2, "dataset": 2, "resume": 2}


def test_a_cap_that_a_step_cannot_keep_is_refused_before_anything_runs() -> None:
    said = wrong({"node1": {**REAL, "gpuburn_storage": "/mnt/data", "gpuburn_storage_gib": 10}})
    assert said.startswith("hosts.yml: host node1: gpuburn_storage_gib is 10; step ")


def test_a_rehearsal_touches_no_gpu_and_so_may_run_beside_its_user() -> None:
    [host] = hosts(node1=TRIAL)
    assert refusal(host, look(busy=["python (7)"], uid=1000), runs.RUN, 1000.0) == ""


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return Run.of(tmp_path, runs.RUN)


def test_a_plan_is_made_once_and_kept(run: Run) -> None:
    told = planned(run, hosts(node1=TRIAL), {"node1": SEEN}, 1000.0, write=True)
    first = (run.host("node1") / "plan.json").read_bytes()
    assert told["node1"]["plan"] == str(run.host("node1") / "plan.json")
    assert "node1: training at level smoke" in told["node1"]["text"]
    planned(run, hosts(node1=TRIAL), {"node1": {**SEEN, "time": 1100.0}}, 1100.0, write=True)
    assert (run.host("node1") / "plan.json").read_bytes() == first
    made = run.plan("node1")
    assert made is not None
    assert (made.host, made.run, made.issued) == ("node1", runs.RUN, 1000.0)
    assert len(made.nonce) == 32


def test_every_host_has_a_nonce_of_its_own(run: Run) -> None:
    planned(run, hosts(node1=TRIAL, node2=TRIAL), dict.fromkeys(("node1", "node2"), SEEN), 1000.0, write=True)
    one, two = run.plan("node1"), run.plan("node2")
    assert one and two and one.nonce != two.nonce
    assert one.seed == two.seed


def test_a_check_writes_nothing(run: Run) -> None:
    told = planned(run, hosts(node1=TRIAL), {"node1": SEEN}, 1000.0, write=False)
    assert "text" in told["node1"]
    assert not run.folder.exists()


def test_a_host_that_was_never_seen_is_not_planned(run: Run) -> None:
    assert planned(run, hosts(node1=TRIAL, node2=TRIAL), {"node1": None}, 1000.0, write=True) == {}


@pytest.mark.parametrize(
    "changed",
    [
        {"time": float("nan")}, {"free_disk_gib": float("inf")}, {"python": "\ud800"}, {"os": "a\0b"}, {"uid": "0"},
        {"gpus": "all"}, {"extra": 1}, {"python": 3}, {"free_disk_gib": "much"}, {"busy": [[[1]]]},
        {"memory_gib": None},
    ],
)  # fmt: skip
def test_a_look_that_lies_about_its_form_ends_its_own_run_and_no_other(run: Run, changed: dict[str, Any]) -> None:
    told = planned(
        run, hosts(a=TRIAL, b=TRIAL, c=TRIAL), {"a": SEEN, "b": {**SEEN, **changed}, "c": SEEN}, 1000.0, write=True
    )
    assert [name for name, one in told.items() if "refused" in one] == ["b"]
    assert told["b"]["refused"].startswith("b: look")
    assert run.plan("a") and run.plan("c") and not run.plan("b")
    assert json.dumps(told)


def test_gpus_that_the_host_shows_are_planned_in_the_order_of_their_addresses(run: Run) -> None:
    addresses = [f"0000:{index:02x}:00.0" for index in range(8)]
    planned(run, hosts(node1=REAL), {"node1": {**SEEN, "gpus": addresses}}, 1000.0, write=True)
    made = run.plan("node1")
    assert made is not None
    assert [one.pci for one in made.devices] == addresses


def test_a_plan_tells_what_it_costs_and_how_much_of_it_can_reject(bare_metal: Plan) -> None:
    text = describe(bare_metal)
    reject = sum(one.can_reject for one in bare_metal.limits)
    assert f"{len(bare_metal.limits)} limits, {reject} can reject" in text
    assert "8 devices" in text
    assert "kW" in text
    assert all(step.name in text for step in bare_metal.steps)


def test_a_rehearsal_tells_that_it_accepts_nothing(rehearsal: Plan) -> None:
    assert "it accepts nothing" in describe(rehearsal)
    assert "kW" not in describe(rehearsal)


@pytest.mark.parametrize(
    ("printed", "says"),
    [
        ("Welcome to DGX OS\n" + json.dumps(SEEN), "it printed 'Welcome to DGX OS"),
        ("", "not strict JSON"),
        ("[]", "wanted is a dict"),
        ("null", "wanted is a dict"),
        (json.dumps(SEEN) + json.dumps(SEEN), "not strict JSON"),
        ('{"uid": 0, "uid": 1}', "a key is written twice"),
        (json.dumps({**SEEN, "os": "x" * 70_000}), "at most 65536 are read"),
        (json.dumps(SEEN) + '}, "a": {"variables": {}, "look": ' + json.dumps(SEEN), "not strict JSON"),
        ("\ud800", "not strict JSON"),
        ("\x1b[2J\u202eevil", r"it printed '\?\[2J\?evil'"),
    ],
)
def test_whatever_a_host_prints_is_its_own_look_or_none(run: Run, printed: str, says: str) -> None:
    """One line, by name; the others are planned as the inventory says."""
    limited = {**TRIAL, "gpuburn_limits": {"gemm.tflops": {"unit": "TFLOP/s", "min": 620.0, "because": "annex B"}}}
    told = planned(run, hosts(a=limited, b=TRIAL), {"a": SEEN, "b": printed}, 1000.0)
    assert re.search(f"^b: look: .*{says}", told["b"]["refused"])
    assert len(told["b"]["refused"].splitlines()) == 1
    assert set(told) == {"a", "b"}
    made = run.plan("a")
    assert made
    assert [one.min for one in made.limits if (one.about, one.when.steps) == ("gemm.tflops", ("gemm",))] == [620.0]
    assert not run.plan("b")


LIMIT = {"gemm.tflops": {"unit": "TFLOP/s", "min": 1.0, "because": "annex B"}}


@pytest.mark.parametrize(
    ("before", "after", "says"),
    [
        (
            {"gpuburn_limits_site": LIMIT},
            {"gpuburn_limits_site": {"gemm.tflops": {**LIMIT["gemm.tflops"], "min": 0.5}}},
            r"gpuburn_limits_site: gemm\.tflops in step gemm.* was '1 <= x TFLOP/s .*' when .*, is '0\.5 <= x",
        ),
        ({"gpuburn_limits": LIMIT}, {}, r"gpuburn_limits: gemm\.tflops in step gemm"),
        ({}, {"gpuburn_limits": LIMIT}, r"gpuburn_limits: gemm\.tflops in step gemm"),
        (
            {"gpuburn_steps": ["gemm", "idle"]},
            {"gpuburn_steps": ["gemm"]},
            "gpuburn_steps was 'idle, gemm'",
        ),
        ({}, {"gpuburn_grace": 5.0}, "gpuburn_grace was '900' .* is '5' now"),
        ({}, {"gpuburn_become": True}, "gpuburn_become was 'user'"),
        ({}, {"gpuburn_state_dir": "/srv"}, "gpuburn_state_dir was '/var/lib/gpuburn' .* is '/srv' now"),
    ],
)
def test_coming_back_with_another_demand_is_refused_for_that_host_by_name(
    run: Run, before: dict[str, Any], after: dict[str, Any], says: str
) -> None:
    looks = {"a": {**SEEN}, "b": {**SEEN}}
    planned(run, hosts(a={**TRIAL, **before}, b=TRIAL), looks, 1000.0)
    kept = (run.host("a") / "plan.json").read_bytes()
    told = planned(run, hosts(a={**TRIAL, **after}, b=TRIAL), looks, 1100.0)
    assert re.search(f"^a: hosts.yml: host a: {says}.*; a changed inventory is a new run$", told["a"]["refused"])
    assert "plan" in told["b"]
    assert (run.host("a") / "plan.json").read_bytes() == kept


def test_a_plan_of_another_version_of_gpuburn_stands(run: Run) -> None:
    """What it demands was agreed when it was sent; this version would demand something else by itself."""
    planned(run, hosts(a=TRIAL), {"a": SEEN}, 1000.0)
    made = run.plan("a")
    assert made
    older = dataclasses.replace(made, versions={"gpuburn": "0.0.1"}, limits=made.limits[1:])
    (run.host("a") / "plan.json").write_bytes(strict.encode(older))
    assert "plan" in planned(run, hosts(a=TRIAL), {"a": SEEN}, 1100.0)["a"]


@pytest.mark.parametrize(
    ("why", "says"),
    [
        ("'nope' is undefined", "uses a variable that is not defined: 'nope' is undefined"),
        ("The lookup plugin 'file' failed", "cannot be resolved: The lookup plugin 'file' failed"),
    ],
)
def test_a_variable_that_does_not_resolve_is_named_with_file_host_and_variable(why: str, says: str) -> None:
    with pytest.raises(Refused) as refused:
        expect({"node1": TRIAL, "node2": TRIAL}, "hosts.yml", {"node2": {"ansible_host": why}})
    assert str(refused.value) == f"hosts.yml: host node2: ansible_host {says}"


@pytest.mark.parametrize(
    ("limits", "says"),
    [
        (
            {"gem.tflops": {"unit": "TFLOP/s", "min": 1, "because": "x"}},
            r"gpuburn_limits_b: gem\.tflops: .*unknown 'gem'",
        ),
        ({"gemm.wrong": {"min": 2, "max": 1, "because": "x"}}, r"gpuburn_limits_b: gemm\.wrong: min 2 is above max 1$"),
        ({"gemm.wrong": {"unit": "count", "because": "x"}}, r"gpuburn_limits_b: gemm\.wrong: a limit is one of"),
    ],
)
def test_a_limit_that_is_wrong_names_its_variable_once(limits: dict[str, Any], says: str) -> None:
    said = wrong({"node1": {**TRIAL, "gpuburn_limits_b": limits}})
    assert re.search(f"^hosts.yml: host node1: {says}", said)


def test_hosts_that_ask_for_the_same_are_planned_once_and_another_is_still_checked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    planned: list[str] = []
    make = planning.make

    def counted(request: Any, *rest: Any) -> Any:
        planned.append(request.host)
        return make(request, *rest)

    monkeypatch.setattr(planning, "make", counted)
    same = {f"n{i}": {**TRIAL, "gpuburn_rack": f"r{i}", "gpuburn_unit": i} for i in range(5)}
    assert len(expect(same)) == 5 and len(planned) == 1
    other = {**TRIAL, "gpuburn_limits": {"gemm.tflop": {"min": 1, "because": "r"}}}
    with pytest.raises(Refused, match=r"host z: .*tflop"):
        expect({**same, "z": other})
