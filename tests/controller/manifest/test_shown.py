"""Which source, fact or measurement of a host tells which column of a manifest."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest
import runs

from gpuburn.agent import hardware
from gpuburn.controller.collect import Collected
from gpuburn.controller.manifest import file, golden
from gpuburn.controller.manifest.shown import Shown, shown
from gpuburn.identity import HostRecord, Identity
from gpuburn.manifest import settled
from gpuburn.measurement import Fact, Reading
from tests.controller.manifest.lists import items, one, seen, told

SOURCES: dict[str, dict[str, str]] = {
    "dmi": {"product_serial": "P1", "board_serial": "B1", "chassis_serial": "To be filled by O.E.M."},
    "cpu": {"model": "Xeon  8480"},
    "memory": {"total": "65011712 kB"},
    "nic.eth0": {
        "mac": "00:11:22:33:44:00",
        "permanent": "00:11:22:33:44:00",
        "model": "CX7",
        "firmware": "28.39",
        "speed": "400000",
    },
    "nic.eth1": {"mac": "aa:aa:aa:aa:aa:aa", "permanent": "00:11:22:33:44:01"},
    "disk.nvme0n1": {"serial": "N1", "model": "PM9A3", "firmware": "F1", "sectors": "7501476528"},
    "disk.nvme0n2": {"serial": "N1", "model": "PM9A3", "sectors": "8"},
    "disk.sda": {"serial": "S1", "model": "boot"},
    "pci.0000:18:00.0": {"slot": "SXM1", "max_link_width": "16", "current_link_width": "8"},
}
MODULES = {
    "dimm.A1": {"serial": "D1", "part": "M1", "size": "32768 MiB"},
    "dimm.A2": {"serial": "D2", "part": "M1", "size": "32768 MiB"},
}


def look(**changed: Any) -> Identity:
    return Identity(**{"taken": runs.ISSUED, "boot_id": "boot", "sources": SOURCES, "missing": {}, **changed})


def collected(
    *looks: Identity, steps: tuple[str, ...] = ("identity", "gpu_health", "gemm"), change: Any = None, **asked: Any
) -> Collected:
    plan = runs.plan(runs.hardware(count=2, level="standard", **asked), steps)
    plan = dataclasses.replace(
        plan, devices=[dataclasses.replace(plan.devices[0], pci="0000:18:00.0"), *plan.devices[1:]]
    )
    answers = runs.answers(plan)
    if change:
        answers = {name: [kept for given in taken for kept in change(given)] for name, taken in answers.items()}
    outcomes = list(runs.outcomes(plan, answers).values())
    return Collected(plan, outcomes, [], {}, record=HostRecord(identities=list(looks)))


def test_every_source_is_told_in_the_manifests_columns() -> None:
    found = shown(collected(look()))
    host = found.parts["host"]
    assert {name: host.get(name) for name in ("product_serial", "board_serial", "cpu_model", "memory_gib")} == {
        "product_serial": "P1", "board_serial": "B1", "cpu_model": "Xeon 8480", "memory_gib": "62",
    }  # fmt: skip
    assert found.parts["nic.eth0"] == {"nic_mac": "00:11:22:33:44:00", "nic_model": "CX7", "nic_firmware": "28.39"}
    assert found.parts["nic.eth1"] == {"nic_mac": "00:11:22:33:44:01"}, "its own, not the bond's"
    assert found.parts["disk.nvme0n1"]["nvme_size_gb"] == "3840.756"
    assert sorted(found.of("nvme")) == ["disk.nvme0n1"], "a second namespace is the same disk, a SATA disk none"
    gpu0 = found.parts["gpu0"]
    assert (gpu0["pcie_gen"], gpu0["pcie_width"], gpu0["gpu_part"], gpu0["gpu_slot"], gpu0["sku"]) == (
        "1", "1", "the same", "0000:18:00.0", "h100-sxm5-80gb",
    )  # fmt: skip
    assert {"gpu_serial", "gpu_uuid", "gpu_vbios", "gpu_model", "power_limit_w", "gpu_memory_gib"} <= set(gpu0)
    assert (host["gpu_count"], host["nic_count"], host["nvme_count"]) == ("2", "2", "1") and "dimm_count" not in host
    assert set(found.whole) == {"gpu", "nic", "nvme"} and found.labels == {"gpu0": "SXM1"}


def test_modules_tell_the_memory_before_the_kernel_does() -> None:
    found = shown(collected(look(sources={**SOURCES, **MODULES})))
    assert found.parts["host"]["memory_gib"] == "64" and found.parts["host"]["dimm_count"] == "2"
    assert found.parts["dimm.A1"] == {
        "dimm_serial": "D1", "dimm_part": "M1", "dimm_size_gib": "32", "dimm_slot": "A1"
    }  # fmt: skip


@pytest.mark.parametrize(
    ("size", "there", "outcome"), [(131072, 16, "match"), (131072, 15, "mismatch"), (65536, 30, "mismatch")]
)
def test_a_module_that_is_missing_is_no_margin(size: int, there: int, outcome: str) -> None:
    modules = {f"dimm.A{at}": {"serial": f"D{at}", "size": f"{size} MiB"} for at in range(there)}
    [item] = told(one("host,memory_gib", "node1,2048"), shown(collected(look(sources={**SOURCES, **modules}))))
    assert item.outcome == outcome and f"(the sum of {there} memory module(s))" in item.why


@pytest.mark.parametrize(("ordered", "outcome"), [("64", "match"), ("70", "mismatch")])
def test_where_a_module_tells_no_size_the_kernels_word_has_its_margin(ordered: str, outcome: str) -> None:
    silent = {**MODULES, "dimm.A2": {"serial": "D2"}}
    [item] = told(one("host,memory_gib", f"node1,{ordered}"), shown(collected(look(sources={**SOURCES, **silent}))))
    assert item.outcome == outcome and "62 (MemTotal, what firmware and kernel leave)" in item.why


def test_an_assigned_address_is_not_the_adapters_own() -> None:
    why = "the address was assigned, not burnt in"
    sources = {**SOURCES, "nic.eth0": {"mac": "00:11:22:33:44:00"}}
    found = shown(collected(look(sources=sources, missing={"nic.eth0.permanent": why})))
    assert found.parts["nic.eth0"] == {} and found.missing["nic.eth0.nic_mac"] == why


def test_why_something_is_not_told_is_kept() -> None:
    missing = {"dmi.chassis_serial": "filler: Default string", "disk.nvme0n1.firmware": "No such file"}
    sources = {**SOURCES, "dmi": {}, "disk.nvme0n1": {"serial": "N1"}}
    found = shown(collected(look(missing=missing, sources=sources)))
    assert found.missing["host.chassis_serial"] == "filler: Default string"
    assert found.missing["disk.nvme0n1.nvme_firmware"] == "No such file"
    [item] = told(one("host,chassis_serial", "node1,C1"), found)
    assert item.why == "ordered is C1; not told: filler: Default string"


def test_filler_is_no_serial_whoever_sent_it() -> None:
    def filler(given: Any) -> list[Any]:
        junk = isinstance(given, Fact) and given.name == "gpu_serial" and given.subject == "gpu1"
        return [dataclasses.replace(given, value="none: Not Supported") if junk else given]

    found = shown(collected(look(), change=filler))
    assert "chassis_serial" not in found.parts["host"] and "gpu_serial" not in found.parts["gpu1"]
    assert found.missing["gpu1.gpu_serial"] == "none: Not Supported" and "gpu" in found.whole


def test_a_gpu_that_says_nothing_is_not_there_whatever_the_sampler_saw() -> None:
    def silent(given: Any) -> list[Any]:
        if isinstance(given, Reading) and given.metric == "gpus":
            return [dataclasses.replace(given, value=1.0)]
        return [] if isinstance(given, Fact) and given.subject == "gpu1" else [given]

    found = shown(collected(look(), change=silent))
    assert sorted(found.of("gpu")) == ["gpu0"] and "gpu" in found.whole


def test_without_the_identity_step_no_gpu_is_known_to_be_there_or_not() -> None:
    found = shown(collected(look(), steps=("gemm",)))
    assert found.of("gpu") == {} and "gpu" not in found.whole and "gpu_count" not in found.parts["host"]


def test_the_lowest_power_limit_counts() -> None:
    at = iter((700.0, 690.0, 650.0, 700.0))

    def lower(given: Any) -> list[Any]:
        mine = isinstance(given, Reading) and given.metric == "power_limit" and given.subject == "gpu0"
        return [dataclasses.replace(given, value=next(at, 700.0)) if mine else given]

    assert shown(collected(look(), change=lower)).parts["gpu0"]["power_limit_w"] == "650"


LINK = one("host,pcie_gen,pcie_width", "node1,5,16")


def linked(gen: tuple[float, ...], width: tuple[float, ...], probe: str = "gemm") -> Collected:
    """A host whose gpu0 has these readings of its link in the step of a probe; a fine one in every other place."""
    given = collected(look(), steps=("identity", "gpu_health", "gemm", "memory_bandwidth"))

    def measured(m: Any, mine: bool) -> Any:
        fine = {"telemetry.pcie_gen": 5.0, "telemetry.pcie_width": 16.0}
        told = {"telemetry.pcie_gen": max(gen), "telemetry.pcie_width": min(width)}
        values = told if mine and m.subject == "gpu0" else fine
        return dataclasses.replace(m, value=values.get(m.name, m.value))

    outcomes = [
        dataclasses.replace(one, measurements=[measured(m, one.probe == probe) for m in one.measurements])
        for one in given.outcomes
    ]
    return dataclasses.replace(given, outcomes=outcomes)


def test_a_link_is_compared_as_it_came_up_under_load() -> None:
    assert items(LINK, shown(linked((5.0,), (16.0,)))) == []
    assert items(LINK, shown(linked((5.0,), (8.0,)))) == [("mismatch", "pcie_width", "gpu0")]
    assert items(LINK, shown(linked((5.0,), (8.0,), "memory_bandwidth"))) == [("mismatch", "pcie_width", "gpu0")]
    [item] = [one for one in told(LINK, shown(linked((5.0,), (8.0,)))) if one.outcome == "mismatch"]
    assert item.why == "ordered is 16, there is 8 (under load)"


def test_a_link_that_never_rose_to_its_generation_is_a_mismatch_whatever_the_card_could_hold() -> None:
    low = linked((4.0,), (16.0,))
    every = [dataclasses.replace(one, measurements=[dataclasses.replace(m, value=4.0) if m.name == "telemetry.pcie_gen"
             else m for m in one.measurements]) for one in low.outcomes]  # fmt: skip
    found = [one for one in told(LINK, shown(dataclasses.replace(low, outcomes=every))) if one.outcome != "match"]
    assert {(one.outcome, one.column, one.why) for one in found} == {
        ("mismatch", "pcie_gen", "ordered is 5, there is 4 (under load)")
    }


def test_without_load_lanes_are_told_at_rest_and_the_generation_is_not() -> None:
    found = shown(collected(look(), steps=("identity",)))
    assert found.parts["gpu0"]["pcie_width"] == "8" and "pcie_gen" not in found.parts["gpu0"]
    gen = next(one for one in told(LINK, found) if (one.column, one.subject) == ("pcie_gen", "gpu0"))
    assert (gen.outcome, gen.seeable) == ("not_comparable", True) and "not measured under load" in gen.why
    hidden = shown(collected(look(), steps=("identity",), environment="vm"))
    assert not next(one for one in told(LINK, hidden) if one.column == "pcie_gen").seeable


def test_of_two_looks_the_last_counts_and_without_one_nothing_is_whole() -> None:
    later = look(sources={**SOURCES, "dmi": {"product_serial": "P2"}})
    assert shown(collected(look(), later)).parts["host"]["product_serial"] == "P2"
    none = shown(collected())
    assert none.whole == ["gpu"] and set(none.parts["host"]) == {"gpu_count"}


@pytest.mark.parametrize(("folder", "kind"), [("sys.class.net", "nic"), ("sys.block", "nvme")])
def test_a_folder_that_cannot_be_listed_leaves_its_kind_open(folder: str, kind: str) -> None:
    found = shown(collected(look(missing={folder: "Permission denied"})))
    assert kind not in found.whole and f"{kind}_count" not in found.parts["host"]


@pytest.mark.parametrize(
    ("asked", "blind", "virtual"),
    [({}, False, False), ({"environment": "vm"}, True, True), ({"privileges": "user"}, True, False)],
)
def test_what_environment_and_privileges_hide(asked: dict[str, Any], blind: bool, virtual: bool) -> None:
    found = shown(collected(look(), **asked))
    assert (bool(found.blind), found.virtual) == (blind, virtual)


def test_a_rehearsal_has_no_gpu() -> None:
    plan = runs.plan(runs.request(), ("idle",))
    found = shown(Collected(plan, list(runs.outcomes(plan).values()), [], {}, record=HostRecord(identities=[look()])))
    assert not found.gpus and found.of("gpu") == {} and not any(name.startswith("cpu") for name in found.parts)


def test_what_is_kept_is_read_back() -> None:
    found = shown(collected(look()))
    assert Shown.read(found.kept()) == found and Shown.read("") == Shown()


def test_the_sources_are_named_as_the_agent_names_them(tmp_path: Path) -> None:
    """A host of files, looked at by the agent."""
    for path, text in {
        "sys/class/net/eth0/address": "00:11:22:33:44:00", "sys/class/net/eth0/device/vendor": "0x15b3",
        "sys/class/net/eth0/addr_assign_type": "0",
        "sys/block/nvme0n1/size": "7501476528", "sys/block/nvme0n1/device/serial": "N1",
        "sys/block/nvme0n1/device/model": "PM9A3", "sys/block/nvme0n1/device/firmware_rev": "F1",
        "sys/class/dmi/id/product_serial": "P1", "sys/class/dmi/id/board_serial": "B1",
        "sys/class/dmi/id/chassis_serial": "C1", "proc/cpuinfo": "model name : Xeon",
        "proc/meminfo": "MemTotal: 1024 kB",
        "sys/bus/pci/devices/0000:18:00.0/vendor": "0x10de", "sys/bus/pci/devices/0000:18:00.0/class": "0x030200",
        "sys/bus/pci/devices/0000:18:00.0/max_link_width": "16",
        "sys/bus/pci/devices/0000:18:00.0/current_link_width": "8",
    }.items():  # fmt: skip
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    found = shown(collected(hardware.look(tmp_path), steps=("identity",)))
    assert found.parts["disk.nvme0n1"] == {
        "nvme_serial": "N1", "nvme_model": "PM9A3", "nvme_firmware": "F1", "nvme_size_gb": "3840.756"
    }  # fmt: skip
    assert found.parts["nic.eth0"]["nic_mac"] == "00:11:22:33:44:00"
    assert {"product_serial", "board_serial", "chassis_serial", "cpu_model", "memory_gib"} <= set(found.parts["host"])
    assert found.parts["gpu0"]["pcie_width"] == "8" and found.by["gpu0.pcie_width"] == "at rest"


def test_a_list_written_from_all_that_a_host_shows_is_as_the_host_is() -> None:
    def own(given: Any) -> list[Any]:
        mine = isinstance(given, Fact) and given.name in ("gpu_serial", "gpu_uuid")
        return [dataclasses.replace(given, value=f"{given.name}-{given.subject}") if mine else given]

    for there in (seen(), shown(collected(look(sources={**SOURCES, **MODULES}), change=own))):
        host = runs.expected(runs.plan(), rack="A01", unit="7", delivery="lot-1")
        left_out: list[str] = []
        text = golden.table(golden.host(host, there, left_out, {}))
        [ordered] = settled(file.parse(text.encode(), "list.csv")).hosts
        assert left_out == [] and items(ordered, there) == []
        assert len([one for one in told(ordered, there) if one.outcome == "match"]) > 20


def test_what_a_list_cannot_hold_is_left_out_and_named() -> None:
    there = seen()
    there.parts["gpu0"]["gpu_model"] = "=HYPERLINK(x)"
    there.parts["disk.nvme0n1"]["nvme_serial"] = "N1;N2"
    left_out: list[str] = []
    text = golden.table(golden.host(runs.expected(runs.plan()), there, left_out, {}))
    assert "HYPERLINK" not in text and "N1;N2" not in text
    assert [why.split(":")[0] for why in left_out] == ["node1 gpu0", "node1 disk.nvme0n1", "node1 disk.nvme0n1"]


def test_a_count_of_gpus_that_not_all_tell_a_number_is_left_out() -> None:
    there = seen()
    there.parts["gpu1"] = {"gpu_model": "H100"}
    left_out: list[str] = []
    text = golden.table(golden.host(runs.expected(runs.plan()), there, left_out, {}))
    assert "node1: gpu_count: not each of them tells a number of its own" in left_out
    [ordered] = settled(file.parse(text.encode(), "list.csv")).hosts
    assert "gpu_count" not in ordered.values


def test_a_number_that_two_parts_tell_is_listed_once_and_neither_is_unexpected() -> None:
    there = seen()
    there.parts["nic.eth1"]["nic_mac"] = there.parts["nic.eth0"]["nic_mac"]  # ports of a bond, on an older agent
    left_out: list[str] = []
    text = golden.table(golden.host(runs.expected(runs.plan()), there, left_out, {}))
    assert left_out[0] == "node1 nic.eth1: nic_mac: '00:11:22:33:44:00' is told by node1 nic.eth0, too"
    [ordered] = settled(file.parse(text.encode(), "list.csv")).hosts
    assert items(ordered, there) == []
