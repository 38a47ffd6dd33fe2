"""What became of a host's parts between two looks: one part changes in a test, and one change is told."""

from __future__ import annotations

import pytest

from gpuburn import parts
from gpuburn.identity import Identity

SOURCES = {
    "disk.nvme0n1": {"model": "PM9A3", "serial": "S1", "pci": "0000:46:00.0"},
    "disk.nvme1n1": {"model": "PM9A3", "serial": "S2", "pci": "0000:47:00.0"},
    "nic.ens1": {"permanent": "b8:3f:d2:aa:00:01", "mac": "02:00:00:00:00:01", "pci": "0000:36:00.0"},
    "dimm.A1": {"manufacturer": "Samsung", "part": "M321", "serial": "80CE01"},
    "dimm.B1": {"manufacturer": "Samsung", "part": "M321", "serial": "80CE02"},
    "socket.CPU0": {"version": "8480C", "serial": "C1"},
    "pci.0000:18:00.0": {
        "address": "0000:18:00.0",
        "vendor": "0x10de",
        "device": "0x2330",
        "slot": "SXM1",
        "class": "0x030200",
    },
}


def look(missing: dict[str, str] | None = None, **changed: dict[str, str] | None) -> Identity:
    """The machine, some sources changed; None takes one away."""
    sources = {name: dict(values) for name, values in SOURCES.items()}
    for name, values in changed.items():
        if values is None:
            del sources[name]
        else:
            sources[name] = {**sources.get(name, {}), **values}
    return Identity(0.0, "b", sources, missing or {})


def told(*looks: Identity) -> list[tuple[str, str]]:
    return [(one.kind, one.why) for one in parts.changes(looks)]


def test_the_same_machine_twice_has_not_changed():
    assert told(look(), look(), look()) == [] and told(look()) == [] and told() == []


@pytest.mark.parametrize(
    ("changed", "kind", "why"),
    [
        ({"disk.nvme0n1": None}, "disk", "PM9A3 S1 at 0000:46:00.0 is gone"),
        ({"nic.ens1": None}, "nic", "b8:3f:d2:aa:00:01 at 0000:36:00.0 is gone"),
        ({"dimm.A1": None}, "dimm", "Samsung M321 80CE01 at A1 is gone"),
        ({"pci.0000:18:00.0": None}, "gpu", "0000:18:00.0 0x10de 0x2330 at SXM1 is gone"),
        ({"socket.CPU0": {"serial": "C2"}}, "socket", "8480C C1 at CPU0 was replaced by 8480C C2"),
        ({"disk.nvme0n1": {"serial": "S9"}}, "disk", "PM9A3 S1 at 0000:46:00.0 was replaced by PM9A3 S9"),
        ({"nic.ens1": {"permanent": "b8:3f:d2:aa:00:09"}}, "nic",
         "b8:3f:d2:aa:00:01 at 0000:36:00.0 was replaced by b8:3f:d2:aa:00:09"),
        ({"dimm.C1": {"part": "M321", "serial": "80CE03"}}, "dimm", "M321 80CE03 at C1 is new"),
        ({"pci.0000:18:00.0": {"device": "0x2331"}}, "gpu",
         "0000:18:00.0 0x10de 0x2330 at SXM1 was replaced by 0000:18:00.0 0x10de 0x2331"),
        ({"disk.nvme0n1": {"pci": "0000:48:00.0"}}, "disk", "PM9A3 S1 moved from 0000:46:00.0 to 0000:48:00.0"),
        ({"disk.nvme0n1": {"serial": ""}}, "disk", "PM9A3 S1 at 0000:46:00.0 no longer tells its number: absent"),
    ],
)  # fmt: skip
def test_each_change_is_told_once(changed, kind, why):
    assert told(look(), look(**changed)) == [(kind, why)]


def test_two_modules_that_changed_places_both_moved():
    swapped = look(**{"dimm.A1": {"serial": "80CE02"}, "dimm.B1": {"serial": "80CE01"}})
    assert [kind for kind, _ in told(look(), swapped)] == ["dimm", "dimm"]


def test_a_disk_that_got_another_name_at_the_next_boot_is_the_same_disk():
    renamed = look(**{"disk.nvme0n1": {"serial": "S2", "pci": "0000:47:00.0"},
                      "disk.nvme1n1": {"serial": "S1", "pci": "0000:46:00.0"}})  # fmt: skip
    assert told(look(), renamed) == []


def test_a_bond_that_came_up_in_between_changes_nothing():
    assert told(look(), look(**{"nic.ens1": {"mac": "02:00:00:00:00:99"}})) == []


def test_a_look_that_could_not_see_a_kind_says_nothing_of_it():
    blind = look({"dimm": "Permission denied"}, **{"dimm.A1": None, "dimm.B1": None})
    assert told(look(), blind) == [] and told(blind, look()) == []


def test_what_vanished_and_came_back_is_told_both_times():
    without = look(**{"disk.nvme1n1": None})
    assert [why.rpartition(" ")[2] for _, why in told(look(), without, look())] == ["gone", "new"]


def test_filler_is_no_number():
    assert not [one for one in parts.parts(look(**{"dimm.A1": {"serial": "Not Specified"}})) if one.place == "A1"]


@pytest.mark.parametrize("plugged", [
    {"disk.sda": {"serial": "AAAA", "transport": "usb"}},
    {"nic.usb0": {"permanent": "b8:3f:d2:00:00:07", "pci": "1-1.2:1.0"}},
    {"pci.0000:46:00.0": {"address": "0000:46:00.0", "vendor": "0x144d", "device": "0xa824", "class": "0x010802"}},
])  # fmt: skip
def test_what_is_plugged_in_over_usb_is_no_part_and_an_nvme_is_one_part(plugged):
    assert told(look(), look(**plugged)) == []


@pytest.mark.parametrize(("mac", "wanted"), [
    ("b8:3f:d2:aa:00:01", True), ("02:00:00:00:00:01", False), ("00:00:10:49:fe:80:00:00", False),
    ("zz:3f:d2:aa:00:01", False), ("", False),
])  # fmt: skip
def test_whose_network_address_is_a_makers(mac, wanted):
    assert parts.universal(mac) is wanted


@pytest.mark.parametrize("source", ["disk.nvme0n1", "ib.mlx5_0", "nic.ens1"])
def test_another_firmware_of_the_same_part_is_told_and_that_of_another_part_is_not(source: str) -> None:
    kind, _, name = source.partition(".")
    old, new = look(**{source: {"firmware": "1.0"}}), look(**{source: {"firmware": "2.0"}})
    told = [(one.kind, one.why) for one in parts.firmware([old, old, new])]
    assert told == [(kind, f"firmware 1.0 of {name} is 2.0")]
    swapped = look(**{source: {"firmware": "2.0", "serial": "S9"}})
    assert not [*parts.firmware([old, swapped]), *parts.firmware([old, look()]), *parts.firmware([look(), new])]
