"""Four machines as trees of /sys and /proc, by what is public of each: an HGX server, a workstation, a VM, a container.

HGX: PCI ids 10de:2330 (H100 SXM5) and 10de:22a3 (its NVSwitch), 15b3:1021 (ConnectX-7), from the PCI ID repository;
file names from the kernel's ABI documents (sysfs-bus-pci, sysfs-class-net, sysfs-class-infiniband, sysfs-block).
"""

from __future__ import annotations

import os
from pathlib import Path

from tests.agent.test_smbios import END, module, processor, slot

AER = ("aer_dev_correctable", "aer_dev_nonfatal", "aer_dev_fatal")
TOTAL = {"correctable": "TOTAL_ERR_COR", "nonfatal": "TOTAL_ERR_NONFATAL", "fatal": "TOTAL_ERR_FATAL"}


class Machine:
    """A root folder that is filled step by step."""

    def __init__(self, root: Path) -> None:
        self.root = root
        for name in ("sys/block", "sys/class/net", "sys/bus/pci/devices", "sys/dev/block", "proc", "etc"):
            (root / name).mkdir(parents=True, exist_ok=True)
        self.write("proc/sys/kernel/osrelease", "6.8.0-45-generic")
        self.write("proc/cpuinfo", "model name\t: Intel(R) Xeon(R) Platinum 8480C\nmicrocode\t: 0x2b000603\n")
        self.write("proc/meminfo", "MemTotal:       2113407228 kB\nSwapTotal: 0 kB\n")
        self.write("proc/cmdline", "BOOT_IMAGE=/vmlinuz root=/dev/md0 iommu=pt")
        self.write("etc/os-release", 'PRETTY_NAME="Ubuntu 24.04.1 LTS"')
        self.write("proc/sys/kernel/random/boot_id", "5b1c8c0e-1111-2222-3333-444455556666")

    def write(self, name: str, text: str | bytes) -> None:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text if isinstance(text, bytes) else f"{text}\n".encode())

    def link(self, name: str, target: str) -> None:
        """A link below the root to another place below it."""
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.symlink_to(f"{os.path.relpath(self.root, path.parent)}/{target}")

    def pci(self, path: str, vendor: str, device: str, kind: str, aer: bool = True, **more: str) -> str:
        """A device below /sys/devices/<path>, whose last part is its address; its folder is returned."""
        address, folder = path.rpartition("/")[2], f"sys/devices/{path}"
        given = {"vendor": vendor, "device": device, "class": kind, "subsystem_vendor": vendor, "numa_node": "0",
                 "subsystem_device": "0x16c1", "current_link_speed": "32.0 GT/s PCIe", "current_link_width": "16",
                 "max_link_speed": "32.0 GT/s PCIe", "max_link_width": "16", **more}  # fmt: skip
        for key, value in given.items():
            self.write(f"{folder}/{key}", value)
        if aer:
            self.aer(folder)
        self.link(f"sys/bus/pci/devices/{address}", folder)
        return folder

    def aer(self, folder: str, **counts: int) -> None:
        """The counters of a device, noughts unless given: correctable, nonfatal, fatal."""
        for kind, total in TOTAL.items():
            self.write(f"{folder}/aer_dev_{kind}", f"RxErr 0\nBadTLP 0\n{total} {counts.get(kind, 0)}")

    def nvme(self, name: str, pci: str, serial: str) -> None:
        folder = f"{self.pci(pci, '0x144d', '0xa824', '0x010802')}/nvme/{name[:5]}/{name}"
        for key, value in {"size": "7501476528", "queue/rotational": "0"}.items():
            self.write(f"{folder}/{key}", value)
        for key, value in {"model": "SAMSUNG MZQL23T8HCLS-00A07", "serial": serial, "firmware_rev": "GDC5602Q"}.items():
            self.write(f"{folder}/device/{key}", value)
        self.link(f"sys/block/{name}", folder)

    def holds(self, device: str) -> None:
        """The root folder's filesystem lies on this block device, named by its place below the root."""
        number = os.stat(self.root).st_dev
        self.link(f"sys/dev/block/{os.major(number)}:{os.minor(number)}", device)

    def many_paths(self, name: str, path: str, pci: str, controller: str) -> None:
        """An NVMe disk as native multipath shows it: on its subsystem, with a hidden path on its controller."""
        subsystem = f"sys/devices/virtual/nvme-subsystem/nvme-subsys{name[4:].partition('n')[0]}"
        hidden = f"{self.pci(pci, '0x144d', '0xa824', '0x010802')}/nvme/{controller}"
        for folder in (f"{subsystem}/{name}", f"{hidden}/{path}"):
            self.write(f"{folder}/size", "7501476528")
            self.write(f"{folder}/hidden", str(int(folder.endswith(path))))
            self.link(f"sys/block/{folder.rpartition('/')[2]}", folder)
        for key, value in {"model": "SAMSUNG MZQL23T8HCLS-00A07", "serial": "S1", "firmware_rev": "GDC5602Q"}.items():
            self.write(f"{subsystem}/{key}", value)
        self.link(f"{subsystem}/{name}/device", subsystem)
        self.link(f"{subsystem}/{controller}", hidden)

    def nic(self, name: str, pci: str, mac: str, speed: str = "400000", assigned: str = "0") -> str:
        folder = self.pci(pci, "0x15b3", "0x1021", "0x020000")
        for key, value in {"address": mac, "addr_assign_type": assigned, "speed": speed, "duplex": "full",
                           "operstate": "up", "carrier_changes": "2"}.items():  # fmt: skip
            self.write(f"{folder}/net/{name}/{key}", value)
        self.link(f"{folder}/net/{name}/device", folder)
        self.link(f"sys/class/net/{name}", f"{folder}/net/{name}")
        return folder

    def vpd(self, folder: str, name: str, **keywords: str) -> None:
        """Vital product data as lspci -vvv shows it of a ConnectX-7: the name, then keywords, then the end tag."""
        told = b"".join(key.encode() + bytes([len(one)]) + one.encode() for key, one in keywords.items())
        parts = ((0x82, name.encode()), (0x90, told))
        data = b"".join(bytes([tag]) + len(body).to_bytes(2, "little") + body for tag, body in parts)
        (self.root / folder / "vpd").write_bytes(data + b"\x78")

    def port(self, name: str, folder: str, state: str = "4: ACTIVE", **counters: int) -> None:
        """An InfiniBand device of one port on a PCI device."""
        device = f"{folder}/infiniband/{name}"
        self.write(f"{device}/fw_ver", "28.39.1002")
        self.write(f"{device}/board_id", "MT_0000000838")
        self.write(f"{device}/node_guid", "b83f:d203:00aa:0001")
        for key, value in {"state": state, "phys_state": "5: LinkUp", "rate": "400 Gb/sec (4X NDR)",
                           "link_layer": "InfiniBand"}.items():  # fmt: skip
            self.write(f"{device}/ports/1/{key}", value)
        for key in ("symbol_error", "link_downed", "link_error_recovery", "port_rcv_errors"):
            self.write(f"{device}/ports/1/counters/{key}", str(counters.get(key, 0)))
        self.link(f"{device}/device", folder)
        self.link(f"sys/class/infiniband/{name}", device)

    def board(self, *more: bytes) -> None:
        self.write("sys/firmware/dmi/tables/DMI", b"".join(more) + END)


def hgx(root: Path) -> Machine:
    """Two of an HGX H100's eight GPUs behind their switch ports, an NVSwitch, an adapter, two NVMe, two modules."""
    one = Machine(root)
    for index, bus in enumerate(("18", "2a")):
        port = f"pci0000:{index}5/0000:{index}5:01.0"
        one.pci(port, "0x8086", "0x352a", "0x060400")
        one.pci(f"{port}/0000:{bus}:00.0", "0x10de", "0x2330", "0x030200")
    one.pci("pci0000:85/0000:85:00.0", "0x10de", "0x22a3", "0x068000")
    adapter = one.nic("ens1", "pci0000:35/0000:36:00.0", "b8:3f:d2:aa:00:01")
    one.vpd(adapter, "NVIDIA ConnectX-7 HHHL Adapter Card", PN="MCX75310AAS-NEAT", EC="A5", SN="MT2242600GX3  ")
    one.port("mlx5_0", adapter)
    one.nvme("nvme0n1", "pci0000:45/0000:46:00.0", "S64HNE0R000001")
    one.nvme("nvme1n1", "pci0000:45/0000:47:00.0", "S64HNE0R000002")
    one.board(
        processor("CPU0", "Intel", "Xeon Platinum 8480C", "A1", "P"), slot("SXM1", 0x05, 0x08),
        *(module(f"CPU0_DIMM_{at}1", "BANK", "Samsung", f"80CE000{at}", "M321R8GA0BB0-CQKZJ") for at in "AB"),
    )  # fmt: skip
    for name, value in {"product_serial": "1660224000123", "board_serial": "SB-1"}.items():
        one.write(f"sys/class/dmi/id/{name}", value)
    one.write("sys/devices/system/edac/mc/mc0/ce_count", "0")
    one.write("sys/devices/system/edac/mc/mc0/ue_count", "0")
    for cpu in range(4):
        one.write(f"sys/devices/system/cpu/cpu{cpu}/topology/physical_package_id", str(cpu // 2))
        one.write(f"sys/devices/system/cpu/cpu{cpu}/topology/core_id", "0" if cpu % 2 else "1")
        one.write(f"sys/devices/system/cpu/cpu{cpu}/cpufreq/scaling_governor", "performance")
    one.write("sys/devices/system/cpu/online", "0-3")
    one.write("sys/devices/system/node/online", "0-1")
    (root / "sys/kernel/iommu_groups/0").mkdir(parents=True)
    return one


def workstation(root: Path) -> Machine:
    """One GeForce RTX 4090 (10de:2684) with the display, a SATA disk with its system on LVM, and a 1 Gbit/s port."""
    one = Machine(root)
    one.pci("pci0000:00/0000:00:01.0/0000:01:00.0", "0x10de", "0x2684", "0x030000")
    folder = "sys/devices/pci0000:00/0000:00:17.0/ata1/host0/target0:0:0/0:0:0:0/block/sda"
    for key, value in {"size": "1953525168", "queue/rotational": "1", "sda2/partition": "2",
                       "device/model": "ST1000DM010-2EP1", "device/rev": "CC43"}.items():  # fmt: skip
        one.write(f"{folder}/{key}", value)
    one.write(f"{folder}/device/vpd_pg80", b"\x00\x80\x00\x08ZN1ABCDE")
    one.link("sys/block/sda", folder)
    one.holds("sys/devices/virtual/block/dm-0")
    one.link("sys/devices/virtual/block/dm-0/slaves/sda2", f"{folder}/sda2")
    one.nic("enp3s0", "pci0000:00/0000:03:00.0", "a8:a1:59:00:00:01", speed="1000")
    return one


def vm(root: Path) -> Machine:
    """A GPU passed through to QEMU: no slots, no AER, a virtio disk, an interface with an assigned address."""
    one = Machine(root)
    one.pci("pci0000:00/0000:00:05.0", "0x10de", "0x2330", "0x030200", aer=False)
    folder = "sys/devices/pci0000:00/0000:00:04.0/virtio1/block/vda"
    one.write(f"{folder}/size", "209715200")
    one.write(f"{folder}/serial", "vol-1")
    one.link("sys/block/vda", folder)
    one.nic("eth0", "pci0000:00/0000:00:03.0", "52:54:00:12:34:56", speed="-1", assigned="3")
    for counter in AER:
        (root / "sys/bus/pci/devices/0000:00:03.0" / counter).unlink()
    return one
