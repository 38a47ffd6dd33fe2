"""The parts beside the GPUs: whose number stands twice in a fleet, and whose firmware is unlike the others'."""

from __future__ import annotations

import dataclasses

import pytest
import runs

from gpuburn.controller import inventory, named
from gpuburn.controller.analysis import analyse
from gpuburn.controller.named import Part, Said
from gpuburn.identity import Identity
from tests.controller.test_analysis import POLICY, added, host

SOURCES = {
    "disk.nvme0n1": {"model": "PM9A3 3.84", "serial": "S1", "firmware": "GDC5602Q", "pci": "0000:46:00.0"},
    "nic.ens1": {"permanent": "b8:3f:d2:aa:00:01", "pci": "0000:36:00.0", "board": "MT_0838", "firmware": "28.39"},
    "nic.ib0": {"permanent": "00:00:10:49:fe:80:00:00:00:00:00:00:b8:3f", "pci": "0000:37:00.0"},
    "nic.ens2": {"permanent": "02:00:00:00:00:01", "pci": "0000:38:00.0"},
    "dimm.A1": {"manufacturer": "Samsung", "part": "M321", "serial": "80CE01"},
}
LOOK = Identity(0.0, "b", SOURCES)
WANTED = [("disk.nvme0n1", "disk", "PM9A3 3.84 S1"), ("dimm.A1", "dimm", "Samsung M321 80CE01"),
          ("nic.ens1", "mac", "b8:3f:d2:aa:00:01")]  # fmt: skip


def test_numbers_that_no_two_hosts_may_share() -> None:
    assert sorted(inventory.numbers([LOOK])) == sorted(WANTED)


def test_a_disk_that_was_renamed_at_a_boot_claims_its_number_once() -> None:
    sources = {"disk.nvme5n1": SOURCES["disk.nvme0n1"]}
    found = [one for one in inventory.numbers([LOOK, Identity(1.0, "c", sources)]) if one[1] == "disk"]
    assert found == WANTED[:1]


def test_a_part_that_was_swapped_in_claims_its_number_too() -> None:
    sources = {"dimm.A1": {**SOURCES["dimm.A1"], "serial": "80CE99"}}
    found = [value for _, kind, value in inventory.numbers([LOOK, Identity(1.0, "c", sources)]) if kind == "dimm"]
    assert found == ["Samsung M321 80CE01", "Samsung M321 80CE99"]


def test_firmware_is_compared_within_one_model() -> None:
    assert list(inventory.firmware(LOOK)) == [
        ("disk_firmware.PM9A3_3_84", "disk.nvme0n1", "GDC5602Q"), ("nic_firmware.MT_0838", "nic.ens1", "28.39"),
    ]  # fmt: skip


@pytest.mark.parametrize(("environment", "wanted"), [("bare_metal", 3), ("vm", 0), ("container", 0)])
def test_a_guests_disks_have_no_numbers_of_their_own(environment: str, wanted: int) -> None:
    plan = dataclasses.replace(runs.plan(), environment=environment)
    assert len(list(named._inventory(plan, [LOOK]))) == wanted


def test_one_module_in_two_hosts_is_told_of_both() -> None:
    hosts = [host(f"n{i}", parts=[Part("dimm.A1", "dimm", "S M 1" if i < 2 else f"S M {i}")]) for i in range(3)]
    assert added(analyse(hosts, POLICY)) == {name: [("fleet.duplicate", "dimm.A1", "fail")] for name in ("n0", "n1")}


def test_a_disk_with_other_firmware_than_its_model_has_elsewhere_is_told() -> None:
    about = "disk_firmware.PM9A3"
    hosts = [host(f"n{i}", versions=[Said(about, "disk.nvme0n1", "A" if i else "B")]) for i in range(4)]
    assert added(analyse(hosts, POLICY)) == {"n0": [("fleet.odd_version", "disk.nvme0n1", "pass")]}
