"""Every outcome of an item, and the finding that it leads to."""

from __future__ import annotations

import dataclasses

import pytest

from gpuburn.controller.manifest import judging
from gpuburn.controller.manifest.compare import compare
from gpuburn.controller.manifest.shown import Shown
from gpuburn.finding import Verdict
from gpuburn.manifest import COLUMNS, Lookup, Ordered, about
from tests.controller.manifest.lists import gpu, items, matched, one, read, seen, told, without

SERIALS = one("host,gpu_serial", "node1,G0", "node1,G1")
MACS = one("host,nic_mac", "node1,0011.2233.4400", "node1,00-11-22-33-44-01")


def test_what_is_as_ordered_matches_part_by_part() -> None:
    assert items(SERIALS, seen()) == []
    assert matched(SERIALS, seen()) == [("gpu_serial", "gpu0"), ("gpu_serial", "gpu1")]
    assert matched(MACS, seen()) == [("nic_mac", "nic.eth0"), ("nic_mac", "nic.eth1")]


@pytest.mark.parametrize(
    ("heading", "good", "bad"),
    [
        ("product_serial", "p1", "P2"), ("board_serial", "B1", "B2"), ("chassis_serial", "C1", "C2"),
        ("cpu_model", "xeon  8480", "EPYC"), ("memory_gib", "64", "128"), ("memory_gib", "69", "70"),
        ("memory_gib", "64", "63"), ("gpu_count", "2", "8"), ("nic_count", "2", "1"), ("nvme_count", "1", "2"),
        ("dimm_count", "2", "4"), ("sku", "h100-sxm5-80gb", "h200-sxm"), ("gpu_model", "h100", "H200"),
        ("gpu_vbios", "96.00", "96.01"), ("gpu_memory_gib", "80", "94"), ("pcie_gen", "Gen5", "4"),
        ("pcie_width", "x16", "8"), ("power_limit_w", "700", "690"), ("dimm_part", "m1", "M2"),
        ("dimm_size_gib", "32", "64"),
    ],
)  # fmt: skip
def test_a_value_of_the_host_or_of_every_part_matches_or_does_not(heading: str, good: str, bad: str) -> None:
    assert items(one(f"host,{heading}", f"node1,{good}"), seen()) == []
    wrong = items(one(f"host,{heading}", f"node1,{bad}"), seen())
    assert wrong and {(outcome, column) for outcome, column, _ in wrong} == {("mismatch", heading)}
    found = [i for i in told(one(f"host,{heading}", f"node1,{good}"), seen())]
    assert found and all(i.outcome == "match" for i in found)


@pytest.mark.parametrize(
    ("heading", "value"),
    [
        ("nvme_model", "CD8P"),
        ("nvme_firmware", "F2"),
        ("nvme_size_gb", "1920"),
        ("nic_model", "CX6"),
        ("nic_firmware", "1"),
    ],
)
def test_what_a_part_is_beside_its_number_is_compared(heading: str, value: str) -> None:
    key, number, part = ("nvme_serial", "N1", "disk.nvme0n1") if "nvme" in heading else (
        "nic_mac", "00:11:22:33:44:01", "nic.eth1")  # fmt: skip
    ordered = one(f"host,{key},{heading}", f"node1,{number},{value}")
    assert ("mismatch", heading, part) in items(ordered, seen())


def test_one_other_gpu_is_a_mismatch_of_that_gpu() -> None:
    ordered = one("host,gpu_serial", "node1,G0", "node1,G9")
    [item] = [i for i in told(ordered, seen()) if i.outcome != "match"]
    assert (item.outcome, item.column, item.subject, item.ordered, item.there) == (
        "mismatch", "gpu_serial", "gpu1", "G9", "G1",
    )  # fmt: skip
    assert item.why == "ordered is G9, there is G1"


def test_two_other_gpus_are_missing_and_unexpected() -> None:
    ordered = one("host,gpu_serial", "node1,G8", "node1,G9")
    assert items(ordered, seen()) == [
        ("missing", "gpu_serial", "host"), ("missing", "gpu_serial", "host"),
        ("unexpected", "gpu_serial", "gpu0"), ("unexpected", "gpu_serial", "gpu1"),
    ]  # fmt: skip


def test_a_slot_tells_which_gpu_is_the_other_one() -> None:
    ordered = one("host,gpu_serial,gpu_slot", "node1,G8,18:00.0", "node1,G9,gpu1")
    assert items(ordered, seen()) == [("mismatch", "gpu_serial", "gpu0"), ("mismatch", "gpu_serial", "gpu1")]


def test_a_gpu_in_another_slot_is_that_gpu_in_another_slot() -> None:
    ordered = one("host,gpu_serial,gpu_slot", "node1,G0,gpu1", "node1,G1,gpu0")
    assert items(ordered, seen()) == [("mismatch", "gpu_slot", "gpu1"), ("mismatch", "gpu_slot", "gpu0")] or items(
        ordered, seen()
    ) == [("mismatch", "gpu_slot", "gpu0"), ("mismatch", "gpu_slot", "gpu1")]


def test_a_label_that_the_board_gives_a_slot_is_compared() -> None:
    there = seen(labels={"gpu0": "SXM1", "gpu1": "SXM2"})
    right = one("host,gpu_serial,gpu_slot", "node1,G0,SXM1", "node1,G1,sxm2")
    assert items(right, there) == []
    crossed = one("host,gpu_serial,gpu_slot", "node1,G0,SXM2", "node1,G1,SXM1")
    assert sorted(items(crossed, there)) == [("mismatch", "gpu_slot", "gpu0"), ("mismatch", "gpu_slot", "gpu1")]
    assert "ordered is SXM2, there is gpu0 at 0000:18:00.0 (SXM1)" in {i.why for i in told(crossed, there)}
    by_slot = one("host,gpu_vbios,gpu_slot", "node1,96.00,SXM1", "node1,96.01,SXM2")
    assert items(by_slot, there) == [("mismatch", "gpu_vbios", "gpu1")], "paired by its label alone"


def test_a_label_of_a_slot_is_not_comparable_and_nobodys_fault() -> None:
    ordered = one("host,gpu_serial,gpu_slot", "node1,G0,SXM1", "node1,G1,SXM2")
    found = [i for i in told(ordered, seen()) if i.column == "gpu_slot"]
    assert [(i.outcome, i.seeable) for i in found] == [("not_comparable", False)] * 2
    labels = one("host,gpu_vbios,gpu_slot", "node1,96.01,SXM1", "node1,96.01,SXM2")
    assert {(o, c) for o, c, _ in items(labels, seen())} == {("not_comparable", "gpu_slot"), ("mismatch", "gpu_vbios")}


def test_a_uuid_that_is_not_its_serials_is_a_mismatch() -> None:
    ordered = one("host,gpu_serial,gpu_uuid", "node1,G0,GPU-G0", "node1,G1,GPU-other")
    assert items(ordered, seen()) == [("mismatch", "gpu_uuid", "gpu1")]


def test_a_gpu_less_is_missing_and_a_gpu_more_unexpected() -> None:
    assert items(SERIALS, without("gpu1")) == [("missing", "gpu_serial", "host")]
    more = seen()
    more.parts["gpu2"] = gpu("G2", "0000:3a:00.0")
    assert items(SERIALS, more) == [("unexpected", "gpu_serial", "gpu2")]


def test_where_not_every_gpu_showed_itself_none_is_missing() -> None:
    shown = dataclasses.replace(without("gpu1"), whole=["nic"])
    assert items(SERIALS, shown) == [("not_comparable", "gpu_serial", "host")]


def test_a_gpu_that_does_not_tell_its_serial_may_be_the_ordered_one() -> None:
    shown = without("gpu1", "gpu_serial")
    shown.missing["gpu1.gpu_serial"] = "none: not supported"
    [item] = [i for i in told(SERIALS, shown) if i.outcome != "match"]
    assert (item.outcome, item.seeable) == ("not_comparable", True) and "not supported" in item.why
    three = one("host,gpu_serial", "node1,G0", "node1,G1", "node1,G2")
    assert {o for o, _, _ in items(three, shown)} == {"not_comparable"}


def test_an_interface_that_is_not_listed_is_unexpected_but_for_one_that_its_host_named() -> None:
    shown = seen()
    shown.parts["nic.usb0"] = {"nic_mac": "02:11:22:33:44:99"}
    assert items(MACS, shown) == []
    shown.parts["nic.eth9"] = {"nic_mac": "00:11:22:33:44:99"}
    assert items(MACS, shown) == [("unexpected", "nic_mac", "nic.eth9")]


@pytest.mark.parametrize("heading", [name for name, about in COLUMNS.items() if about.of != "place"])
def test_what_nothing_tells_is_not_comparable_and_never_a_match(heading: str) -> None:
    values = {"sku": "h200-sxm", "nic_mac": "00:11:22:33:44:00"}
    about_ = COLUMNS[heading]
    value = values.get(heading, "7" if about_.form in ("count", "number", "lanes") else "X7")
    beside = {"nic": "nic_mac", "nvme": "nvme_serial"}.get(about_.of, "")
    head, row = f"host,{heading}", f"node1,{value}"
    if beside and not about_.identifies:
        head, row = f"{head},{beside}", f"{row},{values.get(beside, 'Z1')}"
    found = told(one(head, row), Shown())
    assert found and {i.outcome for i in found} == {"not_comparable"}
    verdicts = {f.verdict for f in judging.findings(found, ("training",))}
    assert verdicts <= {Verdict.INCOMPLETE, Verdict.NOT_APPLICABLE} and (
        Verdict.INCOMPLETE in verdicts or heading in ("gpu_slot", "dimm_slot")
    )


@pytest.mark.parametrize("heading", ["chassis_serial", "board_serial", "product_serial", "dimm_serial", "dimm_count"])
def test_what_privileges_hide_is_not_applicable(heading: str) -> None:
    shown = Shown(blind="not to be seen with user privileges")
    found = told(one(f"host,{heading}", "node1,7"), shown)
    assert {(i.outcome, i.seeable) for i in found} == {("not_comparable", False)}
    [finding] = judging.findings(found, ("training",))
    assert (finding.code, finding.verdict) == ("not_observable", Verdict.NOT_APPLICABLE)


def test_a_virtual_machine_shows_other_disks_and_that_fails_nothing() -> None:
    shown = seen(virtual=True, blind="not to be seen in environment vm")
    ordered = one("host,nvme_serial,nic_mac", "node1,N9,00:11:22:33:44:99")
    assert {(i.outcome, i.seeable) for i in told(ordered, shown)} == {("not_comparable", False)}
    assert items(one("host,gpu_serial", "node1,G0", "node1,G9"), shown) == [("mismatch", "gpu_serial", "gpu1")]


def test_a_rehearsal_shows_no_gpu_and_that_fails_nothing() -> None:
    found = told(one("host,gpu_serial,gpu_count", "node1,G0,1"), Shown(gpus=False))
    assert {(i.outcome, i.seeable) for i in found} == {("not_comparable", False)}


def test_what_the_list_says_nothing_of_is_listed_once_for_each_column() -> None:
    found = [i for i in compare(SERIALS, seen()) if i.outcome == "not_in_manifest"]
    said = {i.column: i for i in found}
    assert "gpu_serial" not in said and said["nic_mac"].there == "00:11:22:33:44:00, 00:11:22:33:44:01"
    assert len(found) == len(said) and "host" not in said
    assert {f.verdict for f in judging.findings(found, ("training",))} == {Verdict.NOT_APPLICABLE}


@pytest.mark.parametrize(
    ("ordered", "shown", "code", "verdict"),
    [
        (SERIALS, seen(), "manifest.match", Verdict.PASS),
        (one("host,gpu_serial", "node1,G0", "node1,G9"), seen(), "manifest.mismatch", Verdict.FAIL),
        (SERIALS, without("gpu1"), "manifest.missing", Verdict.FAIL),
        (one("host,gpu_serial", "node1,G0"), seen(), "manifest.unexpected", Verdict.FAIL),
        (SERIALS, Shown(), "manifest.not_comparable", Verdict.INCOMPLETE),
        (SERIALS, seen(), "manifest.not_in_manifest", Verdict.NOT_APPLICABLE),
    ],
    ids=lambda one: one if isinstance(one, str) else "",
)
def test_each_outcome_leads_to_its_finding(ordered: Ordered, shown: Shown, code: str, verdict: Verdict) -> None:
    found = [f for f in judging.findings(compare(ordered, shown), ("training",)) if f.code == code]
    assert found and all((f.verdict, f.source, f.profiles) == (verdict, "manifest", ("training",)) for f in found)
    assert found[0].about == about("gpu_serial") or code == "manifest.not_in_manifest"


@pytest.mark.parametrize(
    ("kind", "part", "values", "verdict"),
    [
        ("nic_mac", "nic.eno1", {"nic_mac": "3c:ec:ef:00:00:01"}, Verdict.PASS),
        ("gpu_serial", "gpu2", {"gpu_serial": "G2"}, Verdict.FAIL),
        ("nvme_serial", "disk.nvme1n1", {"nvme_serial": "N2"}, Verdict.FAIL),
        ("dimm_serial", "dimm.A3", {"dimm_serial": "D3"}, Verdict.FAIL),
    ],
)
def test_a_port_more_is_marginal_and_any_other_part_more_fails(
    kind: str, part: str, values: dict[str, str], verdict: Verdict
) -> None:
    shown = seen()
    numbers = [one_[kind] for name, one_ in shown.parts.items() if kind in one_]
    shown.parts[part] = values
    found = judging.findings(told(one(f"host,{kind}", *(f"node1,{n}" for n in numbers)), shown), ("training",))
    [extra] = [f for f in found if f.code == "manifest.unexpected"]
    assert (extra.verdict, extra.marginal, extra.subject) == (verdict, verdict is Verdict.PASS, part)
    assert bool(extra.severity) and ("list it" in extra.action) == (verdict is Verdict.PASS)


def test_a_listed_port_that_is_not_there_fails_whatever_else_is() -> None:
    shown = without("nic.eth1")
    shown.parts["nic.eno1"] = {"nic_mac": "3c:ec:ef:00:00:01"}
    verdicts = {f.code: f.verdict for f in judging.findings(told(MACS, shown), ("training",))}
    assert verdicts["manifest.missing"] is Verdict.FAIL and verdicts["manifest.unexpected"] is Verdict.PASS


def test_matches_are_one_finding_for_each_column() -> None:
    [found] = [f for f in judging.findings(told(SERIALS, seen()), ("training",))]
    assert found.why == "2 as ordered: G0, G1"


def test_zeros_that_a_spreadsheet_dropped_are_a_mismatch_that_says_so() -> None:
    [item] = [i for i in told(one("host,product_serial", "node1,012"), seen(parts={"host": {"product_serial": "12"}}))]
    assert item.outcome == "mismatch" and "only zeros in front differ" in item.why


def test_a_host_that_is_not_in_the_list_is_incomplete() -> None:
    found = judging.items(Lookup(read("host,gpu_serial", "other,G0")), "node1", "", "", seen())
    [finding] = judging.findings(found, ("training",))
    assert (finding.code, finding.verdict) == ("manifest.not_comparable", Verdict.INCOMPLETE)


def test_a_host_is_found_by_its_place_too() -> None:
    listed = read("rack,unit,gpu_serial", "A01,10,G0", "A01,10,G1")
    found = judging.items(Lookup(listed), "node1", "A01", "10", seen())
    assert Lookup(listed).host("node1", "a01", "U010") is Lookup(listed).host("node1", "A01", "10")
    assert Lookup(listed).host("node1", "A01", "11") is None and Lookup(listed).host("node1") is None
    assert found and {i.outcome for i in found} == {"match", "not_in_manifest"}
