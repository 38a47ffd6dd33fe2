"""The table of what the kernel's log says: recorded lines of each kind, their counter-examples, and hostile ones.

The lines are from public logs: kernel mailing lists, bug trackers and vendors' knowledge bases (Red Hat 56302 and
7128107, Thomas-Krenn wiki, NVIDIA forums and open-gpu-kernel-modules, leptonai/gpud, lore.kernel.org).
"""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest

from gpuburn import kernel
from gpuburn.kernel import TEXT, told
from gpuburn.strict import Refused

PORT = "pcieport 0000:00:1b.2: "
# kind: [(line, the part that it is about)].
SAMPLES: dict[str, list[tuple[str, str]]] = {
    "xid": [
        ("NVRM: Xid (PCI:0000:18:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.", "0000:18:00"),
        ("NVRM: Xid (PCI:0000:dc:00): 45, pid=1818990, name=python3, Ch 00000001 caused by previous Xid 149",
         "0000:dc:00"),
        ("NVRM: Xid (PCI:0000:01:00 GPU-I:05): 94, pid=7194, name=python3, Contained: CE User Channel (0x9). RST: No, "
         "D-RST: No", "0000:01:00"),
        ("NVRM: Xid (PCI:0000:3b:00 GPU-I:01 GPU-CI:00): 13, pid=9, name=a, Graphics Exception", "0000:3b:00"),
        ("NVRM: Xid (0000:03:00): 31, Ch 00000010, engmask 00000101", "0000:03:00"),
        ("NVRM: Xid (PCI:0018:01:00): 145, RLW_RXPIPE Nonfatal XC0 i0 Link 13 (0x0409a0c2 0x00000008)", "0018:01:00"),
    ],
    "sxid_fatal": [
        ("nvidia-nvswitch0: SXid (PCI:0000:59:00.0): 23001, Fatal, Link 12 Always Fatal", "0000:59:00.0"),
        ("nvidia-nvswitch0: SXid (PCI:0000:00:00.0): 11001, Fatal, ingress invalid command", "0000:00:00.0"),
    ],
    "sxid_nonfatal": [
        ("nvidia-nvswitch3: SXid (PCI:0000:04:00.0): 22013, Non-fatal, Link 44 Minion Link DLREQ interrupt",
         "0000:04:00.0"),
        ("nvidia-nvswitch0: SXid (PCI:0000:c3:00.0): 20009, Non-fatal, Link 28 RX Short Error Rate", "0000:c3:00.0"),
    ],
    "sxid_correctable": [
        ("nvidia-nvswitch0: SXid (PCI:0000:c3:00.0): 20001, Correctable, Link 28 TX Replay Error", "0000:c3:00.0"),
    ],
    "sxid_detail": [
        ("nvidia-nvswitch3: SXid (PCI:0000:04:00.0): 22013, Severity 0 Engine instance 44 Sub-engine instance 00", ""),
        ("nvidia-nvswitch1: SXid (PCI:0000:84:00.0): 12028, Data {0x000001c0, 0x00bd5c8a, 0x00000500}", ""),
    ],
    "sxid": [("nvidia-nvswitch3: SXid (PCI:0000:c1:00.0): garbled, Fatal", "0000:c1:00.0")],
    "off_bus": [
        ("NVRM: GPU at 0000:01:00.0 has fallen off the bus.", "0000:01:00.0"),
        ("NVRM: GPU 0000:18:00.0: GPU has fallen off the bus.", "0000:18:00.0"),
        (r"NVRM: The NVIDIA GPU 0000:b3:00.0\x0aNVRM: (PCI ID: 10de:26b5) installed in this system has\x0aNVRM: "
         "fallen off the bus and is not responding to commands.", "0000:b3:00.0"),
        ("NVRM: fallen off the bus and is not responding to commands.", "host"),
    ],
    "init_failed": [
        ("NVRM: GPU 0000:02:00.0: RmInitAdapter failed! (0x24:0x65:1185)", "0000:02:00.0"),
        ("NVRM: GPU 0000:02:00.0: rm_init_adapter failed, device minor number 0", "0000:02:00.0"),
        ("NVRM: RmInitAdapter failed! (0x62:0x65:2028)", "host"),
    ],
    "pcie_fatal": [
        (PORT + "AER: Uncorrectable (Fatal) error message received from 0000:03:04.0", "0000:03:04.0"),
        ("pcieport 0000:03:04.0: PCIe Bus Error: severity=Uncorrectable (Fatal), type=Transaction Layer, (Receiver ID)",
         "0000:03:04.0"),
        ("pcieport 0000:c0:01.1: PCIe Bus Error: severity=Uncorrected (Fatal), type=Transaction Layer, (Requester ID)",
         "0000:c0:01.1"),
        ("pcieport 0000:00:01.0: AER: Uncorrected (Fatal) error received: id=0008", "0000:00:01.0"),
        ("{9}[Hardware Error]: event severity: fatal; section_type: PCIe error; device_id: 0000:3b:00.0",
         "0000:3b:00.0"),
    ],
    "pcie_contained": [
        ("pcieport 0000:00:1b.0: DPC: containment event, status:0x1f01 source:0x0000", "0000:00:1b.0"),
    ],
    "pcie_unrecovered": [
        ("pcieport 0000:03:04.0: AER: device recovery failed", "0000:03:04.0"),
        ("pcieport 0000:00:01.0: AER: Device recovery failed", "0000:00:01.0"),
    ],
    "pcie_nonfatal": [
        ("pcieport 0000:00:01.1: AER: Uncorrected (Non-Fatal) error received: 0000:09:00.0", "0000:09:00.0"),
        ("igb 0000:09:00.0: AER: PCIe Bus Error: severity=Uncorrected (Non-Fatal), type=Transaction Layer, "
         "(Requester ID)", "0000:09:00.0"),
        ("pcieport 0000:00:1d.0: AER: Multiple Uncorrected (Non-Fatal) error received: id=00e8", "0000:00:1d.0"),
        ("pcieport 0000:0d:00.0: CXL Bus Error: severity=Uncorrectable (Non-Fatal), type=Transaction Layer, "
         "(Receiver ID)", "0000:0d:00.0"),
        ("{1}[Hardware Error]: event severity: recoverable; section_type: PCIe error; device_id: 0000:3b:00.0",
         "0000:3b:00.0"),
    ],
    "pcie_corrected": [
        ("hpsa 0000:04:00.0: PCIe Bus Error: severity=Corrected, type=Physical Layer, id=0400(Transmitter ID)",
         "0000:04:00.0"),
        ("pcieport 0000:07:00.0: PCIe Bus Error: severity=Correctable, type=Data Link Layer, (Receiver ID)",
         "0000:07:00.0"),
        ("pcieport 10003:00:00.0: PCIe Bus Error: severity=Corrected, type=Data Link Layer, id=0000(Receiver ID)",
         "10003:00:00.0"),
        ("{2}[Hardware Error]: event severity: corrected; section_type: PCIe error; device_id: 0000:3b:00.0",
         "0000:3b:00.0"),
        ("{2}[Hardware Error]: event severity: corrected; section_type: PCIe error", "host"),
    ],
    "pcie_corrected_notice": [
        ("pcieport 0000:00:1c.0: AER: Corrected error received: 0000:01:00.0", "0000:01:00.0"),
        ("pcieport 0000:00:1c.4: AER: Correctable error message received from 0000:07:00.0", "0000:07:00.0"),
        ("pcieport 10003:00:00.0: AER: Multiple Corrected error received: id=ae00", "10003:00:00.0"),
    ],
    "pcie_detail": [
        ("pcieport 0000:03:04.0:   device [111d:8063] error status/mask=00000020/00000000", ""),
        ("pcieport 0000:03:04.0:    [ 5] SDES                   (First)", ""),
        ("igb 0000:09:00.0: AER:    [14] CmpltTO", ""),
        ("pcieport 0000:03:04.0: AER: Downstream Port link has been reset (0)", ""),
        ("pci 0000:05:00.0: AER: can't recover (no error_detected callback)", ""),
        ("pcieport 0000:00:1b.0: DPC: unmasked uncorrectable error detected", ""),
        ("nvme 0000:01:00.0: AER:   Error of this Agent is reported first", ""),
        ("pcieport 0000:00:1c.0:   Error of this Agent(00e0) is reported first", ""),
        ("pcieport 0000:00:07.1: AER:   TLP Header (Flit): 0x34000000 0x00000052", ""),
        ("pcieport 0000:00:07.1: AER:   TLP Header: 0x34000000 0x00000052 0x00000000 0x00000000", ""),
        ("pcieport 0000:00:07.1: AER:   TLP Prefix Header: 0x00000000 0x00000000", ""),
        ("pcieport 0000:00:07.1: DPC: rp_pio_status: 0x00010000, rp_pio_mask: 0x00000303", ""),
        ("pcieport 0000:00:07.1: DPC: [16] Completion Timeout", ""),
        ("pcieport 0000:00:01.0: AER: Device recovery successful", ""),
    ],
    "mce_uncorrected": [
        ("mce: [Hardware Error]: CPU 12: Machine Check: 0 Bank 5: bea0000000000108", "host"),
        ("mce: [Hardware Error]: CPU 11: Machine Check: 0 Bank 0: b200000000070005", "host"),
        ("mce: [Hardware Error]: CPU 0: Machine Check: 0 Bank 7: ee2000000040110a", "host"),
        ("[Hardware Error]: Deferred error, no action required.", "host"),
        ("{1}[Hardware Error]: event severity: recoverable; section_type: IA32/X64 processor error", "host"),
        ("mce: Uncorrected hardware memory error in user-access at 1b9b2f7880", "host"),
        ("Memory failure: 0x7740c0: recovery action for dirty page: Recovered", "host"),
    ],
    "mce_corrected": [
        ("CPU 6: Machine Check Exception: 0 Bank 9: 8c00004e000800c1", "host"),
        ("mce: [Hardware Error]: CPU 0: Machine Check: 0 Bank 0: 9000004000010005", "host"),
        ("mce: [Hardware Error]: CPU 3: Machine Check: 0 Bank 17: d42040000000011b", "host"),
        ("[Hardware Error]: Corrected error, no action required.", "host"),
        ("{1}[Hardware Error]: event severity: corrected; section_type: general processor error", "host"),
    ],
    "mce_logged": [("mce: [Hardware Error]: Machine check events logged", "host")],
    "platform_fatal": [
        ("{1}[Hardware Error]: event severity: fatal", "host"), ("[Hardware Error]: event severity: fatal", "host"),
    ],
    "platform_recoverable": [
        ("{4}[Hardware Error]: event severity: recoverable; section_type: CXL Protocol Error", "host"),
    ],
    "platform_corrected": [
        ("{7}[Hardware Error]: event severity: corrected; section_type: unknown, 4c63f8e2", "host"),
    ],
    "platform_info": [("{7}[Hardware Error]: event severity: info", "host")],
    "hardware_detail": [
        ("mce: [Hardware Error]: TSC 0 ADDR 1ffffb51181c0 MISC d012000100000000 SYND 4d000000 IPID 500b000000000", ""),
        ("mce: [Hardware Error]: PROCESSOR 2:a20f10 TIME 1684 SOCKET 0 APIC 6 microcode a20102b", ""),
        ("[Hardware Error]: CPU:2 (19:11:1) MC20_STATUS[Over|CE|MiscV|AddrV|-|-|SyndV|CECC|-|-|-]: 0xdc2040000000011b",
         ""),
        ("[Hardware Error]: Unified Memory Controller Ext. Error Code: 0, DRAM ECC error.", ""),
        ("[Hardware Error]: cache level: L3/GEN, tx: GEN, mem-tx: RD", ""),
    ],
    "hardware_error": [
        ("{1}[Hardware Error]:  Error 0, type: recoverable", "host"),
        ("mce: [Hardware Error]: Some CPUs didn't answer in synchronization", "host"),
    ],
    "edac_uncorrected": [
        ("EDAC MC0: 1 UE memory read error on CPU_SrcID#0_MC#0_Chan#1_DIMM#0 (channel:1 slot:0 page:0x7740c0)",
         "CPU_SrcID#0_MC#0_Chan#1_DIMM#0"),
        ("EDAC MC0: 1 UE Multi-bit ECC on unknown memory (node:0 card:1 module:71 bank:7)", "unknown memory"),
        ("EDAC MC0: 1 UE memory read error on CPU_SrcID#0", "MC0"),
        ("{2}[Hardware Error]: event severity: recoverable; section_type: memory error", "host"),
    ],
    "edac_corrected": [
        ("EDAC MC0: 2 CE memory read error on CPU_SrcID#0_MC#0_Chan#1_DIMM#0 (channel:1 slot:0)",
         "CPU_SrcID#0_MC#0_Chan#1_DIMM#0"),
        ('EDAC MC1: CE row 1, channel 0, label "CPU_SrcID#1_Channel#0_DIMM#1": 1 Unknown error(s): memory scrubbing',
         "CPU_SrcID#1_Channel#0_DIMM#1"),
        ("EDAC MC0: 1 CE memory read error", "MC0"),
        ("{1}[Hardware Error]: event severity: corrected; section_type: memory error", "host"),
    ],
    "oom": [
        ("oom-kill:constraint=CONSTRAINT_NONE,nodemask=(null),cpuset=/,mems_allowed=0,global_oom,"
         "task_memcg=/user.slice", "host"),
        ("Out of memory: Killed process 2201 (nginx) total-vm:2345678kB, anon-rss:1234567kB", "host"),
        ("Out of memory: Kill process 1234 (chrome) score 850 or sacrifice child", "host"),
        ("Out of memory (oom_kill_allocating_task): Killed process 12 (python3) total-vm:1kB", "host"),
    ],
    "oom_cgroup": [
        ("oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=/,mems_allowed=0,"
         "oom_memcg=/gpuburn/gemm,task=python3", "host"),
        ("Memory cgroup out of memory: Killed process 2343 (python3) total-vm:2345678kB", "host"),
    ],
    "oom_invoked": [
        ("python3 invoked oom-killer: gfp_mask=0x100cca(GFP_HIGHUSER_MOVABLE), order=0, oom_score_adj=0", "host"),
    ],
    "link_down": [
        ("igc 0000:03:00.0 enp3s0: NIC Link is Down", "0000:03:00.0"),
        ("mlx5_core 0000:86:00.0: Port 1: link down", "0000:86:00.0"),
        ("mlx5_core 0000:86:00.0 ens1f0np0: Link down", "0000:86:00.0"),
        ("e1000e: eth1 NIC Link is Down", "eth1"),
        ("igb 0000:01:00.0 enp1s0: igb: enp1s0 NIC Link is Down", "0000:01:00.0"),
        ("mlx5_core 0000:3b:00.0: Port module event: module 0, Cable unplugged", "0000:3b:00.0"),
    ],
    "port_error": [
        ("mlx5_core: Port module event[error]: module 0, Cable error, High Temperature", "host"),
        ("mlx5_core 0000:3b:00.0: mlx5_port_module_event:1131:(pid 0): Port module event[error]: module 0, Cable error",
         "0000:3b:00.0"),
    ],
    "nic_health": [
        ("mlx5_core 0000:3b:00.0: poll_health:1018:(pid 0): device's health compromised - reached miss count",
         "0000:3b:00.0"),
        ("mlx5_core 0000:3b:00.0: print_health_info:429:(pid 0): Health issue observed, High temperature",
         "0000:3b:00.0"),
    ],
    "transmit_timeout": [
        ("NETDEV WATCHDOG: eth2 (igb): transmit queue 4 timed out", "eth2"),
        ("tg3 0000:02:00.0 eth0: NETDEV WATCHDOG: CPU: 3: transmit queue 0 timed out 5000 ms", "0000:02:00.0"),
    ],
    "media_absent": [
        ("blk_update_request: I/O error, dev sr0, sector 0 op 0x0:(READ) flags 0x80700 phys_seg 1", "sr0"),
        ("timeout error, dev sr0, sector 0 op 0x0:(READ) flags 0x80700 phys_seg 1 prio class 2", "sr0"),
        ("Buffer I/O error on dev sr0, logical block 0, async page read", "sr0"),
    ],
    "medium_error": [
        ("blk_update_request: critical medium error, dev nvme0n1, sector 10000 op 0x0:(READ) flags 0x80700", "nvme0n1"),
        ("critical medium error, dev sdd, sector 4 op 0x0:(READ) flags 0x0 phys_seg 1 prio class 0", "sdd"),
        ("print_req_error: critical medium error, dev nvme0n1, sector 40910720 flags 84700", "nvme0n1"),
    ],
    "io_error": [
        ("blk_update_request: I/O error, dev sdb, sector 2048", "sdb"),
        ("timeout error, dev nvme0n1, sector 123 op 0x0:(READ) flags 0x80700 phys_seg 1 prio class 2", "nvme0n1"),
        ("protection error, dev nvme0n1, sector 123 op 0x0:(READ) flags 0x0 phys_seg 1 prio class 2", "nvme0n1"),
        ("device offline error, dev sdc, sector 8 op 0x1:(WRITE) flags 0x0 phys_seg 1 prio class 2", "sdc"),
        ("recoverable transport error, dev sdc, sector 8 op 0x1:(WRITE) flags 0x0 phys_seg 1 prio class 2", "sdc"),
        ("critical space allocation error, dev sdc, sector 8 op 0x1:(WRITE) flags 0x0 phys_seg 1", "sdc"),
        ("blk_update_request: I/O error, dev nvme0c0n1, sector 1048624 op 0x9:(WRITE_ZEROES) flags 0x2800800 "
         "phys_seg 0 prio class 0", "nvme0n1"),
        ("Buffer I/O error on dev nvme0n1p1, logical block 0, async page read", "nvme0n1p1"),
    ],
    "request_unsupported": [
        ("operation not supported error, dev nvme0n1, sector 123 op 0x9:(WRITE_ZEROES) flags 0x0 phys_seg 0",
         "nvme0n1"),
    ],
    "nvme_down": [
        ("nvme nvme0: controller is down; will reset: CSTS=0xffffffff, PCI_STATUS=0x10", "nvme0"),
        ("nvme nvme5: Disabling device after reset failure: -19", "nvme5"),
    ],
    "nvme_timeout": [
        ("nvme nvme0: I/O 911 (I/O Cmd) QID 4 timeout, aborting", "nvme0"),
        ("nvme nvme1: I/O 320 QID 4 timeout, aborting", "nvme1"),
        ("nvme nvme0: I/O tag 103 (1067) opcode 0x1 (I/O Cmd) QID 2 timeout, aborting req_op:WRITE(1) size:28672",
         "nvme0"),
    ],
    "hung_task": [("INFO: task kworker/0:1:4711 blocked for more than 120 seconds.", "host")],
    "hung_task_detail": [
        ('"echo 0 > /proc/sys/kernel/hung_task_timeout_secs" disables this message.', ""),
        ("      Not tainted 6.8.0-45-generic #45-Ubuntu", ""),
        ("      Tainted: P           OE      6.8.0-45-generic #45-Ubuntu", ""),
    ],
    "lockup": [
        ("watchdog: BUG: soft lockup - CPU#3 stuck for 22s! [python3:4711]", "host"),
        ("rcu: INFO: rcu_sched self-detected stall on CPU", "host"),
        ("NMI watchdog: Watchdog detected hard LOCKUP on cpu 17", "host"),
        ("watchdog: CPU3: Watchdog detected hard LOCKUP on cpu 3", "host"),
    ],
    "oops": [
        ("BUG: kernel NULL pointer dereference, address: 0000000000000000", "host"),
        ("Oops: 0010 [#1] SMP PTI", "host"),
    ],
    "cpu_throttled": [
        ("CPU9: Package temperature is above threshold, cpu clock is throttled (total events = 1)", "host"),
        ("mce: CPU2: Core temperature above threshold, cpu clock throttled (total events = 7)", "host"),
    ],
}  # fmt: skip
# Lines that look alike and are none of it: at the priority of a warning none of them is an event.
CALM = [
    "NVRM: loading NVIDIA UNIX x86_64 Kernel Module  580.95.05", "Xid 79", "someone wrote NVRM: GPU has fallen asleep",
    "nvidia-nvswitch0: open (major=510)", "NVRM: GPU 0000:18:00.0: RmInitAdapter succeeded",
    "pcieport 0000:00:1c.0: AER: enabled with IRQ 122", "pcieport 0000:00:1c.0: DPC: error containment capabilities",
    "MCE: In-kernel MCE decoding enabled.", "mce: CPU0: Thermal monitoring enabled (TM1)",
    "mce: CPU2: Core temperature/speed normal", "EDAC MC: Ver: 3.0.0", "EDAC MC0: Giving out device to module skx_edac",
    "igb 0000:01:00.0 enp1s0: igb: enp1s0 NIC Link is Up 1000 Mbps Full Duplex, Flow Control: RX/TX",
    "igc 0000:03:00.0 enp3s0: NIC Link is Up 2500 Mbps Full Duplex, Flow Control: RX/TX",
    "mlx5_core 0000:3b:00.0: Port module event: module 0, Cable plugged", "mlx5_core 0000:3b:00.0 ens1: Link up",
    "nvme nvme0: 8/0/0 default/read/poll queues", "nvme nvme0: Abort status: 0x0", "python3[77]: Out of memory",
    "audit: type=1400 blocked for more than 120 seconds of nothing", "usb 1-1: new high-speed USB device", "",
]  # fmt: skip


@pytest.mark.parametrize(("kind", "line", "about"), [(k, *one) for k, many in SAMPLES.items() for one in many])
def test_a_recorded_line_is_told_by_its_kind_and_names_its_part(kind: str, line: str, about: str) -> None:
    found = told(line, 6)
    if kernel.load()[kind].rule == "detail":
        assert found is None and told(line, 3) is None, "a further line of another record, whatever its priority"
        return
    assert found is not None and (found.kind.id, found.about) == (kind, about)
    assert found.code == f"kernel.{kind}" and kernel.kind(found.code) is found.kind


def test_every_kind_with_a_pattern_has_a_recorded_line_for_each() -> None:
    for name, kind in kernel.load().items():
        lines = [line for line, _ in SAMPLES.get(name, [])]
        for pattern in kind.patterns:
            assert any(re.search(kernel._written_out(pattern), line) for line in lines), (name, pattern)


@pytest.mark.parametrize("line", CALM)
def test_a_line_that_only_looks_alike_is_no_event(line: str) -> None:
    assert told(line, 4) is None


@pytest.mark.parametrize(("priority", "kind"), [(0, "critical"), (2, "critical"), (3, "error"), (4, None), (7, None)])
def test_what_no_kind_knows_is_told_by_the_kernels_own_priority(priority: int, kind: str | None) -> None:
    found = told("frobnicator 7: the frob is lost", priority)
    assert (found.kind.id if found else None) == kind
    assert found is None or (found.about, found.text) == ("host", "frobnicator 7: the frob is lost")


def test_an_xid_keeps_its_number_first() -> None:
    found = told("NVRM: Xid (PCI:0000:3b:00): 48, pid=1234, An uncorrectable double bit error", 3)
    assert found and found.text == "Xid 48, pid=1234, An uncorrectable double bit error"


def test_a_long_record_is_kept_in_part() -> None:
    found = told("x" * 8000, 3)
    assert found and found.text == "x" * TEXT


@pytest.mark.parametrize(("text", "times"), [
    ("EDAC MC0: 2 CE memory read error on DIMM_A1 (x)", 2),
    ("EDAC MC0: 1048576 CE memory read error on A (x)", 1048576),
    ("EDAC MC0: CE something", 1), ("no such line", 1),
])  # fmt: skip
def test_how_often_a_corrected_error_happened_is_read_from_it(text: str, times: int) -> None:
    assert kernel.times("kernel.edac_corrected", text) == times
    assert kernel.times("kernel.link_down", text) == 1


def hostile() -> list[str]:
    """Long lines that begin as a kind does and never become one: where a bad pattern would look again and again."""
    starts = {line[: len(line) // 2] for many in SAMPLES.values() for line, _ in many}
    fills = ("0", "a", " ", ":", "EDAC MC0: 1 CE on ", "0000:00:00.0 ", "QID 4 ", 'label "', " on ", "AER: ")
    return [(start + fill * 8192)[:8192] for start in starts for fill in fills]


def test_no_pattern_needs_longer_than_the_bounded_text_takes() -> None:
    """Counted, not timed by a wall: processor time of all hostile lines, far below what one backtracking line takes."""
    begun = time.process_time()
    lines = hostile()
    for line in lines:
        told(line, 6)
    assert len(lines) > 500 and (time.process_time() - begun) / len(lines) < 0.05


def test_only_the_beginning_of_a_record_is_looked_at() -> None:
    assert told("y" * 1024 + " NVRM: Xid (PCI:0000:18:00): 79, x", 6) is None


ENTRY = "{id: x, group: gpu, rule: reject, patterns: ['^x'], doc: d, source: s}"
TAIL = ("{id: critical, group: host, rule: disturbed, patterns: [], doc: d, source: s}",
        "{id: error, group: host, rule: unknown, patterns: [], doc: d, source: s}")  # fmt: skip


def table(folder: Path, *entries: str) -> dict[str, kernel.Kind]:
    path = folder / "kernel.yml"
    path.write_text("kinds:\n" + "".join(f"- {one}\n" for one in entries))
    return kernel.load(path)


def test_a_table_is_read_in_its_order(tmp_path: Path) -> None:
    assert list(table(tmp_path, ENTRY, *TAIL)) == ["x", "critical", "error"]


@pytest.mark.parametrize(("entries", "why"), [
    ((ENTRY, ENTRY, *TAIL), "kind x stands twice"),
    ((ENTRY, TAIL[0]), "kind error is missing"),
    ((ENTRY.replace("id: x", "id: X-1"), *TAIL), "small letters"),
    ((ENTRY.replace("rule: reject", "rule: fail"), *TAIL), "'fail' is not one of"),
    ((ENTRY.replace("group: gpu", "group: fan"), *TAIL), "'fan' is not one of"),
    ((ENTRY.replace("doc: d", "dog: d"), *TAIL), "dog"),
    ((ENTRY.replace("['^x']", "[]"), *TAIL), "patterns for all kinds but"),
    ((ENTRY, TAIL[0], TAIL[1].replace("[]", "['^x']")), "patterns for all kinds but"),
    ((ENTRY.replace("'^x'", "'^(x'"), *TAIL), "is no pattern"),
    ((ENTRY.replace("'^x'", "'(?P<name>x)'"), *TAIL), "unknown 'name'"),
    ((ENTRY.replace("'^x'", "'^(?:x+)+$'"), *TAIL), "repeats without a bound"),
    ((ENTRY.replace("'^x'", "'^(?:x{1,9}){1,9}'"), *TAIL), "repeats without a bound"),
    ((ENTRY.replace("'^x'", "'^.*x'"), *TAIL), "repeats without a bound"),
    ((ENTRY.replace("'^x'", "'^[a+]x+'"), *TAIL), "repeats without a bound"),
    ((ENTRY.replace("rule: reject", "rule: count"), *TAIL), "above belongs to rule count"),
    ((ENTRY.replace("rule: reject", "rule: reject, above: 3"), *TAIL), "above belongs to rule count"),
])  # fmt: skip
def test_a_table_with_a_fault_is_refused_by_name(tmp_path: Path, entries: tuple[str, ...], why: str) -> None:
    with pytest.raises(Refused, match=re.escape(why)):
        table(tmp_path, *entries)
