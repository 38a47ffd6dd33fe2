"""gpuburn-agent: what it takes, what it refuses, and its exit statuses."""

from __future__ import annotations

import json
import os

import pytest

from gpuburn import __version__, strict
from gpuburn.agent import state
from gpuburn.agent.__main__ import main
from gpuburn.agent.state import State
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
