"""A site's variables: a typo is refused with the name that was meant, and what a host must have is asked for."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from gpuburn.controller.site import Site, check, document, read
from gpuburn.strict import Refused

WHERE = "inventory/hosts.yml: host node1"
REAL = Site(profiles=["training"], sku="h200-sxm", gpu_count=8)


def test_nothing_set_is_the_defaults_and_unready() -> None:
    site, limits = read({}, WHERE)
    assert (site, limits) == (Site(), [])
    with pytest.raises(Refused, match=f"^{WHERE}: gpuburn_profiles is not set"):
        check(site, WHERE)


@pytest.mark.parametrize(
    ("name", "nearest"),
    [
        ("gpuburn_profile", "gpuburn_profiles"),
        ("gpuburn_gpucount", "gpuburn_gpu_count"),
        ("gpuburn_levle", "gpuburn_level"),
        ("gpuburn_SKU", "gpuburn_s"),
        ("gpuburn_limit", "gpuburn_limits"),
        ("gpuburn_reports", "gpuburn_reports_dir"),
    ],
)
def test_a_typo_names_the_variable_that_was_meant(name: str, nearest: str) -> None:
    with pytest.raises(Refused, match=f"^{WHERE}: unknown '{name}'; did you mean '{nearest}"):
        read({name: "x"}, WHERE)


def test_a_variable_like_no_other_gets_the_list() -> None:
    with pytest.raises(Refused, match="unknown 'gpuburn_zzzzzzzzzzzzzz'; known: gpuburn_allow_reboot, "):
        read({"gpuburn_zzzzzzzzzzzzzz": 1}, WHERE)


@pytest.mark.parametrize(
    ("variables", "says"),
    [
        ({"gpuburn_level": "smok"}, "level: 'smok' is not one of smoke, quick, standard, soak"),
        ({"gpuburn_kind": "real"}, "kind: 'real' is not one of hardware, rehearsal, simulated"),
        ({"gpuburn_environment": "cloud"}, "'cloud' is not one of bare_metal, vm, container"),
        ({"gpuburn_profiles": "training"}, "profiles: 'training' is a str, wanted is a list"),
        ({"gpuburn_profiles": [1]}, "profiles.*1 is a int"),
        ({"gpuburn_gpu_count": "eight"}, "gpu_count: 'eight' is a str, wanted is a int"),
        ({"gpuburn_gpu_count": 8.0}, "wanted is a int"),
        ({"gpuburn_gpu_count": True}, "wanted is a int"),
        ({"gpuburn_become": "maybe"}, "become: 'maybe' is a str, wanted is a bool"),
        ({"gpuburn_become": "["}, r"become: '\[' is a str, wanted is a bool"),
        ({"gpuburn_rack": 7}, "rack: 7 is a int, wanted is a str"),
        ({"gpuburn_storage": 7}, "storage: 7 is a int, wanted is a str"),
        ({"gpuburn_storage_writers": "many"}, "storage_writers: 'many' is a str, wanted is a int"),
        ({"gpuburn_power_budget_kw": float("nan")}, "nan is not a finite number"),
        ({"gpuburn_limits": "none"}, "gpuburn_limits is 'none'; wanted is a mapping"),
        ({"gpuburn_limits_rack": [1]}, "gpuburn_limits_rack is"),
    ],
)
def test_a_value_of_another_kind_is_refused_by_name(variables: dict[str, Any], says: str) -> None:
    with pytest.raises(Refused, match=f"^{WHERE}.*{says}"):
        read(variables, WHERE)


@pytest.mark.parametrize(
    ("variables", "name", "value"),
    [
        ({"gpuburn_wait": "false"}, "wait", False),
        ({"gpuburn_wait": "no"}, "wait", False),
        ({"gpuburn_gpu_count": "8"}, "gpu_count", 8),
        ({"gpuburn_power_budget_kw": "12"}, "power_budget_kw", 12.0),
        ({"gpuburn_profiles": "[training, inference]"}, "profiles", ["training", "inference"]),
        ({"gpuburn_unit": 12}, "unit", 12),
        ({"gpuburn_unit": "12"}, "unit", "12"),
        ({"gpuburn_sku": "l4"}, "sku", "l4"),
        ({"gpuburn_rack": "007"}, "rack", "007"),
    ],
)
def test_what_a_command_line_says_as_text_is_read_as_what_it_means(
    variables: dict[str, Any], name: str, value: Any
) -> None:
    site, _ = read(variables, WHERE)
    assert getattr(site, name) == value
    assert type(getattr(site, name)) is type(value)


def test_every_variable_of_limits_is_found_by_its_name_in_order() -> None:
    one, two = {"a.b": {"min": 1}}, {"c.d": {"max": 1}}
    _, limits = read({"gpuburn_limits_rack_b": two, "gpuburn_limits": one}, WHERE)
    assert limits == [("gpuburn_limits", one), ("gpuburn_limits_rack_b", two)]


def test_what_the_playbooks_set_themselves_is_nothing_that_a_site_may_say() -> None:
    with pytest.raises(Refused, match=f"^{WHERE}: unknown 'gpuburn_stopped'"):
        read({"gpuburn_stopped": "no"}, WHERE)


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"grace": -1.0}, "gpuburn_grace is -1.0; wanted is 0 to 604800"),
        ({"grace": 1e9}, "gpuburn_grace is 1000000000.0"),
        ({"processes": 0}, "gpuburn_processes is 0; wanted is 1 to 1024"),
        ({"processes": 100_000}, "gpuburn_processes is 100000"),
        ({"gpu_count": 65}, "gpuburn_gpu_count is 65; wanted is 0 to 64"),
        ({"power_budget_kw": -1.0}, "gpuburn_power_budget_kw is -1.0"),
        ({"power_budget_kw": 12.0}, "gpuburn_power_budget_kw is set; wanted is gpuburn_power_domain too"),
        ({"storage": "mnt/data"}, "gpuburn_storage is 'mnt/data'; wanted is an absolute path on the host"),
        ({"storage": "/mnt/../etc"}, "gpuburn_storage is '/mnt/../etc'; wanted is an absolute path"),
        ({"storage_gib": 0.0}, "gpuburn_storage_gib is 0.0; wanted is 1 to 1e\\+06"),
        ({"storage_writers": 0}, "gpuburn_storage_writers is 0; wanted is 1 to 1000"),
        ({"profiles": ["training", "inference", "training"]}, "gpuburn_profiles names 'training' twice"),
    ],
)
def test_a_number_that_no_host_has_is_refused_by_name(changed: dict[str, Any], says: str) -> None:
    with pytest.raises(Refused, match=f"^{WHERE}: {says}"):
        check(dataclasses.replace(REAL, **changed), WHERE)


def test_a_real_host_and_a_rehearsal_may_go() -> None:
    check(REAL, WHERE)
    check(Site(profiles=["training"], kind="rehearsal", become=False), WHERE)


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"profiles": []}, "gpuburn_profiles is not set; wanted is a list"),
        ({"sku": ""}, "gpuburn_sku is not set; wanted is one of `gpuburn sku list`"),
        ({"sku": "", "kind": "simulated"}, "gpuburn_sku is not set"),
        ({"gpu_count": 0}, "gpuburn_gpu_count is 0"),
        ({"gpu_count": -1}, "gpuburn_gpu_count is -1"),
        ({"become": False}, "gpuburn_become is false; hardware is accepted as root only"),
        ({"steps": ["gemm"]}, "gpuburn_steps at level standard; a part of a plan accepts nothing"),
        ({"steps": ["gemm"], "level": "soak"}, "gpuburn_steps at level soak; a part of a plan accepts nothing"),
    ],
)
def test_what_a_real_host_must_have_is_asked_for(changed: dict[str, Any], says: str) -> None:
    with pytest.raises(Refused, match=f"^{WHERE}: {says}"):
        check(dataclasses.replace(REAL, **changed), WHERE)


def test_a_part_of_a_plan_may_be_tried_where_nothing_can_be_accepted() -> None:
    check(dataclasses.replace(REAL, steps=["gemm"], level="smoke"), WHERE)


def test_every_variable_is_documented() -> None:
    rows = document()
    assert {name for name, _, _ in rows} == {f"gpuburn_{one.name}" for one in dataclasses.fields(Site)} | {
        "gpuburn_limits*"
    }
    assert all(doc.strip() for _, _, doc in rows)
