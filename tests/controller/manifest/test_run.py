"""A manifest in a run: kept, compared with every host, decided by; the commands that make and amend one."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import runs
import yaml

from gpuburn import strict, waiver
from gpuburn.controller import ansible_inventory, preflight, waived
from gpuburn.controller.manifest import file, golden, held, inventory
from gpuburn.controller.run import BEGAN, MANIFEST, Expected, Run
from gpuburn.finding import Verdict
from gpuburn.policy import Decision
from gpuburn.strict import Refused
from gpuburn.waiver import Waiver
from tests.controller.deliveries.made import FIRST, NOW, reported, tried
from tests.controller.manifest.lists import read
from tests.controller.test_main import TRIAL, gpuburn  # noqa: F401  (a fixture)

HEAD = "host,gpu_serial\n"
GOOD = HEAD + "a,a-gpu0\na,a-gpu1\nb,b-gpu0\nb,b-gpu1\n"
OTHER = GOOD.replace("a-gpu1", "elsewhere")


def run_with(tmp_path: Path, text: str, hosts: dict[str, str] | None = None, **more: Any) -> Run:
    """A run whose hosts pass, that began with this manifest."""
    run = tried(tmp_path, FIRST, hosts or {"a": "pass", "b": "pass"}, **more)
    (run.folder / MANIFEST).write_text(text)
    (run.folder / "journal.jsonl").unlink()
    digests = {"policy": run.policy().digest, "waivers": waiver.digest(run.waivers())}
    run.note(run.began(), BEGAN, **digests, manifest=file.load(run.folder / MANIFEST).digest)
    return run


def about(account: Any, prefix: str = "manifest.") -> list[tuple[str, str, str]]:
    return [(f.code, f.about, f.subject) for f in account.findings() if f.about.startswith(prefix)]


def test_a_host_with_another_gpu_than_ordered_is_rejected_and_the_gpu_named(tmp_path: Path) -> None:
    run = run_with(tmp_path, OTHER)
    found = reported(run)
    assert (found["a"].decision, found["b"].decision) == (Decision.REJECTED, Decision.ACCEPTED)
    assert found["a"].reason == "gpu1: manifest.gpu_serial: ordered is elsewhere, there is a-gpu1"
    [failed] = [f for f in found["a"].findings() if f.verdict is Verdict.FAIL]
    assert (failed.code, failed.about, failed.subject) == ("manifest.mismatch", "manifest.gpu_serial", "gpu1")
    page = (run.host("a") / "index.html").read_text()
    assert "ordered is elsewhere, there is a-gpu1" in page and '<td class="fail">mismatch</td>' in page
    assert '<td class="pass">match</td>' in page and "a-gpu0, as ordered" in page
    document = json.loads((run.folder / "report.json").read_text())
    assert any(f["code"] == "manifest.mismatch" for f in document["hosts"][0]["findings"])


def test_hosts_as_ordered_are_accepted_and_each_match_is_told(tmp_path: Path) -> None:
    found = reported(run_with(tmp_path, GOOD))
    assert [one.decision for one in found.values()] == [Decision.ACCEPTED] * 2
    assert ("manifest.match", "manifest.gpu_serial", "host") in about(found["a"])


def test_a_run_without_a_manifest_compares_nothing(tmp_path: Path) -> None:
    run = tried(tmp_path, FIRST, {"a": "pass"})
    assert about(reported(run)["a"]) == [] and "Manifest" not in (run.host("a") / "index.html").read_text()


def test_a_host_that_the_manifest_does_not_list_is_undecided(tmp_path: Path) -> None:
    found = reported(run_with(tmp_path, HEAD + "a,a-gpu0\na,a-gpu1\n"))
    assert (found["a"].decision, found["b"].decision) == (Decision.ACCEPTED, Decision.UNDECIDED)
    assert ("manifest.not_comparable", "manifest.host", "host") in about(found["b"])


def test_hosts_of_the_manifest_that_are_not_in_the_run_are_told(tmp_path: Path) -> None:
    run = run_with(tmp_path, GOOD + "c,c-gpu0\n")
    reported(run)
    assert "1 host(s) of the manifest are not in this run: c" in (run.folder / "index.html").read_text()


@pytest.mark.parametrize("how", ["changed", "gone", "came later", "no journal", "nonsense"])
def test_a_manifest_that_is_not_the_one_of_the_start_proves_nothing(tmp_path: Path, how: str) -> None:
    run = run_with(tmp_path, GOOD)
    if how == "changed":
        (run.folder / MANIFEST).write_text(GOOD + "c,c-gpu0\n")
    elif how == "gone":
        (run.folder / MANIFEST).unlink()
    elif how == "nonsense":
        (run.folder / MANIFEST).write_text("=1")
    else:
        (run.folder / "journal.jsonl").unlink()
        if how == "came later":
            run.note(run.began(), BEGAN, policy=run.policy().digest)
    found = reported(run)
    assert [one.decision for one in found.values()] == [Decision.UNDECIDED] * 2
    assert about(found["a"]) == [("manifest.not_comparable", "manifest.host", "host")]
    assert "Nothing was compared" in (run.host("a") / "index.html").read_text()


def test_a_failed_item_can_be_waived_by_the_serial_that_is_there(tmp_path: Path) -> None:
    one = Waiver("W-1", "A. Person", "manifest.gpu_serial", ("a-gpu1",), "RMA 7", "2026-01-01", "2026-01-15")
    found = reported(run_with(tmp_path, OTHER, waivers=waiver.dump([one])))
    assert found["a"].decision is Decision.CONDITIONAL
    other = waiver.dump([Waiver("W-2", "A", "manifest.gpu_serial", ("a-gpu0",), "x", "2026-01-01", "2026-01-15")])
    assert reported(run_with(tmp_path / "2", OTHER, waivers=other))["a"].decision is Decision.REJECTED


def test_a_part_beside_the_gpus_is_waived_by_its_own_serial(tmp_path: Path) -> None:
    run = run_with(tmp_path, GOOD)
    ways = {one.expected.host: one.way for one in reported(run).values()}
    shown = {"parts": {"disk.nvme0n1": {"nvme_serial": "N1", "nvme_model": "X1"}}}
    way = strict.dataclasses.replace(
        ways["a"], judged=strict.dataclasses.replace(ways["a"].judged, shown=json.dumps(shown))
    )
    assert waived.serials(way, "disk.nvme0n1") == {"N1"} and waived.serials(way, "gpu1") >= {"a-gpu1"}


def test_a_list_that_a_run_wrote_is_as_the_run_is(tmp_path: Path) -> None:
    run = tried(tmp_path, FIRST, {"a": "pass", "b": "pass"})
    text, left_out = golden.made(run, NOW)
    assert left_out == [] and "a-gpu1" in text and "b-gpu0" in text and "product_serial of a" in text
    again = run_with(tmp_path / "again", text)
    found = reported(again)
    assert [one.decision for one in found.values()] == [Decision.ACCEPTED] * 2
    outcomes = {i.outcome for one in found.values() for i in held.items(held.book(again), one.way) or []}
    assert "match" in outcomes and outcomes <= {"match", "not_in_manifest"}


def test_the_command_writes_one_host_and_never_over_a_file(tmp_path: Path, gpuburn: Any) -> None:  # noqa: F811
    tried(tmp_path, FIRST, {"a": "pass", "b": "away"})
    call = ("manifest", "from", FIRST, "--reports", tmp_path / "reports")
    done = gpuburn(*call, "--host", "a", "--to", tmp_path / "new.csv")
    assert done.status == 0 and "row(s)" in done.err
    assert {one.host for one in file.load(tmp_path / "new.csv").hosts} == {"a"}
    done = gpuburn(*call, "--host", "a", "--to", tmp_path / "new.csv")
    assert done.status == 3 and "exists already" in done.err
    done = gpuburn(*call)
    assert done.status == 0 and "left out: b: no evidence of it counts" in done.err and done.out.startswith("host,")
    assert gpuburn(*call, "--host", "b").status == 3
    assert "no host matches 'z'" in gpuburn(*call, "--host", "z").err


@pytest.fixture
def listed(tmp_path: Path) -> Path:
    path = tmp_path / "list.csv"
    path.write_text("host,gpu_serial,gpu_uuid,nic_mac\nnode1,G0,GPU-0,001122334455\nnode1,G1,GPU-1,\n")
    return path


def amend(call: Any, path: Path, old: str, new: str, **more: str) -> Any:
    said = {"--by": "A. Person", "--reason": "RMA 7", **more}
    return call("manifest", "amend", path, "--replaces", old, new, *(word for pair in said.items() for word in pair))


def test_an_amendment_is_kept_beside_the_list_and_read_with_it(listed: Path, gpuburn: Any) -> None:  # noqa: F811
    before, digest = listed.read_bytes(), file.load(listed).digest
    done = amend(gpuburn, listed, "G1", "G9")
    assert done.status == 0 and "the same part is listed with gpu_uuid GPU-1" in done.err
    assert amend(gpuburn, listed, "00-11-22-33-44-55", "00:11:22:33:44:66").status == 0
    assert amend(gpuburn, listed, "G9", "G10", **{"--reason": "again"}).status == 0
    assert listed.read_bytes() == before
    found = file.load(listed)
    assert found.digest != digest and {"G0", "G10"} == found.hosts[0].said("gpu_serial")
    assert found.hosts[0].said("nic_mac") == {"00:11:22:33:44:66"}
    kept = yaml.safe_load(file.beside(listed).read_text())
    assert [(one["old"], one["new"], one["by"], one["reason"]) for one in kept] == [
        ("G1", "G9", "A. Person", "RMA 7"), ("00-11-22-33-44-55", "00:11:22:33:44:66", "A. Person", "RMA 7"),
        ("G9", "G10", "A. Person", "again"),
    ]  # fmt: skip
    assert all(one["date"] for one in kept)
    assert "amended" in gpuburn("manifest", "check", listed).out


@pytest.mark.parametrize(
    ("old", "new", "more", "says"),
    [
        ("G7", "G9", {}, "old is 'G7', which the manifest has not at all"),
        ("G1", "G0", {}, "new is 'G0', which the manifest has already"),
        ("G1", "=1", {}, "begins as a formula"),
        ("00:11:22:33:44:55", "G9", {}, "is no MAC address"),
        ("G1", "G9", {"--by": " "}, "'by' is empty"),
        ("G1", "G9", {"--reason": ""}, "'reason' is empty"),
    ],
)
def test_an_amendment_that_cannot_be_is_refused_and_nothing_written(
    listed: Path, gpuburn: Any, old: str, new: str, more: dict[str, str], says: str  # noqa: F811
) -> None:  # fmt: skip
    done = amend(gpuburn, listed, old, new, **more)
    assert done.status == 3 and says in done.err and done.err.count("\n") == 1
    assert not file.beside(listed).exists()


def test_amendments_that_no_longer_fit_are_refused_by_entry(listed: Path, gpuburn: Any) -> None:  # noqa: F811
    assert amend(gpuburn, listed, "G1", "G9").status == 0
    listed.write_text("host,gpu_serial\nnode1,G0\n")
    done = gpuburn("manifest", "check", listed)
    assert done.status == 3 and "list.csv.amendments.yml[0]: old is 'G1'" in done.err
    file.beside(listed).write_text("- {old: a, new: b, by: c, reason: d, when: e}")
    assert "unknown 'when'" in gpuburn("manifest", "check", listed).err


def expect(call: Any, tmp_path: Path, listed: Path, *more: str, host: str = "node1") -> Any:
    stdin = {host: {"variables": {**TRIAL, "gpuburn_manifest": str(listed)}}}
    return call("expect", "--run", runs.RUN, "--reports", tmp_path / "reports", *more, stdin=stdin)


def test_the_run_keeps_list_and_amendments_and_refuses_others(
    tmp_path: Path, listed: Path, gpuburn: Any  # noqa: F811
) -> None:  # fmt: skip
    assert amend(gpuburn, listed, "G1", "G9").status == 0
    assert expect(gpuburn, tmp_path, listed).status == 0
    run = Run.of(tmp_path / "reports", runs.RUN)
    assert held.book(run).manifest == file.load(listed) and run.as_begun("manifest") == file.load(listed).digest
    assert expect(gpuburn, tmp_path, listed, "--back").status == 0
    listed.write_bytes(listed.read_bytes().replace(b"\n", b"\r\n"))
    assert expect(gpuburn, tmp_path, listed, "--back").status == 0, "another layout says the same"
    assert amend(gpuburn, listed, "G9", "G8").status == 0
    done = expect(gpuburn, tmp_path, listed, "--back")
    assert done.status == 3 and "a changed manifest is a new run" in done.err
    file.beside(listed).unlink()
    assert "a changed manifest is a new run" in expect(gpuburn, tmp_path, listed, "--back").err


@pytest.mark.parametrize("more", [(), ("--check",)])
def test_a_list_that_cannot_be_used_is_refused_before_anything_runs(
    tmp_path: Path, listed: Path, gpuburn: Any, more: tuple[str, ...]  # noqa: F811
) -> None:  # fmt: skip
    done = expect(gpuburn, tmp_path, listed, *more, host="node2")
    assert done.status == 3 and "gpuburn_manifest: host: unknown 'node2'; did you mean 'node1'?" in done.err
    listed.write_text("host,gpu_serial\nnode1,=1\n")
    assert "line 2, column 2 (gpu_serial)" in expect(gpuburn, tmp_path, listed, *more).err
    assert "no such file on the controller" in expect(gpuburn, tmp_path, tmp_path / "none.csv", *more).err
    assert not (tmp_path / "reports").exists()


H100 = "NVIDIA H100 80GB HBM3"
NODE = ("node1", "hardware", "standard", "bare_metal", ["training"], "", "h100-sxm5-80gb", 2)


@pytest.mark.parametrize(
    ("lines", "says"),
    [
        (("host,sku", "node1,h100-sxm5-80gb"), ""),
        (("host,gpu_model,gpu_count", f"node1,{H100},2"), ""),
        (("host,gpu_model", "node1,a name of the vendor's own"), ""),
        (("host,gpu_serial", "node1,G0;G1"), ""),
        (("host,rack", "node1,A1"), ""),
        (("host,sku", "node1,h200-sxm"), "gpuburn_sku is h100-sxm5-80gb, and order.csv: host node1: sku is h200-sxm;"),
        (
            ("host,gpu_model", "node1,NVIDIA H200"),
            "gpuburn_sku is h100-sxm5-80gb, and order.csv: host node1: gpu_model is NVIDIA H200, which is h200-sxm;",
        ),
        (("host,gpu_count", "node1,8"), "gpuburn_gpu_count is 2, and order.csv: host node1: gpu_count is 8;"),
        (("host,gpu_serial", "node1,G0;G1;G2"), "gpuburn_gpu_count is 2, and order.csv: host node1: GPUs listed are 3"),
    ],
)
def test_an_inventory_that_contradicts_the_list_is_refused_with_both_places(lines: tuple[str, ...], says: str) -> None:
    hosts = [Expected(*NODE)]
    if not says:
        held.listed(read(*lines), hosts, "inventory/hosts.yml", "order.csv")
        return
    with pytest.raises(Refused) as refused:
        held.listed(read(*lines), hosts, "inventory/hosts.yml", "order.csv")
    assert str(refused.value).startswith(f"inventory/hosts.yml: host node1: {says}")


def test_a_rehearsals_processes_are_not_counted_against_the_list() -> None:
    host = strict.dataclasses.replace(Expected(*NODE), kind="rehearsal", sku="", count=3)
    held.listed(read("host,sku,gpu_count", "node1,h200-sxm,8"), [host], "inventory/hosts.yml", "order.csv")


def test_the_command_refuses_a_contradiction_and_writes_nothing(
    tmp_path: Path, listed: Path, gpuburn: Any  # noqa: F811
) -> None:  # fmt: skip
    said = {"gpuburn_profiles": ["training"], "gpuburn_sku": "h100-sxm5-80gb", "gpuburn_gpu_count": 8}
    stdin = {"node1": {"variables": {**said, "gpuburn_manifest": str(listed)}}}
    done = gpuburn("expect", "--run", runs.RUN, "--reports", tmp_path / "reports", stdin=stdin)
    assert done.status == 3 and f"gpuburn_gpu_count is 8, and {listed}: host node1: GPUs listed are 2" in done.err
    assert not (tmp_path / "reports").exists()


RACKS = (
    "host,rack,unit,power_domain,delivery,sku,gpu_count,gpu_serial",
    "n1,A 01,10,busway-1,PO 7,h100-sxm5-80gb,8,", "n2,A 01,U18,busway-1,PO 7,h100-sxm5-80gb,,X1;X2", "n3,,,,,,,",
)  # fmt: skip


def test_an_inventory_of_a_list_is_one_that_ansible_reads(tmp_path: Path, gpuburn: Any) -> None:  # noqa: F811
    (tmp_path / "list.csv").write_text("\n".join(RACKS))
    call = ("inventory", "from", tmp_path / "list.csv", "--to", tmp_path / "new")
    assert gpuburn(*call).status == 0
    done = gpuburn(*call)
    assert done.status == 3 and "exists already" in done.err
    command = [sys.executable, "-m", "ansible", "inventory", "-i", str(tmp_path / "new"), "--list"]
    found = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
    assert sorted(found["rack_a_01"]["hosts"]) == ["n1", "n2"] and "rack_a_01" in found["new_racks"]["children"]
    variables = ansible_inventory.variables(str(tmp_path / "new"), "new_racks")
    assert {name: value for name, value in variables["n2"].items() if name != "gpuburn_manifest"} == {
        "gpuburn_rack": "A 01", "gpuburn_unit": "U18", "gpuburn_power_domain": "busway-1", "gpuburn_delivery": "PO-7",
        "gpuburn_sku": "h100-sxm5-80gb", "gpuburn_gpu_count": 2,
    }  # fmt: skip
    assert variables["n1"]["gpuburn_gpu_count"] == 8 and "gpuburn_rack" not in variables["n3"]
    [host] = preflight.expect({"n2": {**variables["n2"], "gpuburn_profiles": ["training"]}})
    assert (host.site.rack, host.count) == ("A 01", 2)
    assert gpuburn("inventory", "from", tmp_path / "list.csv").out == (tmp_path / "new" / "hosts.yml").read_text()


@pytest.mark.parametrize(
    ("racks", "groups"),
    [
        (("机柜一", "机柜二"), ("rack_1", "rack_2")),
        (("机柜一", "机柜1", "机柜二"), ("rack_2", "rack_1", "rack_3")),
        (("A-1", "A 1", "B1"), ("rack_a_1_1", "rack_a_1_2", "rack_b1")),
        (("A01", "A02"), ("rack_a01", "rack_a02")),
    ],
)
def test_every_rack_is_a_group_of_its_own_that_keeps_its_name(racks: tuple[str, ...], groups: tuple[str, ...]) -> None:
    listed = read("host,rack", *(f"n{at},{rack}" for at, rack in enumerate(racks)))
    made = yaml.safe_load(inventory.made(listed, "list.csv"))["all"]["children"]["new_racks"]["children"]
    assert {name: (group["vars"]["gpuburn_rack"], [*group["hosts"]]) for name, group in made.items()} == {
        name: (rack, [f"n{at}"]) for at, (rack, name) in enumerate(zip(racks, groups))
    }


@pytest.mark.parametrize(
    ("lines", "says"),
    [
        (("host,rack", "rack_a1,A1"), "host 'rack_a1' is named as a group is"),
        (("host,gpu_serial,sku", "a,G0,h100-sxm5-80gb", "a,G1,h200-sxm"), "host a: 2 SKUs"),
    ],
)
def test_a_list_that_makes_no_inventory_is_refused(lines: tuple[str, ...], says: str) -> None:
    with pytest.raises(Refused) as refused:
        inventory.made(read(*lines), "list.csv")
    assert says in str(refused.value)
