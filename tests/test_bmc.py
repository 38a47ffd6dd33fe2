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
BOARDS = "03000200-0400-0500-0006-000700080009"
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


@pytest.mark.parametrize(
    "value",
    [BOARDS, "ffffffff-ffff-ffff-ffff-ffffffffffff", swapped(BOARDS)],
)
def test_a_uuid_that_boards_leave_as_filler_agrees_with_nothing(value: str) -> None:
    """Of a board maker's sample BIOS, or of empty flash; in either order of its bytes, in any case."""
    held = {"bmc.system.0": {"serial": "OTHERBOX9", "uuid": value.upper()}}
    host = dataclasses.replace(HOST, system=["MYBOX01"], uuid=value)
    assert outcome("bmc.uuid", held, host) == ["not comparable"]
    assert outcome("bmc.serial", held, host) == ["differs"], "nothing shows that it is this machine"


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
        (Supply("A", "Enabled", "OK", line="Normal"), "warn", []),
        (Supply("A", "Enabled", "OK", line="LossOfInput"), "warn", [("bmc.supply", "bmc.psu.A", "pass")]),
        (Supply("A", line="OutOfRange"), "fail", [("bmc.supply", "bmc.psu.A", "fail")]),
    ],
)
def test_a_supply_that_is_not_ok_is_marginal_or_what_the_policy_says(supply: Supply, leads: Any, wanted: Any) -> None:
    both = [look(moment, supplies=[supply]) for moment in ("start", "end")]
    assert bad(*both, asked=Asked(("training",), 4, leads)) == wanted


def supply(first: list[Supply], last: list[Supply], **changed: Any) -> list[tuple[str, str, str]]:
    """(name, code, why) of every power supply, of two looks."""
    found = bmc_verdict.findings([look("start", supplies=first), look(supplies=last, **changed)], HOST, ASKED)
    return [(f.about.removeprefix("bmc.psu."), f.code, f.why) for f in found if f.about.startswith("bmc.psu")]


def test_a_supply_that_tells_nothing_is_listed_and_not_passed() -> None:
    [(_, code, _)] = supply([Supply("A")], [Supply("A")])
    assert code == "bmc.not_comparable"
    [(_, code, why)] = supply([Supply("A", "Enabled", "OK")], [Supply("A")])
    assert code == "bmc.not_comparable" and "at the end" in why


def test_the_worse_of_two_looks_at_a_supply_counts() -> None:
    fine, failed = Supply("A", "Enabled", "OK"), Supply("A", "Enabled", "Critical")
    [(_, code, why)] = supply([failed], [fine])
    assert (code, why) == ("bmc.supply", "state Enabled, health Critical at the start of the run; wanted is OK")
    [(_, code, why)] = supply([fine], [failed])
    assert code == "bmc.supply" and "at the end of the run" in why
    assert [code for _, code, _ in supply([fine], [fine])] == ["bmc.agrees"]


def test_a_supply_that_is_gone_at_the_end_is_a_finding() -> None:
    one, two = Supply("A", "Enabled", "OK", "S-1"), Supply("B", "Enabled", "OK", "S-2")
    assert supply([one, two], [one])[1:] == [
        ("B", "bmc.supply", "there at the start of the run (serial S-2), gone at its end; wanted is that it stays")
    ]
    assert [code for _, code, _ in supply([one], [one, two])] == ["bmc.agrees"] * 2, "one that came is no fault"
    both = [look("start", supplies=[one, two]), look(supplies=[one])]
    assert bad(*both) == [("bmc.supply", "bmc.psu.B", "pass")]
    assert bad(*both, asked=Asked(("training",), 4, "fail")) == [("bmc.supply", "bmc.psu.B", "fail")]


def test_a_supply_is_not_gone_where_the_supplies_were_not_read() -> None:
    one = Supply("A", "Enabled", "OK")
    assert supply([one], [], unread={"bmc.chassis.C0.power": "status 500"}) == [
        ("A", "bmc.unread", "there at the start of the run, and not read at its end")
    ]


@pytest.mark.parametrize(("word", "wanted"), [
    ("Critical", [("bmc.health_critical", "bmc.gpu.GPU_SXM_3", "fail")]),
    ("Warning", [("bmc.health_warning", "bmc.gpu.GPU_SXM_3", "pass")]),
    ("Unwell", [("bmc.health_warning", "bmc.gpu.GPU_SXM_3", "pass")]),
    ("OK", []),
])  # fmt: skip
def test_a_part_that_says_it_is_not_well_is_a_finding_whenever_it_said_so(word: str, wanted: Any) -> None:
    ill, well = {"bmc.gpu.GPU_SXM_3": word, "bmc.fan.1": "OK"}, {"bmc.gpu.GPU_SXM_3": "OK", "bmc.fan.1": "OK"}
    assert bad(look("start", health=ill), look(health=well)) == wanted
    assert bad(look("start", health=well), look(health=ill)) == wanted


@pytest.mark.parametrize(("leads", "wanted"), [("warn", "pass"), ("fail", "fail")])
def test_a_chassis_that_says_its_supplys_word_leads_to_what_a_supply_leads_to(leads: Any, wanted: str) -> None:
    health = {"bmc.chassis.0": "Critical", "bmc.system.0": "Critical", "bmc.gpu.1": "OK"}
    asked = dataclasses.replace(ASKED, supplies=leads)
    unfed = look(supplies=[Supply("PSU0", "Enabled", "Critical")], health=health)
    found = bad(look("start"), unfed, asked=asked)
    assert found == [("bmc.supply", f"bmc.{one}", wanted) for one in ("psu.PSU0", "chassis.0", "system.0")]
    assert [code for code, _, _ in bad(look("start"), look(health=health))] == ["bmc.health_critical"] * 2


def test_parts_that_say_nothing_of_their_health_are_not_counted_as_well() -> None:
    def told(**changed: Any) -> list[tuple[str, str]]:
        found = bmc_verdict.findings([look("start"), look(**changed)], HOST, ASKED)
        return [(f.code, f.why) for f in found if f.about == "bmc.health"]

    assert told() == [("bmc.not_comparable", "no part says how it is")]
    two = {"bmc.fan.1": "OK", "bmc.fan.2": "Critical"}
    assert told(health=two) == [("bmc.agrees", "1 of 2 parts say of themselves OK")]


def test_a_critical_line_fails_and_a_warning_is_marginal() -> None:
    lines = [Line("SEL", "3", "now", "Critical", "PSU1 lost AC"), Line("SEL", "4", "now", "Warning", "slow fan")]
    log = Log(["SEL"], [], lines, {"Critical": 1, "Warning": 1})
    assert bad(look("start"), look(log=log)) == [
        ("bmc.event_critical", "bmc.log", "fail"), ("bmc.event_warning", "bmc.log", "pass"),
    ]  # fmt: skip


def test_what_the_first_hardware_finding_showed_counts_also_where_the_log_lost_it_since() -> None:
    old, new = Line("SEL", "3", "now", "Critical", "GPU3 fell off"), Line("SEL", "4", "now", "Warning", "slow fan")
    first = look("finding", log=Log(["SEL"], [], [old], {"Critical": 1}))
    last = look(log=Log(["SEL"], [], [new], {"Warning": 1}))
    found = bmc_verdict.findings([look("start"), first, last], HOST, ASKED)
    told = {f.code: f.why for f in found if f.code.startswith("bmc.event")}
    assert told == {
        "bmc.event_critical": "1 line(s) of severity Critical during the run: now GPU3 fell off",
        "bmc.event_warning": "1 line(s) of severity Warning during the run: now slow fan",
    }
    again = look(log=Log(["SEL"], [], [old], {"Critical": 1}))
    [one] = [f for f in bmc_verdict.findings([look("start"), first, again], HOST, ASKED) if f.code.endswith("critical")]
    assert one.why == told["bmc.event_critical"], "a line that both looks saw is one line"
    silent = Look("finding", 1.0, "ca", silent="no answer in time")
    assert bad(look("start"), silent, look()) == []


def test_a_line_of_no_known_severity_is_not_quiet_and_is_shown() -> None:
    lines = [Line("SEL", "3", "now", "", "PSU1 lost AC"), Line("SEL", "4", "now", "Grave", "x")]
    both = [look("start"), look(log=Log(["SEL"], [], lines, {"": 2}))]
    assert bad(*both) == [("bmc.event_warning", "bmc.log", "pass")]
    found = bmc_verdict.findings(both, HOST, ASKED)
    [why] = [f.why for f in found if f.code == "bmc.event_warning"]
    assert why == "2 line(s) of no known severity during the run: now PSU1 lost AC; now x"
    assert "bmc.log_quiet" not in {f.code for f in found}


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
    assert told["informational"].startswith("22 C at the start of the run, 22 C at the end of the run")


def test_a_host_without_bmc_owes_nothing_and_it_is_said() -> None:
    one = bmc_verdict.unnamed(("training",))
    assert (one.code, str(one.verdict), one.severity) == ("bmc.none", "not_applicable", "")
