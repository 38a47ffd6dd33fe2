"""The command line: files in, files out; refused input is one line on standard error and exit status 3."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
import runs

from gpuburn import __version__, strict
from gpuburn.controller.__main__ import main
from gpuburn.controller.run import Run
from gpuburn.plan import Plan

TRIAL = {
    "gpuburn_profiles": ["training"],
    "gpuburn_kind": "rehearsal",
    "gpuburn_level": "smoke",
    "gpuburn_become": False,
}
LOOK = {
    "python": "3.12.3", "os": "Ubuntu", "architecture": "x86_64", "free_disk_gib": 100.0, "memory_gib": 64.0, "uid": 0,
    "systemd": True,
}  # fmt: skip


class Called:
    def __init__(self, status: Any, out: str, err: str) -> None:
        self.status, self.out, self.err = status, out, err


@pytest.fixture
def gpuburn(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Any:
    """Call the program as the shell does, with standard input."""

    def call(*arguments: object, stdin: Any = None) -> Called:
        text = stdin if isinstance(stdin, str) else json.dumps(stdin or {})
        monkeypatch.setattr("sys.stdin", io.StringIO(text))
        with pytest.raises(SystemExit) as ended:
            main([str(one) for one in arguments])
        captured = capsys.readouterr()
        return Called(ended.value.code, captured.out, captured.err)

    return call


def test_expect_writes_down_who_is_expected(gpuburn: Any, tmp_path: Path) -> None:
    done = gpuburn("expect", "--run", runs.RUN, "--reports", tmp_path, stdin={"node1": {"variables": TRIAL}})
    assert (done.status, done.err) == (0, "")
    run = Run.of(tmp_path, runs.RUN)
    assert [one.host for one in run.expected()] == ["node1"]
    assert [entry.event for entry in run.entries()] == ["expected"]


def test_a_check_writes_nothing(gpuburn: Any, tmp_path: Path) -> None:
    for command in ("expect", "plan"):
        done = gpuburn(
            command, "--run", runs.RUN, "--reports", tmp_path, "--check", stdin={"node1": {"variables": TRIAL}}
        )
        assert done.status == 0
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("stdin", "says"),
    [
        ("{", "standard input: not JSON"),
        ("[" * 100_000, "standard input: not JSON"),
        ([], "no host matches"),
        ("[1]", "wanted is an object of hosts"),
        ({"node1": 5}, "wanted is an object of hosts"),
        ({}, "no host matches"),
        ({"node1": {"variables": {"gpuburn_profile": 1}}}, "did you mean 'gpuburn_profiles'"),
        ({"../x": {"variables": TRIAL}}, "host name '../x'"),
        ('{"node1": {}, "node1": {}}', "a key is written twice"),
        ('{"node1": {"variables": {}, "variables": {}}}', "a key is written twice"),
        ({"node1": {"variables": TRIAL, "look": {}}}, "host node1: its look is a dict, wanted is text"),
        ({"node1": {"variables": TRIAL, "looks": ""}}, "host node1: unknown 'looks'; did you mean 'look'?"),
        (
            {"node1": {"variables": TRIAL, "wrong": {"gpuburn_rack": "'x' is undefined"}}},
            "inventory/hosts.yml: host node1: gpuburn_rack uses a variable that is not defined: 'x' is undefined",
        ),
    ],
)
def test_refused_input_is_one_line_and_status_3(gpuburn: Any, tmp_path: Path, stdin: Any, says: str) -> None:
    done = gpuburn("expect", "--run", runs.RUN, "--reports", tmp_path, stdin=stdin)
    assert (done.status, done.out) == (3, "")
    assert done.err.startswith("gpuburn: ")
    assert says in done.err
    assert done.err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_a_run_id_that_is_not_one_is_refused(gpuburn: Any, tmp_path: Path) -> None:
    for command in ("expect", "plan", "collect", "report"):
        done = gpuburn(command, "--run", "../x", "--reports", tmp_path, stdin={"node1": {"variables": TRIAL}})
        assert done.status == 3
        assert "run id '../x'" in done.err


def test_a_run_that_there_is_not_is_refused(gpuburn: Any, tmp_path: Path) -> None:
    for command in ("collect", "report"):
        done = gpuburn(command, "--run", runs.RUN, "--reports", tmp_path)
        assert done.status == 3
        assert "no such run" in done.err


def test_plan_tells_each_host_its_plan_or_its_refusal(
    gpuburn: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("time.time", lambda: runs.ISSUED)
    look = {**LOOK, "time": runs.ISSUED}
    stdin = {
        "good": {"variables": TRIAL, "look": json.dumps(look)},
        "old": {"variables": TRIAL, "look": json.dumps({**look, "python": "3.6.8"})},
        "odd": {"variables": TRIAL, "look": json.dumps({**look, "os": "\ud800"})},
        "away": {"variables": TRIAL, "look": None},
    }
    done = gpuburn("plan", "--run", runs.RUN, "--reports", tmp_path, stdin=stdin)
    assert done.status == 0
    told = json.loads(done.out)
    assert {name: "refused" in one for name, one in told.items()} == {"good": False, "old": True, "odd": True}
    assert {entry.host for entry in Run.of(tmp_path, runs.RUN).entries() if entry.event == "refused"} == {"old", "odd"}


def test_coming_back_with_fewer_hosts_is_refused_and_names_them(gpuburn: Any, tmp_path: Path) -> None:
    where = ("--run", runs.RUN, "--reports", tmp_path)
    all_of_them = {f"node{index}": {"variables": TRIAL} for index in range(8)}
    gpuburn("expect", *where, stdin=all_of_them)
    done = gpuburn("expect", *where, "--back", stdin={"node3": {"variables": TRIAL}})
    assert done.status == 3
    assert (
        f"run {runs.RUN} also expects node0, node1, node2, node4, node5 and 2 more; come back with the -i and -l"
        in done.err
    )
    assert gpuburn("expect", *where, "--back", stdin=all_of_them).status == 0


@pytest.fixture
def collected(tmp_path: Path, rehearsal: Plan) -> Path:
    run = runs.home(tmp_path / "reports", rehearsal)
    runs.write(tmp_path / "node1", rehearsal)
    runs.bring(run, "node1", tmp_path / "node1")
    return tmp_path


def test_collect_and_report_tell_what_came_of_it(gpuburn: Any, collected: Path) -> None:
    where = ("--run", runs.RUN, "--reports", collected / "reports")
    done = gpuburn("collect", *where)
    assert json.loads(done.out) == {"node1": {"verdicts": {"training": "pass"}}}
    done = gpuburn("report", *where)
    assert done.status == 0
    assert "trial passed" in done.out
    assert "index.html" in done.out
    assert json.loads(gpuburn("report", *where, "--json").out)["node1"]["good"] is True


@pytest.mark.parametrize("machine", [(), ("--json",)])
def test_a_broken_or_lost_journal_is_said_on_the_console_too(gpuburn: Any, collected: Path, machine: Any) -> None:
    where = ("--run", runs.RUN, "--reports", collected / "reports", *machine)
    gpuburn("collect", *where[:4])
    assert gpuburn("report", *where).err == ""
    journal = Run.of(collected / "reports", runs.RUN).journal
    journal.write_bytes(b"garbage\n" + journal.read_bytes())
    assert "journal.jsonl: broken: journal.jsonl:1: " in gpuburn("report", *where).err
    journal.unlink()
    assert "journal.jsonl: no journal was kept" in gpuburn("report", *where).err


def test_a_plan_that_cannot_be_read_ends_neither_collect_nor_report(gpuburn: Any, collected: Path) -> None:
    run = Run.of(collected / "reports", runs.RUN)
    run.expect([*run.expected(), *(type(one)(**{**strict.plain(one), "host": "node0"}) for one in run.expected())])
    run.host("node0").mkdir()
    (run.host("node0") / "plan.json").write_bytes(b"{}")
    where = ("--run", runs.RUN, "--reports", collected / "reports")
    told = json.loads(gpuburn("collect", *where).out)
    assert "refused" in told["node0"]
    assert told["node1"] == {"verdicts": {"training": "pass"}}
    done = gpuburn("report", *where)
    assert done.status == 2 and "untested" in done.out and "trial passed" in done.out


def test_verify_is_zero_only_if_all_holds(gpuburn: Any, collected: Path, rehearsal: Plan) -> None:
    plan = collected / "plan.json"
    plan.write_bytes(strict.encode(rehearsal))
    done = gpuburn("verify", collected / "node1", plan)
    assert done.status == 0
    assert done.out.endswith("training: pass\n")
    runs.edit(collected / "node1" / "result.json", lambda document: document["verdicts"].update(training="fail"))
    done = gpuburn("verify", collected / "node1", plan)
    assert done.status == 3
    assert "do not follow from its evidence" in done.err


def test_verify_of_what_is_not_there_is_one_line(gpuburn: Any, tmp_path: Path) -> None:
    done = gpuburn("verify", tmp_path / "nothing", tmp_path / "plan.json")
    assert done.status == 3
    assert done.err.count("\n") == 1


def test_skus_schemas_and_variables_are_told(gpuburn: Any) -> None:
    assert "\nh200-sxm " in gpuburn("sku", "list").out
    assert "PCI" in gpuburn("sku", "show", "h200-sxm").out
    assert "did you mean" in gpuburn("sku", "show", "h201-sxm").err
    assert json.loads(gpuburn("schema", "result").out)["$id"] == "gpuburn/result/1"
    assert "did you mean 'plan'" in gpuburn("schema", "plann").err
    assert "gpuburn_profiles" in gpuburn("variables").out
    assert gpuburn("--version").out == f"gpuburn {__version__}\n"


@pytest.mark.parametrize(
    "arguments",
    [["nope"], ["sku", "show"], ["report", "--run"], ["report"], ["report", "--what"], ["sku", "show", "a", "b"]],
)
def test_wrong_usage_is_status_3_and_no_traceback(gpuburn: Any, arguments: list[str]) -> None:
    done = gpuburn(*arguments)
    assert done.status == 3 and ("Usage:" in done.err or "Error:" in done.err) and "Traceback" not in done.err


def test_an_error_of_ours_is_status_4_and_told_in_full(gpuburn: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken() -> Any:
        raise RuntimeError("a mistake of ours")

    monkeypatch.setattr("gpuburn.sku.ids", broken)
    done = gpuburn("sku", "list")
    assert done.status == 4 and "a mistake of ours" in done.err and "Traceback" in done.err


def test_help_and_version_are_status_0(gpuburn: Any) -> None:
    for arguments in (["--help"], ["--version"], ["report", "--help"]):
        assert gpuburn(*arguments).status == 0
