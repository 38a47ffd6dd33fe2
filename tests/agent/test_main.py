"""gpuburn-agent: what it takes, what it refuses, and its exit statuses."""

from __future__ import annotations

import dataclasses
import json
import os

import pytest

from gpuburn import __version__, evidence, strict
from gpuburn.agent import by_hand, hardware, nvml, state
from gpuburn.agent.__main__ import main
from gpuburn.agent.nvml import Gpu, Seen
from gpuburn.agent.state import State
from gpuburn.measurement import Fact, Reading
from gpuburn.outcome import Outcome, Status
from gpuburn.plan import Device
from gpuburn.probe import discover
from tests.agent import machines
from tests.agent.test_run import make, step


def said(capsys) -> str:
    text = capsys.readouterr().err
    assert text.count("\n") == 1 and text.startswith("gpuburn-agent: "), text
    return text


@pytest.mark.parametrize("command", ["run", "stop"])
def test_a_folder_that_is_not_there_is_one_line_and_status_2(command, tmp_path, capsys):
    assert main([command, str(tmp_path / "nowhere")]) == 2
    assert "nowhere" in said(capsys)


def test_a_folder_without_a_plan_is_one_line_and_is_left_empty_but_for_its_lock(tmp_path, capsys):
    assert main(["run", str(tmp_path)]) == 2
    assert "plan.json" in said(capsys)
    assert [path.name for path in tmp_path.iterdir()] in (["lock"], [])


@pytest.mark.parametrize("plan", [b"", b"{}", b"[]", b"\xff", b'{"schema": "gpuburn/plan/9"}', b"null"])
def test_a_plan_that_does_not_parse_is_one_line(plan, tmp_path, capsys):
    (tmp_path / "plan.json").write_bytes(plan)
    assert main(["run", str(tmp_path)]) == 2
    assert "plan.json" in said(capsys)


def test_a_plan_that_is_a_folder_is_one_line(tmp_path, capsys):
    (tmp_path / "plan.json").mkdir()
    assert main(["run", str(tmp_path)]) == 2
    assert "plan.json" in said(capsys)


def test_a_state_of_garbage_is_one_line(tmp_path, capsys):
    (tmp_path / "plan.json").write_bytes(strict.encode(make([step("idle")])))
    (tmp_path / "state.json").write_text("{")
    assert main(["run", str(tmp_path)]) == 2
    assert "state.json" in said(capsys)


def test_a_run_that_has_its_result_is_not_run_again(tmp_path):
    (tmp_path / "result.json").write_text("{}")
    (tmp_path / "sealed.tar.gz").touch()
    assert main(["run", str(tmp_path)]) == 0


def test_a_folder_that_is_a_file_is_one_line(tmp_path, capsys):
    (tmp_path / "file").touch()
    assert main(["run", str(tmp_path / "file")]) == 2
    assert "file" in said(capsys)


def test_detached_in_a_folder_that_is_not_there_is_refused_before_the_fork(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(os, "fork", lambda: pytest.fail("forked"))
    assert main(["run", str(tmp_path / "nowhere"), "--detach"]) == 2
    assert "nowhere" in said(capsys)


@pytest.mark.parametrize("words", [
    ["status", "somewhere", "--jason"], ["run", "a", "b"], [], ["fly"], ["run"], ["stop", "x", "--force"],
])  # fmt: skip
def test_unknown_words_are_status_2(words, capsys):
    with pytest.raises(SystemExit) as ended:
        main(words)
    assert ended.value.code == 2 and "gpuburn-agent" in capsys.readouterr().err


def test_version(capsys):
    with pytest.raises(SystemExit) as ended:
        main(["--version"])
    assert ended.value.code == 0 and capsys.readouterr().out == f"gpuburn {__version__}\n"


def test_status_is_told_to_people_and_machines(tmp_path, capsys):
    assert main(["status", str(tmp_path / "nowhere")]) == 2
    assert "nowhere: not a run folder" in capsys.readouterr().err
    assert main(["status", str(tmp_path)]) == 0
    assert capsys.readouterr().out == "absent\n"
    state.save(tmp_path, State("r", 1, "running", "gemm", 1, 2))
    assert main(["status", str(tmp_path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["step"] == "gemm"


@pytest.mark.parametrize(("words", "wanted"), [
    (["gem"], "did you mean 'gemm'"), (["gemm", "--sise", "4"], "did you mean 'size'"),
    (["gemm", "--size"], "no value"),
    (["gemm", "--size", "big"], "wanted is int"), (["gemm", "size", "4"], "no parameter"),
])  # fmt: skip
def test_a_probe_by_hand_that_is_misspelt_is_one_line(words, wanted, capsys):
    assert main(["probe", *words, "--cpu", "1"]) == 2
    assert wanted in said(capsys)


def test_a_probe_by_hand_prints_its_table(capsys):
    assert main(["probe", "idle", "--cpu", "1", "--period", "0.01"]) == 0
    assert "idle: completed" in capsys.readouterr().out


def test_a_probe_by_hand_that_errors_is_status_1(capsys):
    assert main(["probe", "gemm", "--cpu", "1", "--dtype", "float17"]) == 1
    assert "float17" in capsys.readouterr().out


def test_what_a_run_without_a_result_left_can_be_sealed(tmp_path, capsys):
    (tmp_path / "plan.json").write_text("{}")
    assert main(["seal", str(tmp_path)]) == 0
    assert (tmp_path / "sealed.tar.gz").exists()


def test_nothing_is_sealed_where_there_is_no_plan(tmp_path, capsys):
    assert main(["seal", str(tmp_path)]) == 2
    assert "no plan.json" in capsys.readouterr().err


@pytest.fixture
def server(tmp_path, monkeypatch):
    """A sound server of two GPUs in place of this machine, its NVML and its disks' answers."""
    machines.hgx(tmp_path)
    real = hardware.look
    monkeypatch.setattr(hardware, "look", lambda root=tmp_path, data="": real(tmp_path, data))
    gpu = {"uuid": "GPU-1", "serial": "165502", "name": "NVIDIA H100 80GB HBM3", "pci": "0000:18:00.0"}
    monkeypatch.setattr(nvml, "look", lambda: Seen([Gpu(0, gpu, {"vbios": "Not Supported"})], "550.90.07"))
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    return tmp_path


def test_identity_is_told_by_source_with_the_reason_of_every_gap(server, capsys):
    assert main(["identity"]) == 0
    lines = capsys.readouterr().out.splitlines()
    at = lines.index("dimm.CPU0_DIMM_A1")
    assert lines[at + 2].split() == ["serial", "80CE000A"] and "nvml.0" in lines
    assert "  vbios   - (Not Supported)" in lines and "  uuid    GPU-1" in lines
    assert any(line.startswith("  bios_version ") and "- (No such file" in line for line in lines)


@pytest.mark.parametrize(("words", "status"), [([], 2), (["--environment", "vm"], 0)])
def test_identity_without_what_is_demanded_is_status_2(server, capsys, words, status):
    (server / "sys/class/dmi/id/board_serial").unlink()
    assert main(["identity", *words]) == status
    said_so = "demanded and not known: dmi.board_serial: No such file" in capsys.readouterr().out
    assert said_so == (status == 2)


def test_identity_for_machines(server, capsys):
    assert main(["identity", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["sources"]["disk.nvme0n1"]["serial"] == "S64HNE0R000001" and told["lacking"] == []
    assert told["nvml"]["gpus"][0]["values"]["uuid"] == "GPU-1" and told["missing"]["dmi.bios_version"]


def outcome_of(**given):
    """An outcome of host_health that holds its limits, but for these numbers; None takes one away."""
    probe = discover()["host_health"]
    numbers = {**dict.fromkeys(probe.metrics, 0.0), **given}
    params, blind = probe.settled({}, "host_health"), ("smart", "smart_warns")
    taken = [Reading(name, value, point, "host") for name, value in numbers.items() if value is not None
             for point in probe.points(probe.metrics[name], params)]  # fmt: skip
    taken += [Fact(name, "unknown: needs root" if name in blind else "read", point, "host")
              for name, fact in probe.facts.items() for point in probe.points(fact, params)]  # fmt: skip
    measurements, facts, _ = evidence.amounts(taken, [probe])
    return Outcome("host_health", "host_health", 1, Status.COMPLETED, "", 0.0, 1.0, 1, [], measurements, facts)


@pytest.mark.parametrize(("given", "words", "status", "line"), [
    ({}, [], 0, "host_health.aer_fatal                     host  0 count"),
    ({"aer_fatal": 2.0}, [], 1, "OUTSIDE  2 count; needs x <= 0 count"),
    ({"disk_warnings": None}, [], 2, "not known  not measured: needs root; needs x <= 0 count"),
    ({"disk_warnings": None}, ["--environment", "vm"], 0, "needs root; not to be seen"),
    ({"disk_warnings": None, "aer_fatal": 1.0}, [], 1, "OUTSIDE"),
    ({"clock_unsynchronised": 1.0}, [], 0, "1 count; outside: needs x <= 0 count"),
])  # fmt: skip
def test_health_says_beside_each_value_what_the_limits_say(given, words, status, line, capsys, monkeypatch):
    monkeypatch.setattr(by_hand, "carried_out", lambda plan: outcome_of(**given))
    monkeypatch.setattr(by_hand, "devices", lambda cpu: [Device("cpu0", "cpu")])
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert main(["health", *words]) == status
    assert line in capsys.readouterr().out


def test_health_that_did_not_end_well_read_nothing(capsys, monkeypatch):
    died = dataclasses.replace(outcome_of(), status=Status.TIMED_OUT, why="longer than 60 s")
    monkeypatch.setattr(by_hand, "carried_out", lambda plan: died)
    monkeypatch.setattr(by_hand, "devices", lambda cpu: [Device("cpu0", "cpu")])
    assert main(["health"]) == 2
    assert "host_health: timed_out longer than 60 s" in capsys.readouterr().out


def test_health_of_this_machine_for_machines(capsys):
    assert main(["health", "--json", "--environment", "container"]) in (0, 1)
    [one, *_] = json.loads(capsys.readouterr().out)
    assert one["outcome"]["status"] == "completed"
    assert {f["about"] for f in one["findings"]} >= {"host_health.aer_fatal"}


@pytest.mark.parametrize("command", ["identity", "health"])
@pytest.mark.parametrize("words", [["--environment", "vmm"], ["extra"], ["--jason"]])
def test_wrong_words_by_hand_are_one_line_and_status_3(command, words, capsys):
    assert main([command, *words]) == 3
    said(capsys)
