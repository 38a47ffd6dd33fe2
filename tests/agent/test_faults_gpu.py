"""Eight simulated GPUs: healthy ones end in no finding, each fault of one of them in its own, on its own serial."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator

import pytest

from gpuburn.finding import Verdict
from gpuburn.measurement import Fact, Reading
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
    "pcie_dropped": ["@10 3 pcie_gen 1"],
    "lost": ["@20 3 * !15"],
}


@pytest.mark.parametrize("metric", WHILE_IT_RAN)
def test_a_fault_under_load_is_one_failure_of_its_gpu(host: Host, metric: str) -> None:
    assert host().bad(*WHILE_IT_RAN[metric]) == {("limit.failed", f"telemetry.{metric}", "gemm", "gpu3")}


@pytest.mark.parametrize(("lines", "why"), [
    (["@10 library count !999", "@20 library count 8"], "Unknown Error"),
    (["@10 library count !10", "@20 library count 8"], "Timeout"),
    (["@10 library count !18"], "version mismatch"),
])  # fmt: skip
@pytest.mark.parametrize("count", [8, 1])
def test_nvml_that_does_not_answer_as_a_whole_accuses_no_gpu(
    host: Host, lines: list[str], why: str, count: int
) -> None:
    lines = [one.replace("count 8", f"count {count}") for one in lines]
    found = host(count).findings(*lines)
    [one] = [one for one in found if one.verdict in (Verdict.FAIL, Verdict.INCOMPLETE)]
    assert (one.code, one.about, one.step, one.subject) == ("limit.unproven", "telemetry.silent", "gemm", "host")
    assert one.verdict is Verdict.INCOMPLETE and why in one.why


def test_the_only_gpu_of_a_host_is_lost_where_nvml_answers_and_it_does_not(host: Host) -> None:
    assert host(1).bad("@20 0 * !15") == {("limit.failed", "telemetry.lost", "gemm", "gpu0")}


OLD_LINKS = ["3 field_162.1 5", "3 field_162.2 2"]  # counted before the run


@pytest.mark.parametrize(("error", "links"), [
    ("!999", ("162.2",)), ("!15", ("162.2",)), ("!999", ("162",)), ("!3", ("161", "162")),
])  # fmt: skip
def test_a_link_that_does_not_answer_at_one_look_is_no_error_of_it(
    host: Host, error: str, links: tuple[str, ...]
) -> None:
    back = {"162.2": "2", "162": "0", "161": "0"}
    lines = [line for one in links for line in (f"@10 3 field_{one} {error}", f"@20 3 field_{one} {back[one]}")]
    assert host().bad(*lines, *OLD_LINKS) == set()
    assert host().bad("@20 3 field_162.1 6", *lines, *OLD_LINKS) == {
        ("limit.failed", "telemetry.link_errors", "gemm", "gpu3")
    }


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
SMALLER = {
    "gpu_health.memory_total": "memory_mib 119000", "telemetry.memory_peak": "bus_width 5120",
}  # fmt: skip
WARNINGS = {
    "gpu_health.remapped_uncorrected": "remapped 0 512 0 0", "gpu_health.retired_double": "retired_double 16",
    "gpu_health.persistence": "persistence 0", "gpu_health.memory_used": "memory_used_mib 9000",
    "telemetry.pcie_width_max": "pcie_width_max 8", "telemetry.pcie_gen_max": "pcie_gen_max 3",
}  # fmt: skip


@pytest.mark.parametrize("metric", NUMBERS)
def test_a_fault_at_rest_is_one_failure_of_its_gpu(host: Host, metric: str) -> None:
    assert host().bad(f"3 {NUMBERS[metric]}") == {("limit.failed", f"gpu_health.{metric}", "gpu_health", "gpu3")}


@pytest.mark.parametrize("about", SMALLER)
def test_a_board_with_less_memory_than_its_sku_is_one_failure_of_its_gpu(host: Host, about: str) -> None:
    assert host().bad(f"3 {SMALLER[about]}") == {("limit.failed", about, "gpu_health", "gpu3")}


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


def test_a_board_tells_who_it_is_at_every_look_at_its_health(host: Host) -> None:
    told = {
        one.name: one.value for one in host().told()["gpu_health"] if isinstance(one, Fact) and one.subject == "gpu3"
    }
    assert (told["serial"], told["part"], told["vbios"]) == ("1655023015628", "900-21010-0020-000", "96.00.CF.00.01")
    assert told["uuid"].startswith("GPU-")


POWER = ("limit.met", "telemetry.power_limit")


def test_a_power_limit_below_its_default_is_a_warning_at_rest_and_under_load(host: Host) -> None:
    assert host().bad("3 power_limit_mw 500000") == {(*POWER, "gpu_health", "gpu3"), (*POWER, "gemm", "gpu3")}


def test_a_power_limit_that_falls_under_load_is_a_warning_and_so_is_its_change(host: Host) -> None:
    changed = ("limit.met", "telemetry.power_limit_high", "gemm", "gpu3")
    assert host().bad("@10 3 power_limit_mw 400000") == {(*POWER, "gemm", "gpu3"), changed}
    assert host().bad("@10 3 power_limit_mw 750000") == {changed}


def test_a_slot_of_an_older_generation_is_a_warning_and_so_are_eight(host: Host) -> None:
    def seen(index: int) -> tuple[str, str, str, str]:
        return "limit.met", "telemetry.pcie_gen_max", "gpu_health", f"gpu{index}"

    assert host().bad("3 pcie_gen_max 3", "3 pcie_gen 3") == {seen(3)}
    slow = [f"{index} {name} 1" for index in range(8) for name in ("pcie_gen_max", "pcie_gen")]
    assert host().bad(*slow) == {seen(index) for index in range(8)}


def test_a_link_that_falls_back_at_rest_or_for_one_look_is_no_finding(host: Host) -> None:
    assert host().bad("@20 3 pcie_gen 1") == set()
    assert host().bad("@10 3 pcie_gen 1", "@10 3 power_mw 90000") == set()


@pytest.mark.parametrize("kind", ["processes", "graphics"])
def test_a_process_that_proc_does_not_show_is_a_stranger_at_the_second_look(host: Host, kind: str) -> None:
    assert host().bad(f"3 {kind} 4190000") == {("limit.failed", "telemetry.foreign", "gemm", "gpu3")}
    assert host().bad(f"@20 3 {kind} 4190000") == set(), "one that has just ended"


def test_in_a_container_strangers_are_not_to_be_seen_and_that_is_printed(host: Host) -> None:
    inside = host(8, "h200-sxm", "container")
    assert inside.bad("3 processes 4190000") == set()
    told = {one.code for one in inside.findings("3 processes 4190000") if one.about == "telemetry.foreign"}
    assert told == {"not_observable"}


@pytest.mark.parametrize("error", ["!3", "!4", "!999"])
def test_a_gpu_that_does_not_tell_its_processes_is_not_excused(host: Host, error: str) -> None:
    unmeasured = ("limit.unmeasured", "telemetry.foreign")
    assert host().bad(f"3 processes {error}") == {(*unmeasured, step, "gpu3") for step in ("gpu_health", "gemm")}


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


def number(gpus: Gpus, metric: str, *lines: str) -> float:
    """What GPU 3 tells of a quantity under these lines."""
    told = gpus.told(*lines)["gpu_health"]
    [found] = [one.value for one in told if isinstance(one, Reading) and one.metric == metric and one.subject == "gpu3"]
    return found


@pytest.mark.parametrize(("lines", "wanted"), [
    (("3 field_91 36", "3 links 36 36"), 36), (("3 field_91 !3", "3 links 36 36"), 36),
    (("3 field_91 !3", "3 links 18 18"), 18), (("3 field_91 0", "3 links 12 18"), 12),
    (("3 fields !999", "3 links 18 18"), 18),
    (("3 field_91 99", "3 links 36 36"), 36), (("3 field_91 18", "3 links 17 18"), 17),
])  # fmt: skip
def test_every_link_is_counted_however_many_the_gpu_has(host: Host, lines: tuple[str, ...], wanted: int) -> None:
    """A GPU of NVLink 6 has 36; one of fewer answers InvalidArgument past its last."""
    assert number(host(), "nvlink_links", *lines) == wanted


@pytest.mark.parametrize("count", ["3 field_91 36", "3 field_91 !3"])
def test_an_error_of_the_last_link_is_seen(host: Host, count: str) -> None:
    errors = (count, "3 links 36 36", "@10 3 field_162.35 1")
    assert ("limit.failed", "telemetry.link_errors", "gemm", "gpu3") in host().bad(*errors)


def test_a_driver_that_knows_the_older_struct_tells_the_fabrics_state(host: Host) -> None:
    old = [f"{index} fabric_struct 2" for index in range(8)]
    assert host().bad(*old) == set()
    said = {(one.about, one.code) for one in host().findings(*old) if one.subject == "gpu3"}
    assert {("gpu_health.fabric", "fact.met"), ("gpu_health.fabric_health", "not_supported")} <= said
    assert host().bad(*old, "3 fabric 2 0 0") == {("fact.failed", "gpu_health.fabric", "gpu_health", "gpu3")}


@pytest.mark.parametrize(("mask", "told"), [
    (0x1, "unhealthy: degraded bandwidth"), (0x11, "unhealthy: degraded bandwidth, unhealthy route"),
    (0x500, "unhealthy: incorrect configuration 5"),
])  # fmt: skip
def test_a_fault_in_the_older_structs_mask_is_a_failure(host: Host, mask: int, told: str) -> None:
    lines = ("3 fabric_struct 2", f"3 fabric 3 0 0 {mask}")
    failed = ("fact.failed", "gpu_health.fabric_health", "gpu_health", "gpu3")
    assert failed in host().bad(*lines)
    assert told in {one.value for one in host().told(*lines)["gpu_health"] if isinstance(one, Fact)}
    assert failed not in host().bad("3 fabric_struct 2", f"3 fabric 3 0 0 {0x2 | 0x20 | 0x100}")


def test_what_the_sku_promises_is_not_excused(host: Host) -> None:
    assert host().bad("3 ecc_mode !3") == {("limit.unmeasured", "gpu_health.ecc_enabled", "gpu_health", "gpu3")}
    assert host().bad("3 links !3") == {("limit.failed", "gpu_health.nvlink_links", "gpu_health", "gpu3")}


PROMISED = {
    "ecc_uncorrected": {("gpu_health", "ecc_uncorrected"), ("telemetry", "uncorrected")},
    "ecc_corrected": {("gpu_health", "ecc_corrected"), ("telemetry", "corrected")},
    "sram_exceeded": {("gpu_health", "sram_exceeded")},
    "remapped": {
        *(("gpu_health", one) for one in (
            "remapped_corrected", "remapped_uncorrected", "remap_pending", "remap_failure")),
        ("telemetry", "remapped"),
    },
    "field_162": {("telemetry", "link_errors")},
    "field_163": {("telemetry", "link_crc")},
    "nvlink_version": {("telemetry", "link_errors"), ("telemetry", "link_crc")},
    "pcie_width": {("telemetry", "pcie_width")},
    "pcie_gen": {("telemetry", "pcie_gen"), ("telemetry", "pcie_dropped")},
    "field_82": {("telemetry", "memory_temperature")},
}  # fmt: skip


@pytest.mark.parametrize("asked", PROMISED)
def test_a_part_that_the_sku_is_built_with_must_be_told_of_and_the_reason_is_told(host: Host, asked: str) -> None:
    both = ["3 field_161 !3"] if asked == "field_162" else []
    found = host().findings(f"3 {asked} !3", *both)
    poor = [one for one in found if one.verdict in (Verdict.FAIL, Verdict.INCOMPLETE)]
    assert {(one.code, one.subject) for one in poor} == {("limit.unmeasured", "gpu3")}
    assert {tuple(one.about.split(".")) for one in poor} == PROMISED[asked]
    assert all("Not Supported, and h200-sxm is built with" in one.why for one in poor)


def test_a_board_of_a_switched_host_must_tell_its_place_in_the_fabric(host: Host) -> None:
    [one] = [one for one in host().findings("3 fabric 0 0 0") if one.verdict in (Verdict.FAIL, Verdict.INCOMPLETE)]
    assert (one.code, one.about, one.subject) == ("fact.untold", "gpu_health.fabric", "gpu3")
    assert "h200-sxm is built with NVSwitch" in one.why
    assert host(1).bad("0 fabric 0 0 0") == set(), "four and fewer are linked to each other without switches"


def test_what_a_virtual_machine_hides_of_the_skus_parts_is_not_observable(host: Host) -> None:
    assert host(8, "h200-sxm", "vm").bad("3 pcie_width !3", "3 pcie_gen !3", "3 remapped !3") == set()


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


@pytest.mark.parametrize(("error", "why"), [("!999", "Unknown Error"), ("!15", "GPU is lost"), ("!4", "Permissions")])
def test_why_a_gpu_tells_nothing_is_told_in_nvmls_words(host: Host, error: str, why: str) -> None:
    missed = [one for one in host().findings(f"3 * {error}") if one.code == "limit.unmeasured"]
    assert missed and {one.subject for one in missed} == {"gpu3"}
    assert all("not measured: NVML does not show it" in one.why and why in one.why for one in missed)
    assert {one.step for one in missed} == {"gpu_health", "gemm"}


def test_a_counter_that_begins_anew_hides_nothing(host: Host) -> None:
    """After a reset the counter is below what it was: all that it says is new."""
    taken = ["3 ecc_uncorrected 0", "@10 3 remapped 5 5 0 0", "@20 3 remapped 1 1 0 0"]
    [one] = [one for one in host().findings(*taken) if one.about == "telemetry.remapped" and one.verdict == "fail"]
    assert one.why.startswith("12 count")
