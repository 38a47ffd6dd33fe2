"""What host_health takes from known machines: one counter is raised in a test, and one number of it shows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gpuburn.agent import acs, clock, command, errors, fabric, hardware
from gpuburn.agent.look import Look
from gpuburn.agent.nvml import Gpu, Seen
from gpuburn.agent.probes import host_health
from gpuburn.measurement import Fact, Reading
from gpuburn.plan import Device
from gpuburn.probe import discover
from tests.agent import machines

GOOD = {"warning": 0, "media_errors": 0, "used": 3, "spare": 100, "hours": 100}
SMART = {"nvme0n1": GOOD, "nvme1n1": {**GOOD, "hours": 120, "spare": 98}}
GPUS = [Device(f"gpu{at}", "cuda", pci=pci) for at, pci in enumerate(("0000:18:00.0", "0000:2a:00.0"))]
CARDS = Seen([Gpu(at, {"pci": one.pci, "memory": 80.0}) for at, one in enumerate(GPUS)], driver="550.90.07")


def taken(root: Path, smart: Any = SMART, cards: Seen = CARDS, devices: list[Device] = GPUS, told_acs: Any = None
          ) -> tuple[dict[str, float], dict[str, str]]:  # fmt: skip
    """Numbers and facts."""
    given = {"smart": smart, "acs": told_acs or {"bridges": 2, "redirecting": []}}
    found = list(host_health.read(Look(root), hardware.look(root), given, devices, cards))
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


def test_without_an_active_port_there_is_no_rate(hgx):
    hgx.write("sys/class/infiniband/mlx5_0/ports/1/state", "1: DOWN")
    numbers, facts = taken(hgx.root)
    assert "ib_rate" not in numbers and facts["ib_active"] == "none: no active port"


@pytest.mark.parametrize(
    ("key", "value", "metric"), [("warning", 4, "disk_warnings"), ("media_errors", 1, "disk_media_errors")]
)
def test_a_disk_that_warns_counts_once_and_is_named(hgx, key, value, metric):
    numbers, facts = taken(hgx.root, {**SMART, "nvme1n1": {**GOOD, key: value}})
    assert numbers[metric] == 1 and facts["odd"] == f"nvme1n1 {key} {value}"


def test_one_silent_disk_leaves_no_nought_but_hides_no_fault(hgx):
    silent = {"nvme0n1": {"unknown": "gave no answer in time"}, "nvme1n1": {**GOOD, "warning": 1}}
    numbers, facts = taken(hgx.root, silent)
    assert facts["smart"] == "unknown: nvme0n1: gave no answer in time" == facts["smart_nvme"]
    assert {name: value for name, value in numbers.items() if name.startswith("disk")} == {"disk_warnings": 1}


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
    told = clock.Timex(status=status, offset=1_500_000, esterror=250)
    assert clock.of(state, told) == clock.Clock(synchronised, offset, 0.25)


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
    found = list(host_health.read(Look(tmp_path), hardware.look(tmp_path), given, [], Seen()))
    [edac] = [one.value for one in found if isinstance(one, Fact) and one.name == "edac"]
    assert edac.startswith(told)
