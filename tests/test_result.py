"""result.json: read strictly, and its list of evidence leaves nothing out that could still change a verdict."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import runs

from gpuburn import result as results, strict
from gpuburn.plan import Plan
from gpuburn.result import NAME, decode, evidence
from gpuburn.strict import Refused


@pytest.fixture
def folder(tmp_path: Path, rehearsal: Plan) -> Path:
    runs.write(tmp_path / "run", rehearsal)
    return tmp_path / "run"


def test_a_result_reads_back_as_it_was(folder: Path) -> None:
    data = (folder / "result.json").read_bytes()
    assert strict.encode(decode(data)) == data


@pytest.mark.parametrize("schema", ["gpuburn/result/2", "gpuburn/plan/1", None, 1])
def test_an_unknown_schema_is_refused(folder: Path, schema: Any) -> None:
    document = {**json.loads((folder / "result.json").read_bytes()), "schema": schema}
    with pytest.raises(Refused, match="this version reads 'gpuburn/result/1'"):
        decode(json.dumps(document).encode())


@pytest.mark.parametrize("data", [b"", b"[]", b"null", b"{}", b'"gpuburn/result/1"', b"[" * 10**5])
def test_what_is_no_result_is_refused(data: bytes) -> None:
    with pytest.raises(Refused, match=r"^result\.json"):
        decode(data)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda d: d.update(verdict="pass"), "unknown 'verdict'; did you mean 'verdicts'"),
        (lambda d: d.pop("nonce"), "'nonce' is missing"),
        (lambda d: d.update(started="now"), "started: 'now' is a str"),
        (lambda d: d.update(ended_as="fine"), "'fine' is not one of finished"),
        (lambda d: d["verdicts"].update(training="passed"), "'passed' is not one of pass, fail"),
        (lambda d: d["verdicts"].update(training=True), "True is not one of pass"),
        (lambda d: d["outcomes"][0].update(status="ok"), "'ok' is not one of completed"),
        (lambda d: d["outcomes"][0].update(seconds=float("nan")), "not strict JSON"),
        (lambda d: d["outcomes"][0]["measurements"][0].update(value=float("inf")), "not strict JSON"),
        (lambda d: d["outcomes"][0]["measurements"][0].update(point={"a": []}), "a point is an object"),
        (lambda d: d["findings"][0].update(marginal=1), "wanted is a bool"),
        (lambda d: d["findings"][0].update(extra=1), "unknown 'extra'"),
        (lambda d: d.update(hostname="a\0b"), "NUL"),
    ],
)
def test_a_result_that_is_not_as_published_is_refused(folder: Path, change: Any, says: str) -> None:
    runs.edit(folder / "result.json", change)
    with pytest.raises(Refused, match=says):
        decode((folder / "result.json").read_bytes())


def test_a_result_over_its_size_is_refused(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    data = (folder / "result.json").read_bytes()
    monkeypatch.setattr(results, "LIMIT", len(data) - 1)
    with pytest.raises(Refused, match="bytes, at most"):
        decode(data)


def test_evidence_is_every_file_that_no_longer_changes(folder: Path) -> None:
    for name in ("state.json", "lock", "pid", "stop", "agent.log"):
        (folder / name).write_text("changes")
    (folder / "steps" / "gemm" / "scratch").mkdir()
    (folder / "steps" / "gemm" / "scratch" / "weights").write_text("gone soon")
    (folder / "steps" / "gemm" / "state.json").write_text("evidence: only the run's own state is not")
    found = evidence(folder)
    files = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    left = {name for name in files - set(found)}
    assert left == {
        "state.json", "lock", "pid", "stop", "agent.log", "result.json", "sealed.tar.gz", "steps/gemm/scratch/weights",
    }  # fmt: skip
    assert found["plan.json"] == strict.digest((folder / "plan.json").read_bytes())


def test_a_link_is_no_evidence(folder: Path) -> None:
    (folder / "steps" / "link").symlink_to("/etc/passwd")
    with pytest.raises(Refused, match="a link is no evidence"):
        evidence(folder)


@pytest.mark.parametrize("name", ["a b", "a\nb", "-rf", ".hidden", "é", "a;b", "a'b", "<b>", "x" * 101])
def test_an_odd_name_is_no_evidence(folder: Path, name: str) -> None:
    (folder / name).write_text("")
    with pytest.raises(Refused, match="a name of evidence"):
        evidence(folder)


@pytest.mark.parametrize(
    "name",
    [
        "../a",
        "a/../b",
        "/etc/passwd",
        "a//b",
        "a/",
        "./a",
        "a/.",
        "",
        "a\\..\\b/",
        "C:/a",
        "a/" * 9 + "a",
        "a\n",
        "a\0b",
    ],
)
def test_no_name_leads_out_of_the_folder(name: str) -> None:
    assert not NAME.fullmatch(name)


def test_the_names_that_the_agent_writes_are_safe_ones() -> None:
    for name in ("plan.json", "steps/gemm/readings.gpu0.jsonl", "interrupted/gemm-1/log/0.txt", "a/" * 8 + "a"):
        assert NAME.fullmatch(name)
