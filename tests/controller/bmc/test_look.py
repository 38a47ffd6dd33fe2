"""A look at a BMC over real HTTPS: what it finds, and what becomes of every fault that a BMC may have."""

from __future__ import annotations

import contextlib
import dataclasses
from pathlib import Path
from typing import Any

import pytest

from gpuburn import strict
from gpuburn.bmc import Look
from gpuburn.controller.bmc import look as looks
from gpuburn.controller.bmc.access import Access
from tests.controller.bmc import server, tree
from tests.controller.bmc.server import PASSWORD, SESSIONS, USER, Bmc

SEL = "Systems/System_0/LogServices/SEL/Entries"
PSU = "Chassis/Chassis_0/PowerSubsystem/PowerSupplies/PSU1"


def access(bmc: Bmc, **changed: Any) -> Access:
    one = Access(f"https://{bmc.address}", "ca", USER, PASSWORD, ca=str(bmc.certificate))
    return dataclasses.replace(one, **changed)


def take(bmc: Bmc, **changed: Any) -> Look:
    one = looks.take(access(bmc), changed.pop("moment", "start"), 1000.0, **{"request": 10.0, **changed})
    assert PASSWORD not in strict.encode(one).decode()
    return one


def test_a_host_with_eight_gpus_tells_its_parts(bmc: Bmc) -> None:
    seen = take(bmc)
    assert (seen.silent, seen.unread, seen.gpus, seen.inlet) == ("", {}, 8, 23.5)
    assert seen.identity is not None
    sources = seen.identity.sources
    assert sources["bmc.system.System_0"] == {
        "serial": tree.SERIAL, "uuid": tree.UUID, "sku": "XE9680", "model": "XE9680", "bios": "2.1.3",
        "memory_gib": "2048",
    }  # fmt: skip
    assert sources["bmc.gpu.GPU_SXM_3"]["serial"] == tree.gpu_serial(2)
    assert sources["bmc.gpu.GPU_SXM_3"]["firmware"] == "96.00.74.00.0D"
    assert sources["bmc.manager.BMC"] == {"firmware": "7.10.30"}
    assert sources["bmc.manager.BMC.eth0"] == {"mac": "5c:ff:35:00:11:22"}
    assert seen.identity.missing["bmc.system.HGX_Baseboard_0.uuid"].startswith("filler: 0000")
    assert [(one.name, one.state, one.health, one.serial, one.watts) for one in seen.supplies] == [
        ("PSU0", "Enabled", "OK", "PSU-0-9931", 1500.0), ("PSU1", "Enabled", "OK", "PSU-1-9931", 1501.0),
    ]  # fmt: skip
    assert len(seen.log.keys) == 2 and not seen.log.missing and seen.log.lines == []


def test_parts_tell_how_they_are_and_one_that_does_not_is_not_made_up(bmc: Bmc) -> None:
    bmc.tree["Systems/HGX_Baseboard_0/Processors/GPU_SXM_3"]["Status"] = {"State": "Enabled", "Health": "Critical"}
    bmc.tree["Systems/HGX_Baseboard_0/Processors/GPU_SXM_4"]["Status"] = {"State": "Enabled", "Health": None}
    bmc.tree["Systems/System_0"]["MemorySummary"]["Status"] = {"Health": "Warning"}
    bmc.tree["Chassis/Chassis_0/ThermalSubsystem"]["Fans"] = tree.ref("Chassis/Chassis_0/ThermalSubsystem/Fans")
    fans = "Chassis/Chassis_0/ThermalSubsystem/Fans"
    bmc.tree[fans] = tree.collection(fans, "Fan1", "Fan2")
    bmc.tree[f"{fans}/Fan1"], bmc.tree[f"{fans}/Fan2"] = (
        {"Status": {"Health": "Warning"}},
        {"Status": {"State": "Absent"}},
    )
    health = take(bmc).health
    assert health["bmc.gpu.GPU_SXM_3"] == "Critical" and "bmc.gpu.GPU_SXM_4" not in health
    assert health["bmc.system.System_0.memory"] == "Warning" and health["bmc.processor.CPU_0"] == "OK"
    assert health["bmc.chassis.Chassis_0"] == health["bmc.gpu.HGX_GPU_SXM_3"] == "OK"
    assert {name: word for name, word in health.items() if ".fan." in name} == {"bmc.fan.Fan1": "Warning"}


def test_fans_of_the_older_form_are_heard_too(bmc: Bmc) -> None:
    del bmc.tree["Chassis/Chassis_0"]["ThermalSubsystem"]
    bmc.tree["Chassis/Chassis_0"]["Thermal"] = tree.ref("Chassis/Chassis_0/Thermal")
    bmc.tree["Chassis/Chassis_0/Thermal"] = {"Fans": [{"MemberId": "0", "Status": {"Health": "Critical"}}, 7]}
    assert take(bmc).health["bmc.fan.0"] == "Critical"


def test_the_session_is_opened_with_the_account_and_closed_again(bmc: Bmc) -> None:
    take(bmc)
    assert [one for one in bmc.asked if one[0] != "GET"] == [("POST", SESSIONS), ("DELETE", f"{SESSIONS}/1")]
    assert not bmc.sessions and not bmc.leaked


def test_each_resource_is_asked_for_once(bmc: Bmc) -> None:
    take(bmc)
    got = [path for method, path in bmc.asked if method == "GET" and path != "/redfish/v1/"]
    assert len(got) == len(set(got))


def test_a_wrong_password_is_refused_without_being_said(bmc: Bmc) -> None:
    wrong = dataclasses.replace(access(bmc), password="hunter2-hunter2")
    seen = looks.take(wrong, "start", 1.0)
    assert "refused the account" in seen.silent
    assert "hunter2" not in strict.encode(seen).decode() + repr(wrong)


def test_a_bmc_that_says_back_what_it_was_told_is_not_quoted(bmc: Bmc) -> None:
    bmc.tree["POST"] = lambda handler, said: handler.answer(500, {"error": {"message": f"bad {said}"}})
    assert take(bmc).silent == "it opened no session: HTTP 500: Failed to create the session"


def test_a_log_that_holds_the_password_is_kept_without_it(bmc: Bmc) -> None:
    bmc.tree[SEL]["Members"].append(tree.entry(3, "Critical", f"login with {PASSWORD} failed"))
    before = dataclasses.replace(take(bmc).log, keys=[])
    [line] = [one for one in take(bmc, moment="end", before=before).log.lines if one.id == "3"]
    assert line.text == "login with *** failed"


def test_a_route_that_does_not_answer_ends_at_its_deadline(bmc: Bmc) -> None:
    bmc.tree["Chassis"] = lambda handler: bmc.free.wait(60)
    seen = take(bmc, request=0.3)
    assert "no answer in time" in seen.unread["bmc.chassis"]
    assert seen.gpus == 8, "what else it has is read all the same"


def test_a_body_that_drips_ends_at_its_deadline(bmc: Bmc) -> None:
    def drip(handler: Any) -> None:
        handler.send_response(200)
        handler.end_headers()
        with contextlib.suppress(OSError):  # the other side hangs up
            while not bmc.free.wait(0.01):
                handler.wfile.write(b" ")
                handler.wfile.flush()

    bmc.tree["Chassis"] = drip
    assert "took longer than 0.3 s" in take(bmc, request=0.3).unread["bmc.chassis"]


def test_the_whole_look_has_a_deadline(bmc: Bmc) -> None:
    assert "the time for this BMC is over" in take(bmc, seconds=0.0).silent


def test_a_collection_without_end_is_cut_off(bmc: Bmc) -> None:
    def page(handler: Any) -> None:
        number = int(handler.path.partition("skip=")[2] or 0)
        members = [{"@odata.id": f"/redfish/v1/x/{number}/{one}", "Id": f"{number}-{one}"} for one in range(500)]
        handler.answer(200, {"Members": members, "Members@odata.nextLink": f"/redfish/v1/{SEL}?$skip={number + 1}"})

    bmc.route = lambda path: page if SEL in path else Bmc.route(bmc, path)  # type: ignore[method-assign]
    seen = take(bmc)
    [about] = seen.unread
    assert about == "bmc.log.Systems.System_0.LogServices.SEL"
    assert "more than 2000" in seen.unread[about]
    assert len(seen.log.keys) == 2000 and seen.log.logs == []


def test_a_collection_that_leads_back_to_itself_is_read_once(bmc: Bmc) -> None:
    bmc.tree["Chassis"]["Members@odata.nextLink"] = "/redfish/v1/Chassis"
    assert "lead back" in take(bmc).unread["bmc.chassis"]


def test_a_bmc_with_more_resources_than_are_read_is_named(bmc: Bmc) -> None:
    seen = take(bmc, resources=5)
    assert any("more resources than are read" in why for why in seen.unread.values())
    assert len([one for one in bmc.asked if one[0] == "GET"]) <= 6


def test_a_huge_body_is_not_read(bmc: Bmc) -> None:
    bmc.tree["Systems"] = b'{"Members": [], "x": "' + b"y" * 70_000 + b'"}'
    assert "longer than 65536 bytes" in take(bmc, body=65536).unread["bmc.systems"]


def test_a_compressed_body_is_not_unpacked(bmc: Bmc) -> None:
    bmc.tree["Systems"] = lambda handler: handler.answer(200, b"\x1f\x8b", {"Content-Encoding": "gzip"})
    assert "compressed" in take(bmc).unread["bmc.systems"]


def test_invalid_json_is_a_reason(bmc: Bmc) -> None:
    bmc.tree["Systems/System_0"] = b'{"SerialNumber": NaN'
    seen = take(bmc)
    assert "not strict JSON" in seen.unread["bmc.systems.System_0"]
    assert seen.gpus == 8


@pytest.mark.parametrize("root", [b"[]", b"{", b'{"a": 1, "a": 2}', b"\xff", b"[" * 100_000])
def test_a_root_that_is_none_is_silence(bmc: Bmc, root: bytes) -> None:
    bmc.tree[""] = root
    assert take(bmc).silent.startswith("/redfish/v1/: ")


def test_nobody_follows_to_another_host(bmc: Bmc, pair: tuple[Path, Path, str]) -> None:
    with server.running(tree.host(), pair) as other:
        away = {"Location": f"https://{other.address}/redfish/v1/Systems"}
        bmc.tree["Systems"] = lambda handler: handler.answer(302, b"", away)
        bmc.tree["Chassis"] = {"Members": [{"@odata.id": f"https://{other.address}/redfish/v1/Chassis/x"},
                                           {"@odata.id": f"@{other.address}/redfish/v1/y"},
                                           {"@odata.id": f"//{other.address}/redfish/v1/z"}]}  # fmt: skip
        seen = take(bmc)
        assert other.asked == []
    assert "sends us elsewhere" in seen.unread["bmc.systems"]
    assert len([why for why in seen.unread.values() if "not a path below /redfish/v1/" in why]) == 3


def test_the_log_in_is_not_sent_to_another_host(bmc: Bmc, pair: tuple[Path, Path, str]) -> None:
    with server.running(tree.host(), pair) as other:
        bmc.tree[""]["Links"]["Sessions"]["@odata.id"] = f"https://{other.address}{SESSIONS}"
        assert "not a path below" in take(bmc).silent
        assert other.asked == [] and ("POST", SESSIONS) not in bmc.asked


def test_a_proxy_or_netrc_of_the_environment_is_not_used(
    bmc: Bmc, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / ".netrc").write_text("machine 127.0.0.1 login other password other\n")
    monkeypatch.setenv("NETRC", str(tmp_path / ".netrc"))
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:9")
    assert take(bmc).silent == "" and bmc.leaked == []


def test_a_pinned_certificate_is_taken(bmc: Bmc) -> None:
    pinned = access(bmc, ca="", verified="fingerprint", fingerprint=bmc.fingerprint)
    assert looks.take(pinned, "start", 1.0).silent == ""


def test_another_certificate_than_the_pinned_one_is_not_spoken_to(bmc: Bmc) -> None:
    seen = looks.take(access(bmc, ca="", verified="fingerprint", fingerprint="00" * 32), "start", 1.0)
    assert "certificate is not trusted" in seen.silent and bmc.asked == []


def test_a_certificate_of_another_ca_is_not_spoken_to(bmc: Bmc, tmp_path: Path) -> None:
    seen = looks.take(access(bmc, ca=str(server.certify(tmp_path)[0])), "start", 1.0)
    assert "certificate is not trusted" in seen.silent and bmc.asked == []


def test_nobody_at_the_address_is_silence() -> None:
    seen = looks.take(Access("https://127.0.0.1:9", "unverified", USER, PASSWORD), "start", 1.0)
    assert "/redfish/v1/" in seen.silent and seen.identity is None


def test_what_is_absent_is_not_counted(bmc: Bmc) -> None:
    absent = {"Status": {"State": "Absent"}}
    bmc.tree["Systems/HGX_Baseboard_0/Processors/GPU_SXM_8"] |= absent
    bmc.tree["Chassis/HGX_GPU_SXM_8"] |= absent
    bmc.tree[PSU] |= absent
    seen = take(bmc)
    assert (seen.gpus, [one.name for one in seen.supplies]) == (7, ["PSU0"])
    assert seen.identity and "bmc.gpu.GPU_SXM_8" not in seen.identity.sources


@pytest.mark.parametrize("gone", ["Systems/HGX_Baseboard_0/Processors", "Chassis"])
def test_either_list_of_gpus_counts_and_the_longer_one_wins(bmc: Bmc, gone: str) -> None:
    bmc.tree[gone]["Members"] = bmc.tree[gone]["Members"][:3]
    assert take(bmc).gpus == 8


def test_the_older_form_of_power_and_thermal_is_read(bmc: Bmc) -> None:
    chassis = bmc.tree["Chassis/Chassis_0"]
    del chassis["PowerSubsystem"], chassis["ThermalSubsystem"]
    chassis |= {"Power": tree.ref("Chassis/Chassis_0/Power"), "Thermal": tree.ref("Chassis/Chassis_0/Thermal")}
    failed = {"State": "Enabled", "Health": "Critical"}
    bmc.tree["Chassis/Chassis_0/Power"] = {
        "PowerSupplies": [{"MemberId": "0", "Name": "PSU", "Status": failed, "PowerInputWatts": 90},
                          {"MemberId": "1", "Status": {"State": "Absent"}}]
    }  # fmt: skip
    bmc.tree["Chassis/Chassis_0/Thermal"] = {
        "Temperatures": [{"PhysicalContext": "CPU", "ReadingCelsius": 60},
                         {"PhysicalContext": "Intake", "ReadingCelsius": 21}]
    }  # fmt: skip
    seen = take(bmc)
    assert [(one.name, one.health, one.watts) for one in seen.supplies] == [("0", "Critical", 90.0)]
    assert seen.inlet == 21.0


def test_what_the_log_gained_is_told_by_its_lines_and_not_by_a_clock(bmc: Bmc) -> None:
    before = take(bmc).log
    bmc.tree[SEL]["Members"] += [tree.entry(3, "Critical", "PSU1 lost AC"), tree.entry(4, "Warning", "Fan 3 slow")]
    log = take(bmc, moment="end", before=before).log
    assert log.counts == {"Critical": 1, "Warning": 1} and log.missing == ""
    assert [(one.id, one.text) for one in log.lines] == [("3", "PSU1 lost AC"), ("4", "Fan 3 slow")]


def test_a_log_that_was_not_read_at_the_start_tells_nothing_of_the_run(bmc: Bmc) -> None:
    whole = bmc.tree[SEL]
    bmc.tree[SEL] = lambda handler: handler.answer(500, {})
    before = take(bmc).log
    bmc.tree[SEL] = whole
    log = take(bmc, moment="end", before=before).log
    assert log.counts == {} and "not read at both ends" in log.missing


def test_without_a_look_at_the_start_old_lines_accuse_nobody(bmc: Bmc) -> None:
    log = take(bmc, moment="end").log
    assert (log.counts, log.lines) == ({}, []) and "nothing to compare" in log.missing


RING = [tree.entry(one, "OK", f"line {one}") for one in range(1, 513)]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (RING[:2], []),
        (RING[:2], [tree.entry(1, "OK", "Log cleared")]),
        (RING, [tree.entry(one, "OK", f"line {one}") for one in range(2000, 2512)]),
        (RING[:9], [*RING[:3], *RING[5:9], tree.entry(10, "OK", "x"), tree.entry(11, "OK", "y")]),
        (RING[:9], RING[5:9]),
        (RING[:3], [*RING[:2], tree.entry(10, "OK", "x")]),
    ],
    ids=["cleared", "cleared, and says so", "wrapped round", "a hole in it", "shorter than it was", "its newest gone"],
)
def test_a_log_whose_known_lines_are_gone_tells_nothing_of_the_run(bmc: Bmc, before: Any, after: Any) -> None:
    bmc.tree[SEL]["Members"] = before
    first = take(bmc).log
    bmc.tree[SEL]["Members"] = after
    log = take(bmc, moment="end", before=first).log
    assert "lines known from the start are gone" in log.missing and "LogServices.SEL" in log.missing


@pytest.mark.parametrize("turned", [False, True])
def test_a_full_log_that_drops_its_oldest_lines_is_read(bmc: Bmc, turned: bool) -> None:
    order = -1 if turned else 1
    bmc.tree[SEL]["Members"] = RING[::order]
    first = take(bmc).log
    bmc.tree[SEL]["Members"] = [*RING[2:], tree.entry(513, "OK", "a"), tree.entry(514, "Warning", "slow fan")][::order]
    log = take(bmc, moment="end", before=first).log
    assert (log.missing, log.counts) == ("", {"Warning": 1, "OK": 1})


@pytest.mark.parametrize(
    ("said", "wanted"),
    [
        ({"Severity": "critical"}, "Critical"),
        ({"Severity": "WARNING"}, "Warning"),
        ({"Severity": None, "MessageSeverity": "Critical"}, "Critical"),
        ({"Severity": "Informational"}, "OK"),
        ({"Severity": "", "EntryCode": "Upper Critical - going high"}, "Critical"),
        ({"Severity": "", "EntryCode": "Lower Non-recoverable - going low"}, "Critical"),
        ({"Severity": "", "EntryCode": "Upper Non-critical - going high"}, "Warning"),
        ({"Severity": "", "EntryCode": "Transition to OK"}, "OK"),
        ({"Severity": "", "MessageId": "OpenBMC.0.1.PowerSupplyFailed"}, "Warning"),
        ({"Severity": "Grave"}, "Grave"),
        ({"Severity": ""}, ""),
    ],
)
def test_a_severity_is_read_however_a_bmc_writes_it(bmc: Bmc, said: dict[str, Any], wanted: str) -> None:
    before = take(bmc).log
    bmc.tree[SEL]["Members"].append({**tree.entry(3, "", "PSU1 lost AC"), **said})
    log = take(bmc, moment="end", before=before).log
    assert [one.severity for one in log.lines] == [wanted]
    assert log.counts == {wanted if wanted in ("Critical", "Warning", "OK") else "": 1}


def test_a_supply_tells_whether_its_feed_is_there(bmc: Bmc) -> None:
    bmc.tree[PSU]["LineInputStatus"] = "LossOfInput"
    first, second = take(bmc).supplies
    assert (first.line, first.ok, second.line, second.ok) == ("", True, "LossOfInput", False)
