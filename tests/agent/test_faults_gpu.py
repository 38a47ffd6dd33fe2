"""Eight simulated GPUs: healthy ones end in no finding, each fault of one of them in its own, on its own serial."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator

import pytest

from gpuburn.measurement import Fact
from gpuburn.verdict import proves
from tests.agent.simulated_gpus import Gpus, plan
from tests.fakes.nvml.build import healthy, library

pytest.importorskip("pynvml")
pytestmark = pytest.mark.skipif(not shutil.which("cc"), reason="no C compiler for the fake libnvidia-ml.so.1")
Host = Callable[..., Gpus]


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    """The GPUs of one plan; each plan's process serves all tests."""
    folder = tmp_path_factory.mktemp("nvml")
    built, started = library(folder), {}

    def of(count: int = 8, sku: str = "h200-sxm", where: str = "bare_metal") -> Gpus:
        key = f"{count} {sku} {where}"
        if key not in started:
            started[key] = Gpus(built, folder / key, plan(count, sku, where))
        return started[key]

    yield of
    for one in started.values():
        one.close()


@pytest.mark.parametrize("count", [1, 7, 8])
def test_healthy_gpus_end_in_no_finding(host: Host, count: int) -> None:
    gpus = host(count)
    assert gpus.bad() == set()
    judged = {(one.about, one.code) for one in gpus.findings()}
    assert {("gpu_health.nvlink_links", "limit.met"), ("telemetry.hw_thermal", "limit.met")} <= judged


def test_calm_counters_are_no_proof_that_a_gpu_can_work(host: Host) -> None:
    met = [one for one in host().findings() if one.about.startswith("gpu_health.") and one.verdict == "pass"]
    assert met and not any(proves(one) for one in met)


WHILE_IT_RAN = {
    "uncorrected": ["@10 3 ecc_uncorrected 2"],
    "remapped": ["@10 3 remapped 0 1 0 0"],
    "replays": ["@10 3 field_94 81"],
    "link_errors": ["@10 3 field_162.7 1"],
    "link_crc": ["@10 3 field_163.7 1500"],
    "hw_thermal": ["@10 3 field_270 2000000000"],
    "power_brake": ["@20 3 field_271 1000000"],
    "hw_slowdown": ["@10 3 reasons 8"],
    "temperature": ["@10 3 temperature 90"],
    "memory_temperature": ["@10 3 field_82 96"],
    "pcie_width": ["@10 3 pcie_width 8", "@20 3 pcie_width 16"],
    "pcie_gen": ["3 pcie_gen 1"],
    "lost": ["@20 3 * !15"],
}


@pytest.mark.parametrize("metric", WHILE_IT_RAN)
def test_a_fault_under_load_is_one_failure_of_its_gpu(host: Host, metric: str) -> None:
    assert host().bad(*WHILE_IT_RAN[metric]) == {("limit.failed", f"telemetry.{metric}", "gemm", "gpu3")}


def test_heat_that_the_driver_holds_back_is_a_warning(host: Host) -> None:
    assert host().bad("@10 3 field_269 1000000000") == {("limit.met", "telemetry.sw_thermal", "gemm", "gpu3")}


@pytest.mark.parametrize(("metric", "reasons"), [("hw_thermal", 0x48), ("power_brake", 0x88)])
def test_without_counters_the_reasons_of_each_pass_stand_for_the_time_since_the_last(
    host: Host, metric: str, reasons: int
) -> None:
    blind = [f"3 field_{number} !3" for number in (74, 76, 269, 270, 271)]
    found = host().findings(*blind, f"@20 3 reasons {reasons}")
    [one] = [one for one in found if one.subject == "gpu3" and one.verdict == "fail"]
    assert one.about == f"telemetry.{metric}" and one.why.startswith("10 s")
    told = host().told(*blind)["gemm"]
    [said] = {one.value for one in told if isinstance(one, Fact) and one.name == "throttle_source"
              and one.subject == "gpu3"}  # fmt: skip
    assert said == "sampled: capped, hw_slowdown, sync_boost, sw_thermal, hw_thermal, power_brake"


NUMBERS = {
    "ecc_uncorrected": "ecc_uncorrected 1", "sram_exceeded": "sram_exceeded 1", "remap_pending": "remapped 0 1 1 0",
    "remap_failure": "remapped 0 1 0 1", "retire_pending": "retire_pending 1", "nvlink_links": "links 17 18",
    "ecc_enabled": "ecc_mode 0 0",
}  # fmt: skip
FACTS = {
    "fabric": "fabric 2 0 1", "fabric_health": "fabric 3 0 2", "mig": "mig_mode 1 1", "vgpu": "virtualization 2",
    "inforom_state": "inforom_valid !14", "recovery": "field_230 1",
}  # fmt: skip
WARNINGS = {
    "gpu_health.remapped_uncorrected": "remapped 0 512 0 0", "gpu_health.retired_double": "retired_double 16",
    "gpu_health.persistence": "persistence 0", "gpu_health.memory_used": "memory_used_mib 9000",
    "telemetry.power_limit": "power_limit_mw 500000", "telemetry.pcie_width_max": "pcie_width_max 8",
}  # fmt: skip


@pytest.mark.parametrize("metric", NUMBERS)
def test_a_fault_at_rest_is_one_failure_of_its_gpu(host: Host, metric: str) -> None:
    assert host().bad(f"3 {NUMBERS[metric]}") == {("limit.failed", f"gpu_health.{metric}", "gpu_health", "gpu3")}


@pytest.mark.parametrize("fact", FACTS)
def test_a_wrong_mode_is_one_failure_of_its_gpu(host: Host, fact: str) -> None:
    assert host().bad(f"3 {FACTS[fact]}") == {("fact.failed", f"gpu_health.{fact}", "gpu_health", "gpu3")}


@pytest.mark.parametrize("about", WARNINGS)
def test_a_doubt_is_a_warning(host: Host, about: str) -> None:
    found = host().bad(f"3 {WARNINGS[about]}")
    assert {one[1:] for one in found if one[1] == about} == {(about, "gpu_health", "gpu3")}
    assert {one[0] for one in found} <= {"limit.met", "limit.outside"}


@pytest.mark.parametrize(
    "line", ["ecc_corrected_total 90", "ecc_uncorrected_total 2", "remapped 3 1 0 0", "retired_single 4"]
)
def test_a_sign_of_use_is_recorded_and_no_accusation(host: Host, line: str) -> None:
    assert host().bad(f"3 {line}") == set()


def test_a_stranger_on_a_gpu_is_seen_in_every_step(host: Host) -> None:
    failed = ("limit.failed", "telemetry.foreign")
    assert host().bad("3 processes 1") == {(*failed, "gpu_health", "gpu3"), (*failed, "gemm", "gpu3")}


@pytest.mark.parametrize("line", ["library nvml 13.570.10", "library init !18"])
def test_a_driver_of_another_version_than_its_library(host: Host, line: str) -> None:
    found = host().bad(line)
    assert ("fact.failed", "gpu_health.driver_library", "gpu_health", "host") in found
    assert len(found) == 1 or ("fact.failed", "gpu_health.nvml", "gpu_health", "host") in found


def test_what_a_board_does_not_have_is_no_finding_and_is_listed(host: Host) -> None:
    """A PCIe card with GDDR: no NVLink, no fabric, no ECC counters, no row remapping, fans of its own."""
    lacking = (
        "links", "nvlink_version", "fabric", "ecc_mode", "ecc_corrected", "ecc_uncorrected", "ecc_corrected_total",
        "ecc_uncorrected_total", "sram_exceeded", "remapped", "field_82", "margin", "mig_mode",
    )  # fmt: skip
    lines = healthy(2).splitlines()
    base = "\n".join(one for one in lines if one.split()[1] not in lacking) + "\n0 fans 1\n0 fan 40\n"
    found = host(2, "l40s").findings(base=base)
    assert host(2, "l40s").bad(base=base) == set()
    unsupported = {one.about for one in found if one.code == "not_supported" and one.subject == "gpu0"}
    assert unsupported >= {"telemetry.link_errors", "telemetry.uncorrected", "gpu_health.fabric", "gpu_health.mig"}
    assert "telemetry.fan" not in unsupported


def test_what_the_sku_promises_is_not_excused(host: Host) -> None:
    assert host().bad("3 ecc_mode !3") == {("limit.unmeasured", "gpu_health.ecc_enabled", "gpu_health", "gpu3")}
    assert host().bad("3 links !3") == {("limit.failed", "gpu_health.nvlink_links", "gpu_health", "gpu3")}


@pytest.mark.parametrize("error", ["!4", "!13", "!999", "!10"])
def test_an_error_is_no_answer_and_no_excuse(host: Host, error: str) -> None:
    assert host().bad(f"3 remapped {error}") == {
        *(("limit.unmeasured", f"gpu_health.{name}", "gpu_health", "gpu3") for name in (
            "remapped_corrected", "remapped_uncorrected", "remap_pending", "remap_failure")),
        *(("limit.unmeasured", "telemetry.remapped", step, "gpu3") for step in ("gpu_health", "gemm")),
    }  # fmt: skip


@pytest.mark.parametrize(("where", "code"), [("vm", "not_observable"), ("bare_metal", "limit.unmeasured")])
def test_what_the_environment_hides_is_printed_and_no_finding_there(host: Host, where: str, code: str) -> None:
    found = host(8, "h200-sxm", where).findings("3 field_94 !4", "3 pcie_width !4", "3 pcie_width_max !4")
    said = {(one.about, one.code) for one in found if one.subject == "gpu3" and one.step == "gemm"}
    assert {("telemetry.replays", code), ("telemetry.pcie_width", code)} <= said


def test_a_gpu_that_never_answered_is_incomplete_and_its_neighbours_pass(host: Host) -> None:
    found = host().bad("3 * !15")
    assert {(code, subject) for code, _, _, subject in found} == {
        ("limit.unmeasured", "gpu3"), ("fact.unobserved", "gpu3")
    }  # fmt: skip


def test_a_counter_that_begins_anew_hides_nothing(host: Host) -> None:
    """After a reset the counter is below what it was: all that it says is new."""
    taken = ["3 ecc_uncorrected 0", "@10 3 remapped 5 5 0 0", "@20 3 remapped 1 1 0 0"]
    [one] = [one for one in host().findings(*taken) if one.about == "telemetry.remapped" and one.verdict == "fail"]
    assert one.why.startswith("12 count")
