"""What two sources say of one machine: alike, contradicting, or not comparable; and what a BMC's looks amount to."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from gpuburn import bmc_verdict
from gpuburn.bmc import Inband, Line, Log, Look, Moment, Supply, compare, swapped
from gpuburn.bmc_verdict import Asked
from gpuburn.identity import Identity

UUID = "4c4c4544-0051-3610-8052-b4c04f4e3132"
TURNED = "44454c4c-5100-1036-8052-b4c04f4e3132"
OTHER = "deadbeef-0051-3610-8052-b4c04f4e3132"
CARDS = {f"gpu{one}": (f"165502301562{one}", f"GPU-beea0000-0000-4000-8000-00000000000{one}") for one in range(4)}
HOST = Inband(["J1050ABC", "B-1", "C-77"], UUID.upper(), CARDS, 4)
ASKED = Asked(("training",), 4)


def sources(**changed: Any) -> dict[str, dict[str, str]]:
    found = {"bmc.system.0": {"serial": "j1050abc ", "uuid": UUID}, "bmc.chassis.0": {"serial": "C-77"}}
    for name, (number, own) in CARDS.items():
        found[f"bmc.gpu.{name}"] = {"serial": number, "uuid": own.removeprefix("GPU-")}
    return {**found, **changed}


def look(moment: Moment = "end", held: dict[str, dict[str, str]] | None = None, **changed: Any) -> Look:
    identity = Identity(1.0, "", sources() if held is None else held)
    settled: dict[str, Any] = {"gpus": 4, "supplies": [Supply("PSU0", "Enabled", "OK")], "inlet": 22.0}
    return Look(moment, 1.0, "ca", "", identity, **{**settled, **changed})


def outcome(about: str, held: dict[str, dict[str, str]], host: Inband = HOST, **changed: Any) -> list[str]:
    return [one.outcome for one in compare(host, look(held=held, **changed)) if one.about == about]


def bad(*looks: Look, host: Inband | None = HOST, asked: Asked = ASKED) -> list[tuple[str, str, str]]:
    """What is no plain pass and no listing."""
    found = bmc_verdict.findings(list(looks), host, asked)
    return [(f.code, f.about, str(f.verdict)) for f in found if f.marginal or f.verdict in ("fail", "incomplete")]


def test_the_same_machine_agrees_in_every_number() -> None:
    assert {one.outcome for one in compare(HOST, look())} == {"agrees"}
    assert bad(look("start"), look()) == []


def test_the_chassis_may_tell_the_serial_that_the_system_has_not() -> None:
    held = sources(**{"bmc.system.0": {"serial": "X-1"}, "bmc.chassis.0": {"serial": "B-1"}})
    assert outcome("bmc.serial", held) == ["agrees"]


@pytest.mark.parametrize("told", [{}, {"serial": "To be filled by O.E.M."}, {"serial": "0123456789"}])
def test_a_bmc_without_the_serial_is_not_comparable(told: dict[str, str]) -> None:
    assert outcome("bmc.serial", sources(**{"bmc.system.0": told})) == ["agrees"], "the chassis tells it here"
    held = sources(**{"bmc.system.0": told, "bmc.chassis.0": {}})
    assert outcome("bmc.serial", held) == ["not comparable"]


def test_other_serials_of_the_same_machine_are_not_comparable() -> None:
    held = sources(**{"bmc.system.0": {"serial": "LENOVO-9", "uuid": UUID}, "bmc.chassis.0": {"serial": "Q"}})
    assert outcome("bmc.serial", held) == ["not comparable"]


def test_another_machine_differs_in_serial_and_uuid() -> None:
    held = {"bmc.system.0": {"serial": "J1050XYZ", "uuid": OTHER}}
    assert bad(look("start", held), look("end", held)) == [
        ("bmc.differs", "bmc.serial", "fail"), ("bmc.differs", "bmc.uuid", "fail"),
    ]  # fmt: skip


def test_a_uuid_with_its_bytes_turned_is_not_comparable() -> None:
    assert swapped(UUID) == TURNED and swapped(TURNED) == UUID
    assert outcome("bmc.uuid", sources(**{"bmc.system.0": {"uuid": TURNED}})) == ["not comparable"]


@pytest.mark.parametrize("value", ["00000000-0000-0000-0000-000000000000", "none", "4c4c4544", ""])
def test_a_uuid_that_is_none_is_absent(value: str) -> None:
    assert outcome("bmc.uuid", sources(**{"bmc.system.0": {"uuid": value}})) == ["not comparable"]
    assert outcome("bmc.uuid", sources(), dataclasses.replace(HOST, uuid=value)) == ["not comparable"]


def test_a_gpu_that_the_bmc_does_not_know_differs_alone() -> None:
    held = sources(**{"bmc.gpu.gpu2": {"serial": "1655023015999", "uuid": OTHER}})
    assert outcome("bmc.gpu", held) == ["agrees", "agrees", "differs", "agrees"]


def test_gpus_are_known_by_their_numbers_and_not_by_their_places() -> None:
    first, last = CARDS["gpu0"][0], CARDS["gpu3"][0]
    held = sources(**{"bmc.gpu.gpu0": {"serial": last}, "bmc.gpu.gpu3": {"serial": first}})
    assert outcome("bmc.gpu", held) == ["agrees"] * 4


def test_a_list_that_leaves_some_gpus_out_accuses_none() -> None:
    held = {name: one for name, one in sources().items() if name not in ("bmc.gpu.gpu1",)}
    assert outcome("bmc.gpu", held) == ["agrees", "not comparable", "agrees", "agrees"]


def test_another_kind_of_number_is_not_comparable() -> None:
    stickers = {f"bmc.gpu.gpu{one}": {"serial": f"SN-{one}"} for one in range(4)}
    assert outcome("bmc.gpu", sources(**stickers)) == ["not comparable"] * 4


def test_other_gpus_of_the_same_kind_of_number_all_differ() -> None:
    others = {f"bmc.gpu.gpu{one}": {"serial": f"999902301562{one}"} for one in range(4)}
    assert outcome("bmc.gpu", sources(**others)) == ["differs"] * 4


def test_gpus_that_tell_no_number_are_not_comparable() -> None:
    host = dataclasses.replace(HOST, gpus={"gpu0": ("", "")})
    assert outcome("bmc.gpu", sources(), host) == ["not comparable"]


@pytest.mark.parametrize(
    ("gpus", "wanted"),
    [
        (4, []),
        (5, [("bmc.gpu_count", "bmc.gpus", "fail")]),
        (3, [("bmc.gpu_count", "bmc.gpus", "incomplete")]),
        (None, []),
    ],
)
def test_gpus_are_counted_on_both_sides(gpus: int | None, wanted: list[Any]) -> None:
    assert bad(look("start"), look(gpus=gpus)) == wanted


@pytest.mark.parametrize(
    ("supply", "leads", "wanted"),
    [
        (Supply("A", "Enabled", "Critical"), "warn", [("bmc.supply", "bmc.psu.A", "pass")]),
        (Supply("A", "Enabled", "Critical"), "fail", [("bmc.supply", "bmc.psu.A", "fail")]),
        (Supply("A", "Enabled", "Critical"), "inform", []),
        (Supply("A", "UnavailableOffline", ""), "warn", [("bmc.supply", "bmc.psu.A", "pass")]),
        (Supply("A", "StandbySpare", "OK"), "warn", []),
        (Supply("A"), "warn", []),
    ],
)
def test_a_supply_that_is_not_ok_is_marginal_or_what_the_policy_says(supply: Supply, leads: Any, wanted: Any) -> None:
    assert bad(look("start"), look(supplies=[supply]), asked=Asked(("training",), 4, leads)) == wanted


def test_a_supply_that_tells_nothing_is_listed_and_not_passed() -> None:
    [one] = [f for f in bmc_verdict.findings([look("start"), look(supplies=[Supply("A")])], HOST, ASKED)
             if f.about == "bmc.psu.A"]  # fmt: skip
    assert (one.code, str(one.verdict)) == ("bmc.not_comparable", "not_applicable")


def test_a_critical_line_fails_and_a_warning_is_marginal() -> None:
    lines = [Line("SEL", "3", "now", "Critical", "PSU1 lost AC"), Line("SEL", "4", "now", "Warning", "slow fan")]
    log = Log(["SEL"], [], lines, {"Critical": 1, "Warning": 1})
    assert bad(look("start"), look(log=log)) == [
        ("bmc.event_critical", "bmc.log", "fail"), ("bmc.event_warning", "bmc.log", "pass"),
    ]  # fmt: skip


def test_a_log_that_could_not_be_read_proves_nothing() -> None:
    assert bad(look("start"), look(log=Log(missing="not read at both ends"))) == [
        ("bmc.unread", "bmc.log", "incomplete")
    ]


def test_a_silent_bmc_is_incomplete_at_either_end() -> None:
    silent = Look("end", 1.0, "ca", silent="no answer in time")
    assert bad(look("start"), silent) == [("bmc.silent", "bmc", "incomplete")]
    assert bad(look("start")) == [("bmc.silent", "bmc", "incomplete")], "no look was taken at the end"
    assert bad() == [("bmc.silent", "bmc", "incomplete")] * 2


def test_what_was_not_read_is_incomplete() -> None:
    assert bad(look("start"), look(unread={"bmc.chassis": "status 500"})) == [("bmc.unread", "bmc", "incomplete")]


def test_a_number_that_changed_over_the_run_fails() -> None:
    swap = sources(**{"bmc.psu.PSU0": {"serial": "S-2"}})
    first = sources(**{"bmc.psu.PSU0": {"serial": "S-1"}})
    assert bad(look("start", first), look("end", swap)) == [("bmc.changed", "bmc.psu.PSU0.serial", "fail")]


def test_an_unverified_certificate_and_the_inlet_are_listed() -> None:
    found = bmc_verdict.findings([look("start"), dataclasses.replace(look(), verified="unverified")], HOST, ASKED)
    told = {f.code: f.why for f in found if str(f.verdict) == "not_applicable"}
    assert "gpuburn_bmc_verify: false" in told["bmc.unverified"]
    assert told["informational"].startswith("22 C at the start, 22 C at the end")


def test_a_host_without_bmc_owes_nothing_and_it_is_said() -> None:
    one = bmc_verdict.unnamed(("training",))
    assert (one.code, str(one.verdict), one.severity) == ("bmc.none", "not_applicable", "")
