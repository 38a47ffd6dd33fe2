"""What host_health takes from known machines: one counter is raised in a test, and one number of it shows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gpuburn.agent import acs, clock, command, errors, fabric, hardware, nics, vpd
from gpuburn.agent.look import Look
from gpuburn.agent.nvml import Gpu, Seen
from gpuburn.agent.probes import host_health, identity
from gpuburn.measurement import Fact, Reading
from gpuburn.plan import Device
from gpuburn.probe import discover
from tests.agent import machines

GOOD = {"warning": 0, "media_errors": 0, "used": 3, "spare": 100, "hours": 100}
SMART = {"nvme0n1": GOOD, "nvme1n1": {**GOOD, "hours": 120, "spare": 98}}
GPUS = [Device(f"gpu{at}", "cuda", pci=pci) for at, pci in enumerate(("0000:18:00.0", "0000:2a:00.0"))]
CARDS = Seen([Gpu(at, {"pci": one.pci, "memory": 80.0}) for at, one in enumerate(GPUS)], driver="550.90.07")


def taken(root: Path, smart: Any = SMART, cards: Seen = CARDS, devices: list[Device] = GPUS, told_acs: Any = None,
          bridges: Any = None, role: str = "data") -> tuple[dict[str, float], dict[str, str]]:  # fmt: skip
    """Numbers and facts."""
    given = {"smart": smart, "acs": told_acs or {"bridges": 2, "redirecting": []},
             "bridges": bridges or {"addresses": []}}  # fmt: skip
    found = list(host_health.read(Look(root), hardware.look(root), given, devices, cards, [role]))
    readings = [one for one in found if isinstance(one, Reading)]
    facts = [one for one in found if isinstance(one, Fact)]
    assert len({one.metric for one in readings}) == len(readings) and len({one.name for one in facts}) == len(facts)
    return {one.metric: one.value for one in readings}, {one.name: one.value for one in facts}


@pytest.fixture
def hgx(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> machines.Machine:
    tools = tmp_path / "tools"
    tools.mkdir()
    (tools / "nv-fabricmanager").write_text("#!/bin/sh\necho Fabric Manager version is : 550.90.07\n")
    (tools / "nv-fabricmanager").chmod(0o755)
    monkeypatch.setattr(command, "PLACES", f"{tools}:/usr/bin:/bin")
    monkeypatch.setattr(clock, "clock", lambda: clock.Clock(True, -0.25, 0.5))
    one = machines.hgx(tmp_path / "root")
    one.write("sys/module/nvidia/version", "550.90.07")
    return one


def test_a_sound_server_gives_every_number(hgx):
    numbers, facts = taken(hgx.root)
    assert set(numbers) == set(discover()["host_health"].metrics) - {"disk_reallocated"}
    assert numbers.pop("memory_ratio") == pytest.approx(2015.5 / 160, abs=0.01)
    assert numbers == {
        "aer_correctable": 0, "aer_nonfatal": 0, "aer_fatal": 0, "memory_corrected": 0, "memory_uncorrected": 0,
        "ib_symbol_errors": 0, "ib_link_downed": 0, "ib_recoveries": 0, "ib_receive_errors": 0, "ib_down": 0,
        "ib_rate": 50, "nic_up": 1, "nic_speed": 50, "nic_carrier_changes": 2, "disk_warnings": 0,
        "disk_silent": 0,
        "disk_media_errors": 0, "disk_used": 3, "disk_spare": 98, "disk_hours": 120, "swap": 0, "numa_nodes": 2,
        "clock_unsynchronised": 0, "clock_offset": 0.25, "clock_error": 0.5, "driver_differs": 0, "fabric_differs": 0,
    }  # fmt: skip
    assert (
        facts["odd"] == "nothing" and facts["governor"] == "performance" and facts["smart_ata"] == "none: no such disk"
    )
    assert facts["iommu"] == "on: 1 groups; iommu=pt" and facts["fabric_manager"] == "550.90.07"
    assert facts["acs"] == "redirecting on 0 of 2 bridges: none"
    assert facts["aer"] == "read of 7 of 7 devices"  # 2 GPUs, their 2 ports, the adapter, 2 NVMe


@pytest.mark.parametrize("kind", ["correctable", "nonfatal", "fatal"])
@pytest.mark.parametrize("device", ["0000:18:00.0", "0000:05:01.0"])
def test_a_pci_error_of_a_gpu_or_of_the_port_over_it_is_counted_and_named(tmp_path, kind, device):
    one = machines.Machine(tmp_path)
    port = "pci0000:05/0000:05:01.0"
    one.pci(port, "0x8086", "0x352a", "0x060400")
    one.pci(f"{port}/0000:18:00.0", "0x10de", "0x2330", "0x030200")
    one.aer(f"sys/devices/{port}/0000:18:00.0" if device.startswith("0000:18") else f"sys/devices/{port}", **{kind: 7})
    found = errors.aer(Look(tmp_path), ["0000:18:00.0"])
    assert found.numbers == {**dict.fromkeys(errors.AER, 0.0), kind: 7.0} and found.odd == [f"{device} {kind} 7"]


@pytest.mark.parametrize(("file", "value", "metric", "wanted"), [
    ("sys/devices/system/edac/mc/mc0/ce_count", "5", "memory_corrected", 5),
    ("sys/devices/system/edac/mc/mc0/ue_count", "1", "memory_uncorrected", 1),
    ("sys/class/infiniband/mlx5_0/ports/1/counters/symbol_error", "9", "ib_symbol_errors", 9),
    ("sys/class/infiniband/mlx5_0/ports/1/counters/link_downed", "2", "ib_link_downed", 2),
    ("sys/class/infiniband/mlx5_0/ports/1/counters/link_error_recovery", "3", "ib_recoveries", 3),
    ("sys/class/infiniband/mlx5_0/ports/1/counters/port_rcv_errors", "4", "ib_receive_errors", 4),
    ("sys/class/infiniband/mlx5_0/ports/1/state", "1: DOWN", "ib_down", 1),
    ("sys/class/net/ens1/carrier_changes", "40", "nic_carrier_changes", 40),
    ("sys/module/nvidia/version", "535.1", "driver_differs", 1),
])  # fmt: skip
def test_each_fault_changes_its_number_and_no_other_counter(hgx, file, value, metric, wanted):
    before, _ = taken(hgx.root)
    hgx.write(file, value)
    after, facts = taken(hgx.root)
    assert after[metric] == wanted
    assert {name for name in before if before[name] != after.get(name)} <= {metric, "ib_rate"}
    assert (facts["odd"] != "nothing") == metric.startswith(("memory_", "ib_"))


def test_which_links_are_up_and_how_fast_is_told_for_the_fleet_to_compare(hgx):
    _, facts = taken(hgx.root)
    count = facts["infiniband"].split()[2]
    assert facts["ib_active"] == f"{count} of {count} ports" and facts["nics_up"].endswith(" 400000 Mbit/s")


def test_a_size_of_memory_that_is_none_is_a_reason_and_no_crash(hgx):
    hgx.write("proc/meminfo", "MemTotal: abc kB\nSwapTotal: 12\n")
    look = hardware.look(hgx.root)
    assert look.missing["memory.total"] == "MemTotal in /proc/meminfo is 'abc kB', which is no size"
    assert "memory.swap" in look.missing
    numbers, facts = taken(hgx.root)
    assert "memory_ratio" not in numbers and facts["gpu_memory"].startswith("unknown")
    assert "memory" not in {one.metric for one in identity.counts(look, CARDS) if isinstance(one, Reading)}


def test_without_an_active_port_there_is_no_rate(hgx):
    hgx.write("sys/class/infiniband/mlx5_0/ports/1/state", "1: DOWN")
    numbers, facts = taken(hgx.root)
    assert "ib_rate" not in numbers and facts["ib_active"] == "none: no active port"


@pytest.mark.parametrize(
    ("key", "value", "metric"), [("warning", 4, "disk_warnings"), ("media_errors", 1, "disk_media_errors")]
)
def test_a_disk_that_warns_counts_once_and_is_named(hgx, key, value, metric):
    numbers, facts = taken(hgx.root, {**SMART, "nvme1n1": {**GOOD, key: value}})
    assert numbers[metric] == 1 and facts["odd"] == f"nvme1n1 (data) {key} {value}"


def test_one_silent_disk_is_named_and_counted_and_the_others_are_judged(hgx):
    silent = {"nvme0n1": {"unknown": "gave no answer in time"}, "nvme1n1": {**GOOD, "warning": 1}}
    numbers, facts = taken(hgx.root, silent)
    assert facts["smart"] == "read of 1 disks (nvme1n1); nvme0n1: gave no answer in time"
    assert facts["smart_nvme"] == "1 disks"
    assert numbers["disk_warnings"] == numbers["disk_silent"] == 1 and numbers["disk_media_errors"] == 0


def test_a_virtual_disk_without_smart_is_named_and_nothing_is_missed_of_it(hgx):
    sound, _ = taken(hgx.root)
    numbers, facts = taken(hgx.root, {**SMART, "sda": {"none": "it has no SMART"}})
    assert numbers == sound and facts["smart"] == "read of 2 disks (nvme0n1, nvme1n1); sda: it has no SMART"
    numbers, facts = taken(hgx.root, {"sda": {"none": "it has no SMART"}})
    assert facts["smart"] == "none: sda: it has no SMART" == facts["smart_nvme"]
    assert not [name for name in numbers if name.startswith("disk")]


def test_where_every_disk_is_silent_there_is_no_number(hgx):
    numbers, facts = taken(hgx.root, {"sda": {"unknown": "gave no answer in time"}})
    assert facts["smart"] == "unknown: sda: gave no answer in time" == facts["smart_ata"]
    assert not [name for name in numbers if name.startswith("disk")]


SSD = {"warning": 0, "media_errors": 0, "reallocated": 0, "used": 4, "hours": 7}
COUNTING = {"media_errors": 0, "reallocated": 3, "hours": 9}


def test_wear_is_told_of_every_kind_of_disk_and_spare_blocks_of_nvme_alone(hgx):
    numbers, facts = taken(hgx.root, {"sda": SSD})
    assert numbers["disk_used"] == 4 and facts["smart_wear"] == "1 disks"
    assert "disk_spare" not in numbers and facts["smart_nvme"] == "none: no such disk"


def test_a_disk_that_does_not_assess_itself_is_counted_for_what_it_counts(hgx):
    numbers, facts = taken(hgx.root, {"sda": COUNTING})
    assert (numbers["disk_media_errors"], numbers["disk_reallocated"]) == (0, 3) and "disk_warnings" not in numbers
    assert facts["smart"] == "read of 1 disks (sda)" and facts["smart_warns"] == "none: no such disk"
    assert taken(hgx.root, {"sda": COUNTING, "sdb": {**SSD, "warning": 1}})[0]["disk_warnings"] == 1


def test_the_disk_that_holds_the_system_is_told_apart_from_the_others(hgx):
    hgx.holds("sys/block/nvme0n1")
    worn = {"nvme0n1": {**GOOD, "media_errors": 2, "used": 60}, "nvme1n1": {**GOOD, "warning": 4}}
    system, facts = taken(hgx.root, worn, role="system")
    assert (system["disk_media_errors"], system["disk_used"], system["disk_warnings"]) == (2, 60, 0)
    assert facts["smart"] == "read of 1 disks (nvme0n1)" and facts["odd"] == "nvme0n1 (system) media_errors 2"
    data, facts = taken(hgx.root, worn, role="data")
    assert (data["disk_media_errors"], data["disk_used"], data["disk_warnings"]) == (0, 3, 1)
    assert facts["smart"] == "read of 1 disks (nvme1n1)" and facts["odd"] == "nvme1n1 (data) warning 4"


def test_a_role_that_no_disk_has_is_none_and_where_nobody_tells_all_disks_are_data(hgx):
    numbers, facts = taken(hgx.root, role="system")
    assert facts["smart"] == "none: no system disk that shows" and not [n for n in numbers if n.startswith("disk")]
    hgx.holds("sys/block/nvme0n1")
    numbers, facts = taken(hgx.root, {"nvme0n1": GOOD}, role="data")
    assert facts["smart"] == "none: no data disk that shows" and not [n for n in numbers if n.startswith("disk")]


def test_disks_that_only_root_may_ask_are_unknown(hgx):
    numbers, facts = taken(hgx.root, {"unknown": "needs root"}, told_acs={"unknown": "needs root"})
    assert not [name for name in numbers if name.startswith("disk")]
    assert facts["smart"] == facts["acs"] == "unknown: needs root"


def test_a_guest_says_what_it_has_not_and_what_it_cannot_ask(tmp_path):
    machines.vm(tmp_path)
    numbers, facts = taken(tmp_path, {"vda": {"unknown": "smartctl is not installed"}})
    assert facts["aer"].startswith("unknown: the kernel keeps no AER") and facts["edac"].startswith("unknown: no EDAC")
    assert facts["infiniband"] == "none: no InfiniBand port" and facts["governor"] == "none: no cpufreq"
    assert not {"aer_fatal", "memory_uncorrected", "ib_down", "disk_warnings"} & set(numbers)


def test_a_counter_file_of_another_shape_is_not_read_as_nought(hgx):
    hgx.write("sys/devices/system/edac/mc/mc0/ue_count", "many")
    numbers, facts = taken(hgx.root)
    assert "memory_uncorrected" not in numbers and facts["edac"].startswith("unknown: ")


def test_switches_without_a_fabric_manager_are_told(hgx, monkeypatch):
    monkeypatch.setattr(command, "PLACES", "/nowhere")
    numbers, facts = taken(hgx.root)
    assert (
        facts["fabric_manager"] == "unknown: 1 NVSwitches and no nv-fabricmanager" and "fabric_differs" not in numbers
    )


@pytest.fixture
def b200(hgx, monkeypatch) -> machines.Machine:
    """The server's NVSwitch behind a function of a ConnectX-7, whose port has no link."""
    (hgx.root / "sys/bus/pci/devices/0000:85:00.0").unlink()
    bridge = hgx.nic("ibp9s0", "pci0000:08/0000:09:00.0", "00:00:00:00:00:09")
    hgx.write(f"{bridge}/vpd", b"\x82\x07\x00Bridge \x90\x0e\x00V0\x0bSMDL=SW_MNG\x78")
    hgx.port("mlx5_9", bridge, state="1: DOWN")
    monkeypatch.setattr(command, "PLACES", "/nowhere")
    return hgx


def test_switches_behind_an_adapter_need_a_fabric_manager_and_are_no_network(b200):
    assert nics.bridges(Look(b200.root)) == {"addresses": ["0000:09:00.0"]}
    numbers, facts = taken(b200.root, bridges={"addresses": ["0000:09:00.0"]})
    assert facts["fabric_manager"] == "unknown: 1 adapters that lead to NVSwitches and no nv-fabricmanager"
    assert (numbers["ib_down"], numbers["ib_rate"], numbers["nic_up"]) == (0, 50, 1) and facts["odd"] == "nothing"


def test_a_worker_that_may_not_read_who_an_adapter_is_goes_by_what_root_read(b200, monkeypatch):
    monkeypatch.setattr(vpd, "manages_switches", lambda seen, path: False)
    assert taken(b200.root)[0]["ib_down"] == 1
    assert taken(b200.root, bridges={"addresses": ["0000:09:00.0"]})[0]["ib_down"] == 0


def test_without_root_nobody_knows_whether_an_adapter_leads_to_switches(b200):
    told = taken(b200.root, bridges={"unknown": "needs root"})[1]["fabric_manager"]
    assert told.startswith("unknown: no nv-fabricmanager") and told.endswith("needs root")


def test_a_tray_of_a_larger_fabric_needs_no_fabric_manager(tmp_path, monkeypatch):
    """GB200: no switch, and no adapter that leads to one."""
    monkeypatch.setattr(command, "PLACES", "/nowhere")
    one = machines.Machine(tmp_path)
    one.port("mlx5_0", one.nic("ens1", "pci0000:35/0000:36:00.0", "b8:3f:d2:aa:00:01"))
    assert fabric.manager(Look(tmp_path), nics.bridges(Look(tmp_path))) == "none: not installed, and no NVSwitch"


def test_a_fabric_manager_of_another_version_differs(hgx):
    numbers, _ = taken(hgx.root, cards=Seen(CARDS.gpus, driver="550.127.05"))
    assert numbers["fabric_differs"] == 1


@pytest.mark.parametrize(("module", "library", "absent", "told", "differs"), [
    ("", "", "Driver Not Loaded", "none: no NVIDIA driver is loaded", None), ("550.1", "550.1", "", "550.1", False),
    ("550.1", "", "Driver/library version mismatch", "module 550.1, library of another version", True),
    ("550.1", "535.2", "", "module 550.1, library 535.2", True),
    ("550.1", "", "Unknown Error", "unknown: module 550.1, and NVML tells none: Unknown Error", None),
])  # fmt: skip
def test_driver_and_library(tmp_path, module, library, absent, told, differs):
    one = machines.Machine(tmp_path)
    if module:
        one.write("sys/module/nvidia/version", module)
    assert fabric.driver(Look(tmp_path), library, absent) == (told, differs)


def test_memory_is_compared_only_where_every_planned_gpu_tells_its_own(hgx):
    numbers, facts = taken(hgx.root, cards=Seen(CARDS.gpus[:1], driver="550.90.07"))
    assert "memory_ratio" not in numbers and facts["gpu_memory"].startswith("unknown: 1 of 2 planned GPUs")
    assert taken(hgx.root, devices=[])[1]["gpu_memory"] == "none: no GPU is planned"


def test_governors_that_differ_are_all_named(hgx):
    hgx.write("sys/devices/system/cpu/cpu3/cpufreq/scaling_governor", "powersave")
    assert taken(hgx.root)[1]["governor"] == "mixed: performance, powersave"


@pytest.mark.parametrize(("state", "status", "synchronised", "offset"), [
    (0, 0x2001, True, 1.5), (0, 0x0001, True, 1500.0), (5, 0x2001, False, 1.5), (0, 0x2040, False, 1.5),
])  # fmt: skip
def test_the_kernels_clock(state, status, synchronised, offset):
    told = clock.Timex(status=status, offset=1_500_000, esterror=250, maxerror=16_000_000)
    found = clock.of(state, told)
    assert found == clock.Clock(synchronised, offset, 0.25)
    assert found.told == ("synchronised" if synchronised else "not synchronised")


@pytest.mark.parametrize(("status", "maxerror", "told"), [
    (0x0040, 17288, "kept, not marked"), (0x0040, 15_999_999, "kept, not marked"),
    (0x0040, 16_000_000, "not synchronised"), (0x1040, 17288, "not synchronised"),
])  # fmt: skip
def test_a_clock_that_is_kept_without_a_mark_is_kept(hgx, monkeypatch, status, maxerror, told):
    """chrony without rtcsync leaves STA_UNSYNC, for which adjtimex answers TIME_ERROR, and writes both errors."""
    found = clock.of(5, clock.Timex(status=status, maxerror=maxerror, esterror=200))
    monkeypatch.setattr(clock, "clock", lambda: found)
    numbers, facts = taken(hgx.root)
    assert facts["clock"] == told and numbers["clock_error"] == 0.2
    assert numbers["clock_unsynchronised"] == (told == "not synchronised")


def test_a_sandbox_that_hides_the_clock_is_a_reason(hgx, monkeypatch):
    monkeypatch.setattr(clock, "clock", lambda: clock.Clock(why="adjtimex: Operation not permitted"))
    numbers, facts = taken(hgx.root)
    assert facts["clock"] == "unknown: adjtimex: Operation not permitted"
    assert not [name for name in numbers if name.startswith("clock")]


def config(*capabilities: tuple[int, int]) -> bytes:
    """A configuration space with these extended capabilities (id, control at offset 6), one after the other."""
    space = bytearray(4096)
    for index, (kind, register) in enumerate(capabilities):
        at, last = 0x100 + 0x10 * index, index == len(capabilities) - 1
        space[at : at + 4] = (kind | 1 << 16 | (0 if last else at + 0x10) << 20).to_bytes(4, "little")
        space[at + 6 : at + 8] = register.to_bytes(2, "little")
    return bytes(space)


@pytest.mark.parametrize(("space", "wanted"), [
    (config((0x0001, 9), (0x000D, 0x1D)), 0x1D), (config((0x0001, 9)), None), (b"", None), (config()[:64], None),
    ((0x0001 | 0x100 << 20).to_bytes(4, "little").rjust(0x104, b"\0") + bytes(64), None),
])  # fmt: skip
def test_access_control_services_are_found_in_the_chain(space, wanted):
    assert acs.control(space) == wanted


def test_bridges_that_redirect_are_named(tmp_path):
    one = machines.hgx(tmp_path)
    assert acs.read(Look(tmp_path)) == {"unknown": "no bridge shows access control services"}
    one.write("sys/devices/pci0000:05/0000:05:01.0/config", config((0x000D, 0x1D)))
    assert acs.read(Look(tmp_path)) == {"bridges": 1, "redirecting": ["0000:05:01.0"]}


@pytest.mark.parametrize(
    ("checked", "told"), [(0, "none: the host's memory has no ECC"), (2, "unknown: no EDAC driver")]
)
def test_memory_without_ecc_has_no_errors_to_count_and_memory_with_it_must_be_counted(tmp_path, checked, told):
    machines.workstation(tmp_path)
    given = {"ecc": {"modules": 2, "checked": checked}}
    found = list(host_health.read(Look(tmp_path), hardware.look(tmp_path), given, [], Seen(), ["data"]))
    [edac] = [one.value for one in found if isinstance(one, Fact) and one.name == "edac"]
    assert edac.startswith(told)
