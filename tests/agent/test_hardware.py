"""The readers of /proc and /sys on a made-up machine, a bare one and a hostile one."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from gpuburn import identity, strict
from gpuburn.agent import hardware
from gpuburn.agent.host import Host
from gpuburn.agent.nvml import Gpu, Seen
from gpuburn.agent.probes import identity as probe_file
from gpuburn.evidence import amounts
from gpuburn.probe import discover
from tests.agent import machines

ROOT = Path(__file__).parents[2]
GPU = "0000:18:00.0"
FILES = {
    "proc/sys/kernel/osrelease": "6.8.0-45-generic\n",
    "proc/sys/kernel/hostname": "r12-u07\n",
    "proc/sys/kernel/random/boot_id": "5b1c8c0e-1111-2222-3333-444455556666\n",
    "proc/cpuinfo": "model name\t: Xeon 8480C\nmicrocode\t: 0x2b\n\nprocessor\t: 1\nmodel name\t: other\n",
    "proc/meminfo": "MemTotal:       2113407228 kB\nMemFree: 1 kB\n",
    "etc/os-release": 'NAME="Ubuntu"\nPRETTY_NAME="Ubuntu 24.04.1 LTS"\n',
    "sys/class/dmi/id/product_name": "DGXH200\n",
    "sys/class/dmi/id/product_serial": "1660224000123\n",
    "sys/class/dmi/id/board_serial": "To be filled by O.E.M.\n",
    "sys/class/dmi/id/product_uuid": "00000000-0000-0000-0000-000000000000\n",
    "sys/class/dmi/id/chassis_serial": "\n",
    "sys/devices/system/cpu/online": "0-111,224\n",
    "sys/block/nvme0n1/size": "7501476528\n",
    "sys/block/nvme0n1/device/model": "SAMSUNG MZQL23T8HCLS-00A07              \n",
    "sys/block/nvme0n1/device/serial": "S64HNE0R123456\n",
    "sys/block/nvme0n1/device/firmware_rev": "GDC5602Q\n",
    "sys/block/loop0/size": "0\n",
    "sys/block/dm-0/size": "1\n",
    "sys/class/net/lo/address": "00:00:00:00:00:00\n",
    "sys/class/net/eth0/address": "b8:ce:f6:00:00:01\n",
    "sys/class/net/eth0/speed": "400000\n",
    "sys/class/net/eth1/address": "b8:ce:f6:00:00:02\n",
    "sys/class/net/eth1/speed": "-1\n",
    f"sys/bus/pci/devices/{GPU}/vendor": "0x10de\n",
    f"sys/bus/pci/devices/{GPU}/class": "0x030200\n",
    f"sys/bus/pci/devices/{GPU}/device": "0x2335\n",
    f"sys/bus/pci/devices/{GPU}/current_link_speed": "32.0 GT/s PCIe\n",
    f"sys/bus/pci/devices/{GPU}/current_link_width": "16\n",
    "sys/bus/pci/devices/0000:05:00.0/vendor": "0x10de\n",
    "sys/bus/pci/devices/0000:05:00.0/class": "0x068000\n",  # an NVSwitch
    "sys/bus/pci/devices/0000:06:00.0/vendor": "0x1a03\n",
    "sys/bus/pci/devices/0000:06:00.0/class": "0x030000\n",  # the BMC's VGA
}
LINKS = {
    f"sys/bus/pci/devices/{GPU}/driver": "bus/pci/drivers/nvidia",
    "sys/class/net/eth0/device": "../../../bus/pci/devices/0000:2a:00.0",
    "sys/class/net/eth1/device": "../../../bus/pci/devices/0000:2b:00.0",
    "sys/bus/pci/devices/0000:2a:00.0/driver": "bus/pci/drivers/mlx5_core",
}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    for address in ("0000:2a:00.0", "0000:2b:00.0"):
        folder = tmp_path / "sys/bus/pci/devices" / address
        folder.mkdir()
        (folder / "vendor").write_text("0x15b3\n")
        (folder / "class").write_text("0x020000\n")
    for name, target in LINKS.items():
        os.symlink(target, tmp_path / name)
    return tmp_path


def test_every_source_stands_by_itself(root):
    seen = hardware.look(root)
    assert seen.boot_id == "5b1c8c0e-1111-2222-3333-444455556666"
    assert seen.value("os.kernel") == "6.8.0-45-generic" and seen.value("os.release") == "Ubuntu 24.04.1 LTS"
    assert seen.sources["cpu"] == {"model": "Xeon 8480C", "microcode": "0x2b", "online": "0-111,224", "count": "113"}
    assert seen.value("memory.total") == "2113407228 kB"
    assert seen.sources["dmi"] == {"product_name": "DGXH200", "product_serial": "1660224000123"}
    assert seen.value("disk.nvme0n1.serial") == "S64HNE0R123456"
    assert seen.value("disk.nvme0n1.model") == "SAMSUNG MZQL23T8HCLS-00A07"


def test_what_is_required_of_an_identity_is_read_or_named(root):
    seen = hardware.look(root)
    for name in (*identity.REQUIRED, *identity.NEEDS_ROOT):
        assert bool(seen.value(name)) != (name in seen.missing), name


def test_filler_is_absent_and_named(root):
    missing = hardware.look(root).missing
    assert missing["dmi.board_serial"] == "filler: To be filled by O.E.M."
    assert missing["dmi.product_uuid"].startswith("filler: 00000000")
    assert missing["dmi.chassis_serial"] == "empty"
    assert missing["dmi.bios_version"].startswith("No such file")


def test_only_nvidias_display_and_3d_controllers_are_gpus(root):
    seen = hardware.look(root)
    assert hardware.gpus(seen) == [GPU]
    gpu = seen.sources[f"pci.{GPU}"]
    assert (gpu["address"], gpu["device"], gpu["current_link_width"], gpu["driver"]) == (GPU, "0x2335", "16", "nvidia")
    assert seen.missing[f"pci.{GPU}.max_link_width"].startswith("No such file")


def test_virtual_disks_and_interfaces_are_left_out(root):
    seen = hardware.look(root)
    assert hardware.named(seen, "disk") == ["disk.nvme0n1"]
    assert hardware.named(seen, "nic") == ["nic.eth0", "nic.eth1"]


def test_an_interface_without_link_or_driver_says_so(root):
    seen = hardware.look(root)
    assert seen.sources["nic.eth0"] == {
        "mac": "b8:ce:f6:00:00:01", "speed": "400000", "driver": "mlx5_core", "pci": "0000:2a:00.0",
    }  # fmt: skip
    assert "speed" not in seen.sources["nic.eth1"] and seen.missing["nic.eth1.speed"] == "no link: -1"
    assert seen.missing["nic.eth1.driver"] == "no driver is bound"


def test_a_gpu_without_driver_is_still_a_gpu(root):
    (root / f"sys/bus/pci/devices/{GPU}/driver").unlink()
    seen = hardware.look(root)
    assert seen.missing[f"pci.{GPU}.driver"] == "no driver is bound" and seen.value(f"pci.{GPU}.device") == "0x2335"


def test_an_empty_machine_raises_nothing_and_names_everything(tmp_path):
    seen = hardware.look(tmp_path)
    assert seen.sources == {} and seen.boot_id == ""
    assert {*identity.REQUIRED, *identity.NEEDS_ROOT, "os.boot_id", "sys.block", "sys.class.net"} <= set(seen.missing)


def test_a_file_that_may_not_be_read_is_named(root):
    path = root / "sys/class/dmi/id/product_serial"
    path.unlink()
    path.mkdir()
    assert hardware.look(root).missing["dmi.product_serial"].startswith("Is a directory")


def test_a_device_that_vanishes_while_it_is_read_is_named(root):
    (root / f"sys/bus/pci/devices/{GPU}/vendor").unlink()
    seen = hardware.look(root)
    assert hardware.gpus(seen) == [] and seen.missing[f"pci.{GPU}"].startswith("No such file")


def test_strings_are_bounded_and_have_no_control_characters(root):
    (root / "sys/class/dmi/id/product_name").write_bytes(b"\x1b[31mH200\x00\xff\n" + b"x" * 999)
    value = hardware.look(root).value("dmi.product_name")
    assert len(value) <= hardware.LENGTH and value.isprintable() and value.startswith("[31mH200")


def test_a_name_of_odd_bytes_is_no_source(root):
    os.mkdir(os.fsencode(root / "sys/block") + b"/s\xff\x1bda")
    seen = hardware.look(root)
    assert any("its name has" in why for why in seen.missing.values())
    assert strict.encode(seen)


@pytest.mark.parametrize(
    ("ranges", "count"), [("0", 1), ("0-3", 4), ("0-3,8,10-11", 7), ("", 0), ("x", 0), ("1-", 1), ("0-x", 0)]
)
def test_ranges_are_counted(ranges, count):
    assert hardware.count(ranges) == count


def test_this_machine_can_be_read():
    seen = hardware.look()
    assert all(seen.value(name) for name in identity.REQUIRED) and seen.boot_id


def test_neither_reader_needs_torch():
    reads = "import sys; from gpuburn.agent import hardware, nvml; hardware.look(); nvml.look()"
    command = [sys.executable, "-c", f"{reads}; print('torch' in sys.modules)"]
    assert subprocess.run(command, capture_output=True, check=True, cwd=ROOT).stdout.split() == [b"False"]


def test_the_probe_keeps_its_promises_on_this_machine(tmp_path):
    probe = discover()["identity"]
    measurements, facts, work = amounts(probe.run(Host("host", tmp_path, [], 1, 1)), [probe])
    promised = {name for name, fact in probe.facts.items() if "rehearsal" in fact.kinds}
    assert {m.name for m in measurements} == {f"identity.{name}" for name in probe.metrics}
    assert {f"identity.{name}" for name in promised} <= {fact.name for fact in facts}
    assert work[""].iterations == 1


def test_counts_of_a_known_machine(root):
    seen, cards = hardware.look(root), Seen([Gpu(0), Gpu(1)])
    told = {reading.metric: reading.value for reading in probe_file.counts(seen, cards)}
    assert told.pop("memory") == pytest.approx(2015.5, abs=0.1)
    assert told == {"cpus": 113, "gpus": 2, "gpus_pci": 1, "disks": 1, "nics": 2}


def test_what_could_not_be_listed_is_not_counted_as_none(tmp_path):
    told = {reading.metric for reading in probe_file.counts(hardware.look(tmp_path), Seen())}
    assert told == {"gpus"}


def test_an_hgx_server_tells_every_part_and_where_it_sits(tmp_path):
    machines.hgx(tmp_path)
    seen = hardware.look(tmp_path)
    assert hardware.gpus(seen) == ["0000:18:00.0", "0000:2a:00.0"]
    gpu = seen.sources["pci.0000:18:00.0"]
    assert (gpu["vendor"], gpu["device"], gpu["class"], gpu["numa_node"]) == ("0x10de", "0x2330", "0x030200", "0")
    assert (gpu["current_link_width"], gpu["max_link_speed"]) == ("16", "32.0 GT/s PCIe")
    assert hardware.named(seen, "dimm") == ["dimm.CPU0_DIMM_A1", "dimm.CPU0_DIMM_B1"]
    assert seen.sources["socket.CPU0"]["serial"] == "A1"
    assert (seen.value("cpu.sockets"), seen.value("cpu.cores"), seen.value("cpu.numa")) == ("2", "4", "0-1")
    assert seen.missing["pci.0000:2a:00.0.slot"].startswith("neither the board's tables")


def test_a_slots_name_is_found_at_the_port_over_the_device(tmp_path):
    one = machines.hgx(tmp_path)
    one.board(machines.slot("SXM1", 0x05, 0x08))
    assert hardware.look(tmp_path).value("pci.0000:18:00.0.slot") == "SXM1"
    one.write("sys/bus/pci/slots/12/address", "0000:18:00")
    assert hardware.look(tmp_path).value("pci.0000:18:00.0.slot") == "12"


def test_an_adapter_tells_its_burnt_in_address_firmware_and_board(tmp_path):
    machines.hgx(tmp_path)
    assert hardware.look(tmp_path).sources["nic.ens1"] == {
        "mac": "b8:3f:d2:aa:00:01", "permanent": "b8:3f:d2:aa:00:01", "speed": "400000", "pci": "0000:36:00.0",
        "duplex": "full", "operstate": "up", "carrier_changes": "2", "firmware": "28.39.1002", "board": "MT_0000000838",
        "model": "NVIDIA ConnectX-7 HHHL Adapter Card", "part": "MCX75310AAS-NEAT", "serial": "MT2242600GX3",
    }  # fmt: skip


def test_a_bonds_member_is_known_by_its_own_address(tmp_path):
    one = machines.hgx(tmp_path)
    one.write("sys/class/net/ens1/address", "02:00:00:00:00:09")
    one.write("sys/class/net/ens1/bonding_slave/perm_hwaddr", "b8:3f:d2:aa:00:01")
    assert hardware.look(tmp_path).value("nic.ens1.permanent") == "b8:3f:d2:aa:00:01"


def test_an_adapter_that_leads_to_switches_is_no_adapter_of_the_network(tmp_path):
    one = machines.hgx(tmp_path)
    (tmp_path / "sys/devices/pci0000:35/0000:36:00.0/vpd").write_bytes(b"\x90\x0e\x00V0\x0bSMDL=SW_MNG\x78")
    assert not hardware.named(hardware.look(tmp_path), "nic") and not hardware.named(hardware.look(tmp_path), "ib")
    assert hardware.look(tmp_path).value("pci.0000:36:00.0.device") == "0x1021"
    one.vpd("sys/devices/pci0000:35/0000:36:00.0", "NVIDIA ConnectX-7")
    assert hardware.named(hardware.look(tmp_path), "nic") == ["nic.ens1"]


def test_an_infiniband_port_tells_state_rate_and_errors(tmp_path):
    one = machines.hgx(tmp_path)
    one.write("sys/class/infiniband/mlx5_0/ports/1/counters/link_downed", "3")
    assert hardware.look(tmp_path).sources["ib.mlx5_0.1"] == {
        "state": "4: ACTIVE", "phys_state": "5: LinkUp", "rate": "400 Gb/sec (4X NDR)", "link_layer": "InfiniBand",
        "guid": "b83f:d203:00aa:0001", "pci": "0000:36:00.0", "symbol_error": "0", "link_downed": "3",
        "link_error_recovery": "0", "port_rcv_errors": "0",
    }  # fmt: skip


def test_a_workstations_sata_disk_holds_the_system_through_its_mapped_device(tmp_path):
    machines.workstation(tmp_path)
    seen = hardware.look(tmp_path)
    assert hardware.gpus(seen) == ["0000:01:00.0"]
    assert seen.sources["disk.sda"] == {
        "sectors": "1953525168", "model": "ST1000DM010-2EP1", "serial": "ZN1ABCDE", "firmware": "CC43",
        "rotational": "1", "transport": "sata", "pci": "0000:00:17.0", "system": "/",
    }  # fmt: skip


def test_the_disk_of_the_runs_own_folder_is_told_apart(tmp_path):
    one = machines.hgx(tmp_path)
    one.write("var/run/here", "")
    one.holds("sys/block/nvme1n1")
    seen = hardware.look(tmp_path, "/var/run")
    assert seen.sources["disk.nvme1n1"]["data"] == "/var/run" and "data" not in seen.sources["disk.nvme0n1"]
    assert seen.sources["disk.nvme1n1"]["transport"] == "nvme"


def test_an_nvme_of_several_paths_is_one_disk_at_its_controllers_address(tmp_path):
    """As the kernel lists enterprise NVMe with native multipath: nvme10n1, and the hidden nvme10c65n1."""
    one = machines.Machine(tmp_path)
    one.many_paths("nvme10n1", "nvme10c65n1", "pci0000:b6/0000:b7:00.0", "nvme6")
    seen = hardware.look(tmp_path)
    assert hardware.named(seen, "disk") == ["disk.nvme10n1"]
    assert seen.sources["disk.nvme10n1"] == {
        "sectors": "7501476528", "model": "SAMSUNG MZQL23T8HCLS-00A07", "serial": "S1", "firmware": "GDC5602Q",
        "transport": "nvme", "pci": "0000:b7:00.0",
    }  # fmt: skip
    (tmp_path / "sys/block/nvme10c65n1").unlink()
    assert hardware.look(tmp_path).value("disk.nvme10n1.pci") == "0000:b7:00.0", "told by the subsystem's link alone"


def test_a_disk_that_the_kernel_hides_is_none(tmp_path):
    one = machines.hgx(tmp_path)
    one.write("sys/block/nvme1n1/hidden", "1")
    assert hardware.named(hardware.look(tmp_path), "disk") == ["disk.nvme0n1"]


def test_a_guest_shows_what_it_has_and_names_what_its_host_keeps(tmp_path):
    machines.vm(tmp_path)
    seen = hardware.look(tmp_path)
    assert hardware.gpus(seen) == ["0000:00:05.0"]
    assert seen.sources["disk.vda"]["transport"] == "virtio"
    assert "assigned" in seen.missing["nic.eth0.permanent"]
    assert {"dimm", "socket", "dmi.product_serial"} <= set(seen.missing)


def test_a_container_without_its_hosts_files_names_every_gap(tmp_path):
    machines.Machine(tmp_path)
    seen = hardware.look(tmp_path)
    assert hardware.gpus(seen) == [] and not hardware.named(seen, "disk")
    assert {"dimm", "cpu.online", "cpu.numa", "cpu.sockets"} <= set(seen.missing)
