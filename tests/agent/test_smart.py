"""What disks say of their health, in the words of smartctl and nvme; and programs that hang, shout or are not there."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from gpuburn.agent import command, privileged, smart
from gpuburn.agent.look import Look
from gpuburn.probe import discover
from gpuburn.strict import Refused
from tests.agent import machines

LOG = {"critical_warning": 0, "temperature": 34, "available_spare": 100, "available_spare_threshold": 10,
       "percentage_used": 3, "power_on_hours": 4711, "media_errors": 0, "num_err_log_entries": 5}  # fmt: skip
SATA = {
    "smart_status": {"passed": True}, "power_on_time": {"hours": 30000},
    "ata_smart_attributes": {"table": [
        {"id": 5, "name": "Reallocated_Sector_Ct", "raw": {"value": 8, "string": "8"}},
        {"id": 197, "name": "Current_Pending_Sector", "raw": {"value": 2}},
        {"id": 198, "name": "Offline_Uncorrectable", "raw": {"value": 1}},
    ]},
}  # fmt: skip
SAS = {
    "smart_status": {"passed": True}, "power_on_time": {"hours": 12}, "scsi_grown_defect_list": 4,
    "scsi_error_counter_log": {"read": {"total_uncorrected_errors": 1}, "write": {"total_uncorrected_errors": 0}},
}  # fmt: skip


def said(document: object) -> bytes:
    return json.dumps(document).encode()


def nvme(**changed: object) -> bytes:
    return said({"nvme_smart_health_information_log": {**LOG, **changed}, "smart_status": {"passed": True}})


def test_an_nvme_tells_wear_hours_and_errors():
    assert smart.parse(nvme()) == {"warning": 0, "media_errors": 0, "used": 3, "spare": 100, "hours": 4711}


@pytest.mark.parametrize(("document", "key", "wanted"), [
    (nvme(critical_warning=4), "warning", 4), (nvme(media_errors=7), "media_errors", 7),
    (nvme(percentage_used=104), "used", 104),
    (said({"nvme_smart_health_information_log": LOG, "smart_status": {"passed": False}}), "warning", 1),
    (said({**SATA, "smart_status": {"passed": False}}), "warning", 1),
])  # fmt: skip
def test_each_fault_of_a_disk_shows(document, key, wanted):
    assert smart.parse(document)[key] == wanted


def test_a_sata_and_a_sas_disk_tell_replaced_and_lost_sectors():
    assert smart.parse(said(SATA)) == {"warning": 0, "reallocated": 8, "media_errors": 2, "hours": 30000}
    assert smart.parse(said(SAS)) == {"warning": 0, "reallocated": 4, "media_errors": 1, "hours": 12}


@pytest.mark.parametrize(("raw", "wanted"), [
    ({"value": 65544, "string": "8 (1)"}, 8), ({"value": 65544}, 8), ({"value": 8, "string": ""}, 8),
    ({"value": 70000, "string": "70000"}, 70000), ({}, None),
])  # fmt: skip
def test_replaced_sectors_are_the_low_part_of_what_the_disk_packs_together(raw, wanted):
    table = {"table": [{"id": 5, "raw": raw}, {"id": 197, "raw": {"value": 65544, "string": "65544"}}]}
    found = smart.parse(said({"smart_status": {"passed": True}, "ata_smart_attributes": table}))
    assert found.get("reallocated") == wanted and found["media_errors"] == 65544


@pytest.mark.parametrize("worn", [
    {"scsi_percentage_used_endurance_indicator": 11}, {"endurance_used": {"current_percent": 11}},
    {"scsi_percentage_used_endurance_indicator": 11, "endurance_used": {"current_percent": 12}},
])  # fmt: skip
def test_a_sas_and_a_sata_disk_tell_their_wear(worn):
    told = {"smart_status": {"passed": True}, "power_on_time": {"hours": 26195, "minutes": 0}, **worn}
    assert smart.parse(said(told)) == {"warning": 0, "used": 11, "hours": 26195}
    assert smart.parse(said({**SATA, "endurance_used": {"current_percent": 4}}))["used"] == 4


def test_a_sas_disk_that_does_not_assess_itself_tells_what_it_counts():
    log = {"read": {"total_uncorrected_errors": 2}}
    counted = {"scsi_grown_defect_list": 3, "scsi_error_counter_log": log}
    assert smart.parse(said(counted)) == {"reallocated": 3, "media_errors": 2}
    with pytest.raises(Refused):
        smart.parse(said({"power_on_time": {"hours": 3}}))


@pytest.mark.parametrize("document", [
    b"", b"{", b"[]", b"null", b'{"smart_status": 1}', b'{"smart_status": {"passed": "yes"}}', b'{"a": NaN}',
    said({"smartctl": {"messages": [{"string": "Permission denied"}]}}),
    said({"nvme_smart_health_information_log": {"critical_warning": -1}}),
    said({"nvme_smart_health_information_log": {"critical_warning": True}}),
])  # fmt: skip
def test_an_answer_without_the_disks_health_is_refused(document):
    with pytest.raises(Refused):
        smart.parse(document)


def test_a_disk_that_says_that_it_has_no_smart_has_none():
    """As recorded of a RAID controller's virtual disk: SMART support is Unavailable - device lacks SMART capability."""
    virtual = {"device": {"type": "scsi"}, "scsi_vendor": "DELL", "scsi_product": "PERC H755 Front"}
    assert smart.parse(said({**virtual, "smart_support": {"available": False}})) == {"none": "it has no SMART"}
    with pytest.raises(Refused):
        smart.parse(said({**virtual, "smart_support": {"available": True, "enabled": False}}))
    assert smart.parse(said({**SAS, "smart_support": {"available": False}}))["reallocated"] == 4


def test_the_tools_own_reason_is_told():
    with pytest.raises(Refused, match="Permission denied"):
        smart.parse(said({"smartctl": {"messages": [{"string": "Smartctl open device: Permission denied"}]}}))


@pytest.mark.parametrize("warning", [0, {"value": 0, "available_spare": 0}])
def test_the_other_tools_words_in_both_of_its_forms(warning):
    log = {"critical_warning": warning, "avail_spare": 99, "percent_used": 1, "power_on_hours": "77", "media_errors": 0}
    assert smart.parse_nvme(said(log)) == {"warning": 0, "spare": 99, "used": 1, "hours": 77, "media_errors": 0}


def test_whole_numbers_with_a_point_are_counts_and_others_are_not():
    log = {"critical_warning": 0, "avail_spare": 100, "percent_used": 0, "power_on_hours": 38313.0, "media_errors": 0.0}
    whole = {"warning": 0, "spare": 100, "used": 0, "hours": 38313, "media_errors": 0}
    assert smart.parse_nvme(said(log)) == whole
    broken = smart.parse_nvme(said({**log, "media_errors": 0.5, "power_on_hours": -1.0, "percent_used": 1e300}))
    assert broken == {"warning": 0, "spare": 100}


@given(st.binary(max_size=200) | st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=9),
    lambda more: st.lists(more, max_size=3) | st.dictionaries(
        st.sampled_from(["smart_status", "passed", "nvme_smart_health_information_log", "critical_warning", "table",
                         "id", "ata_smart_attributes", "raw", "value", "smartctl", "messages", "string"]), more,
        max_size=4),
).map(said))  # fmt: skip
def test_whatever_a_tool_writes_is_counts_or_refused(document):
    try:
        found = smart.parse(document)
    except Refused:
        return
    assert "warning" in found and all(isinstance(one, int) and one >= 0 for one in found.values())


@pytest.fixture
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "tools"
    folder.mkdir()
    monkeypatch.setattr(command, "PLACES", f"{folder}:/usr/bin:/bin")
    return folder


def tool(folder: Path, name: str, body: str) -> None:
    path = folder / name
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)


def test_every_disk_of_the_machine_is_asked_by_itself(tools, tmp_path):
    machines.hgx(tmp_path / "root")
    bad = nvme(critical_warning=1).decode()
    tool(tools, "smartctl", f"case $3 in */nvme0n1) echo '{nvme().decode()}';; *) echo '{bad}'; exit 8;; esac")
    found = smart.read(Look(tmp_path / "root"))
    assert {name: one["warning"] for name, one in found.items()} == {"nvme0n1": 0, "nvme1n1": 1}


def test_a_hidden_path_to_a_disk_is_not_asked(tools, tmp_path):
    one = machines.Machine(tmp_path / "root")
    one.many_paths("nvme0n1", "nvme0c0n1", "pci0000:45/0000:46:00.0", "nvme0")
    tool(tools, "smartctl", f"case $3 in */nvme0n1) echo '{nvme().decode()}';; *) exit 2;; esac")
    assert {name: one["warning"] for name, one in smart.read(Look(tmp_path / "root")).items()} == {"nvme0n1": 0}


def test_without_smartctl_nvme_is_asked_and_without_both_the_reason_is_told(tools, tmp_path):
    machines.hgx(tmp_path / "root")
    seen = Look(tmp_path / "root")
    assert smart.read(seen)["nvme0n1"] == {"unknown": "smartctl is not installed, nor is nvme"}
    tool(tools, "nvme", """echo '{"critical_warning": 0, "percent_used": 9}'""")
    assert smart.read(seen)["nvme0n1"] == {"warning": 0, "used": 9}


def test_a_disk_without_an_answer_costs_the_others_nothing(tools, tmp_path):
    machines.hgx(tmp_path / "root")
    tool(tools, "smartctl", f"case $3 in */nvme0n1) echo oops;; *) echo '{nvme().decode()}';; esac")
    found = smart.read(Look(tmp_path / "root"))
    assert "unknown" in found["nvme0n1"] and found["nvme1n1"]["warning"] == 0


def test_a_program_that_hangs_is_left_with_a_reason(tools):
    tool(tools, "hangs", "echo begun; exec sleep 600")
    with pytest.raises(command.SilentError, match="no answer in time"):
        command.answer([command.found("hangs")], 0.05)


def test_a_program_that_shouts_is_cut_off(tools):
    tool(tools, "shouts", "exec cat /dev/zero")
    with pytest.raises(command.SilentError, match="more than"):
        command.answer([command.found("shouts")], 30.0)


def test_a_program_that_is_not_there_is_a_reason():
    with pytest.raises(command.SilentError, match="No such file"):
        command.answer(["/nowhere/smartctl"], 1.0)


def test_programs_are_taken_from_the_systems_places_alone(tmp_path, monkeypatch):
    tool(tmp_path, "smartctl-of-mine", "echo no")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert command.found("smartctl-of-mine") == ""


def test_without_root_nothing_is_asked(monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert privileged.read(("smart", "acs")) == {"smart": privileged.NEEDS_ROOT, "acs": privileged.NEEDS_ROOT}


def test_what_a_probe_asks_for_can_be_read():
    assert {name for one in discover().values() for name in one.reads} == set(privileged.READERS)


def test_what_nobody_can_read_is_refused():
    with pytest.raises(Refused, match="smrat"):
        privileged.read(("smrat",))
