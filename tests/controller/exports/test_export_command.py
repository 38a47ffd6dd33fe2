"""gpuburn export over a real run: hosts that passed, failed, never started and sent what cannot be believed."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path

import pytest
import runs

from gpuburn.controller import status
from gpuburn.controller.__main__ import main
from gpuburn.measurement import Reading
from gpuburn.plan import Plan

from . import ocptv_rules
from .made import GOOD, NOT_GOOD, sheet, streams

Call = Callable[..., tuple[object, bytes, str]]


@pytest.fixture
def export(capfdbinary: pytest.CaptureFixture[bytes]) -> Call:
    """Call the program as the shell does; (status, standard output, standard error)."""

    def call(*arguments: object) -> tuple[object, bytes, str]:
        with pytest.raises(SystemExit) as ended:
            main([str(one) for one in arguments])
        out, err = capfdbinary.readouterr()
        return ended.value.code, out, err.decode()

    return call


@pytest.fixture
def reports(tmp_path: Path, rehearsal: Plan) -> Path:
    names = ("passed", "failed", "refused", "waiting")
    planned = {name: dataclasses.replace(rehearsal, host=name) for name in names}
    run = runs.home(tmp_path / "reports", *planned.values())
    for name in ("passed", "failed"):
        answers = runs.answers(planned[name])
        if name == "failed":
            answers["gemm"].append(Reading("wrong", 3.0, subject="cpu1", at=runs.ISSUED))
        runs.write(tmp_path / name, planned[name], answers)
        runs.bring(run, name, tmp_path / name)
    run.incoming("refused").write_bytes(b"not an archive")
    return tmp_path / "reports"


def test_every_format_tells_the_same_hosts_as_the_report(export: Call, reports: Path, tmp_path: Path) -> None:
    export("report", "--run", runs.RUN, "--reports", reports)
    document = json.loads((reports / runs.RUN / "report.json").read_bytes())
    not_good = {one["host"] for one in document["hosts"] if one["decision"] not in GOOD}
    assert not_good == {"failed", "refused", "waiting"}
    for name, read in NOT_GOOD.items():
        code, _, err = export("export", runs.RUN, "--format", name, "--reports", reports, "--out", tmp_path / name)
        assert (code, err) == (0, f"{tmp_path / name}: {(tmp_path / name).stat().st_size} bytes\n")
        assert read((tmp_path / name).read_bytes()) == not_good, name
    assert (tmp_path / "findings").read_bytes() == (reports / runs.RUN / "findings.csv").read_bytes()
    for one in streams((tmp_path / "ocptv").read_bytes()):
        ocptv_rules.check(one)


def test_the_document_tells_what_an_export_needs(export: Call, reports: Path) -> None:
    export("report", "--run", runs.RUN, "--reports", reports)
    document = json.loads((reports / runs.RUN / "report.json").read_bytes())
    told = {one["host"]: one for one in document["hosts"]}
    passed, waiting = told["passed"], told["waiting"]
    assert [one["name"] for one in passed["devices"]] == ["cpu0", "cpu1", "cpu2"]
    assert (passed["started"], passed["ended"], passed["ended_as"]) == (runs.ISSUED, runs.ISSUED + 60, "finished")
    assert passed["identity"]["dmi.product_serial"] == "product_serial of passed"
    assert passed["versions"]["gpuburn"] and passed["left_out"] and passed["hostname"] == "node1.site"
    assert [(one["step"], one["status"]) for one in passed["steps"]] == [(name, "completed") for name in runs.STEPS]
    assert {one["step"] for one in passed["measurements"]} <= set(runs.STEPS)
    assert document["limits"][passed["limits"]], "the limits, under the key that the host names"
    assert (waiting["started"], waiting["identity"]) == (None, {})
    assert [one["status"] for one in waiting["steps"]] == [None] * len(runs.STEPS)


def test_standard_output_is_the_export_and_nothing_else(export: Call, reports: Path) -> None:
    code, out, err = export("export", runs.RUN, "--format", "xlsx", "--reports", reports, "--out", "-")
    assert code == 0 and err == f"{len(out)} bytes\n"
    assert len(sheet(out, "Decisions")) == 4


def test_without_a_name_the_file_is_called_after_the_run(
    export: Call, reports: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    export("export", runs.RUN, "--format", "junit", "--host", "passed", "--reports", reports)
    assert NOT_GOOD["junit"]((tmp_path / f"{runs.RUN}.junit.xml").read_bytes()) == set()


def test_the_formats_are_listed(export: Call) -> None:
    code, out, _ = export("export", "--list")
    assert code == 0
    assert [line.split()[0] for line in out.decode().splitlines()] == sorted(NOT_GOOD)


def test_what_is_wrong_is_one_line_and_wrong_usage(export: Call, reports: Path) -> None:
    for arguments, says in (
        ((runs.RUN, "--format", "junt"), "did you mean 'junit'"),
        ((runs.RUN, "--format", "junit", "--host", "nobody"), "--host: unknown 'nobody'"),
        (("../x", "--format", "junit"), "run id '../x'"),
        (("20260101T000000Z-ffff", "--format", "junit"), "no such run"),
    ):
        ended, out, err = export("export", *arguments, "--reports", reports)
        assert (ended, out, err.count("\n")) == (status.USAGE, b"", 1) and says in err, err
