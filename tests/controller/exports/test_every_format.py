"""What holds for every format: found by its file, readable by others, no host better in it than in the document."""

from __future__ import annotations

import copy
import sys
import types
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given

from gpuburn.controller import export, exports
from gpuburn.controller.export import Format, clean, discover, named, only, put
from gpuburn.strict import Refused

from .made import BAD, EVIL, GOOD, NOT_GOOD, document, documents, finding, host, silent

FORMATS = discover()
each_format = pytest.mark.parametrize("name", sorted(FORMATS))


def not_good(of: dict[str, Any]) -> set[str]:
    return {one["host"] for one in of["hosts"] if one["decision"] not in GOOD}


def test_every_file_is_a_format_and_every_format_is_tested_here() -> None:
    assert {path.stem for path in Path(exports.__file__).parent.glob("*.py")} - {"__init__"} == {
        FORMATS[name].make.__module__.rpartition(".")[2] for name in FORMATS
    }
    assert set(NOT_GOOD) == set(FORMATS)
    assert all(one.doc and one.suffix for one in FORMATS.values())
    assert [line.split()[0] for line in export.listed()] == sorted(FORMATS)


@given(documents())
def test_no_host_is_better_in_an_export_than_in_the_document(made: dict[str, Any]) -> None:
    for name, one in FORMATS.items():
        assert NOT_GOOD[name](one.of(made)) == not_good(made), name


@given(documents())
def test_an_export_is_a_pure_function_of_the_document(made: dict[str, Any]) -> None:
    before = copy.deepcopy(made)
    for name in ("junit", "ocptv", "prometheus", "findings", "measurements"):
        assert FORMATS[name].of(made) == FORMATS[name].of(made)
    assert made == before


@each_format
@pytest.mark.parametrize("decision", BAD)
def test_a_host_that_is_not_good_is_in_it_by_name_with_and_without_a_result(name: str, decision: str) -> None:
    made = document(host("node1"), host("node2", decision), silent("node3", decision))
    assert NOT_GOOD[name](FORMATS[name].of(made)) == {"node2", "node3"}


@each_format
def test_fields_that_a_report_may_not_have_are_not_needed(name: str) -> None:
    bare = host()
    for key in ("hostname", "started", "ended", "devices", "versions", "identity", "steps", "left_out", "limits"):
        del bare[key]
    made = document(bare)
    del made["limits"]
    assert NOT_GOOD[name](FORMATS[name].of(made)) == set()


@each_format
def test_what_a_later_report_says_more_does_no_harm(name: str) -> None:
    person = {"by": "A. Person", "as": "accepted", "reason": "=1+1"}
    waived = finding(verdict="fail", waived="W-1: A. Person")
    more = host(
        "node1", "rejected", conditions=["re-test"], waived=[{"id": "W-1"}], person_decisions=[person],
        findings=[waived], tomorrow={"a": [1]},
    )  # fmt: skip
    assert NOT_GOOD[name](FORMATS[name].of(document(more))) == {"node1"}


@pytest.mark.parametrize("evil", EVIL)
def test_words_of_a_host_carry_no_terminal_control_or_direction_characters(evil: str) -> None:
    told = clean(evil)
    assert not any((ord(one) < 32 and one not in "\t\n") or 0x7F <= ord(one) < 0xA0 for one in told)
    assert not set(told) & set("\u202e\u2066\ufffe\uffff\x1b")
    assert "red" not in evil or told == "red"


def test_a_missing_extra_is_named_with_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    for module, name in (("xlsxwriter", "xlsx"), ("pyarrow", "parquet")):
        monkeypatch.setitem(sys.modules, module, None)
        with pytest.raises(Refused, match=rf"--format {name}: .*extra '{name}': pip install -e '\.\[{name}\]'"):
            FORMATS[name].of(document())


def test_a_format_without_an_extra_does_not_hide_an_import_that_fails() -> None:
    def broken(_: dict[str, Any]) -> bytes:
        raise ImportError("gone")

    with pytest.raises(ImportError):
        Format("x", "x", "x", broken).of({})


def test_two_files_that_declare_one_name_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    twin = types.SimpleNamespace(FORMAT=FORMATS["junit"])
    monkeypatch.setattr(export.importlib, "import_module", lambda name: twin)
    with pytest.raises(Refused, match="'junit' is declared twice"):
        discover()


def test_an_unknown_format_or_host_is_refused_by_name() -> None:
    with pytest.raises(Refused, match="did you mean 'junit'"):
        named("junt")
    with pytest.raises(Refused, match="--host: unknown 'node7'"):
        only(document(host("node1")), ["node7"])


def test_one_host_can_be_taken_alone() -> None:
    made = document(host("node1"), host("node2", "rejected"))
    assert only(made, [])["hosts"] == made["hosts"]
    alone = only(made, ["node2"])
    assert ([one["host"] for one in alone["hosts"]], alone["decisions"]) == (["node2"], {"rejected": 1})


def test_a_file_is_written_beside_and_renamed(tmp_path: Path) -> None:
    path = tmp_path / "x.prom"
    path.write_bytes(b"old")
    kept = path.open("rb")
    assert put(str(path), b"new") == f"{path}: 3 bytes"
    assert (path.read_bytes(), kept.read()) == (b"new", b"old"), "a reader of the old file still has it whole"
    assert list(tmp_path.iterdir()) == [path]
    with pytest.raises(Refused, match="cannot be written"):
        put(str(tmp_path / "no" / "x"), b"")
    (tmp_path / "folder").mkdir()
    with pytest.raises(Refused, match="cannot be written"):
        put(str(tmp_path / "folder"), b"")
    assert {one.name for one in tmp_path.iterdir()} == {"x.prom", "folder"}
