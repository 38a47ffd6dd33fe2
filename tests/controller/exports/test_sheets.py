"""CSV, XLSX and Parquet: cells that nothing runs, numbers as numbers, a row for everyone."""

from __future__ import annotations

import io
from typing import Any

import openpyxl
import pyarrow
import pytest

from gpuburn.controller import tables
from gpuburn.controller.exports import findings, measurements, parquet, xlsx
from gpuburn.strict import Refused

from .made import EVIL, document, finding, host, measurement, rows, sheet, silent, table

FORMULAS = [one for one in EVIL if one[0] in "=+@"]


@pytest.mark.parametrize("evil", [*FORMULAS, "-2+3", "\t=1", " =1"])
def test_no_cell_of_a_csv_is_a_formula(evil: str) -> None:
    made = document(host(reason=evil, rack=evil, findings=[finding(why=evil, about=evil)], measurements=[]))
    for data in (findings.make(made), measurements.make(made)):
        for row in rows(data):
            assert all(not cell.lstrip().startswith(("=", "+", "-", "@")) for cell in row.values())


def test_numbers_of_a_csv_are_numbers_also_below_zero() -> None:
    [row] = rows(measurements.make(document(host(measurements=[measurement(value=-1.5, low=-2.0)]))))
    assert (row["value"], row["low"], row["unit"], row["count"]) == ("-1.5", "-2.0", "TFLOP/s", "12")


def test_a_host_without_a_measurement_has_a_row_without_a_value() -> None:
    [row] = rows(measurements.make(document(silent("node9"))))
    assert (row["host"], row["decision"], row["value"], row["count"]) == ("node9", "untested", "", "0")


def test_a_workbook_has_four_sheets_with_frozen_headers() -> None:
    book = openpyxl.load_workbook(io.BytesIO(xlsx.make(document(host(), silent()))))
    assert book.sheetnames == ["Decisions", "Findings", "Measurements", "Left out"]
    for one in book:
        assert one.freeze_panes == "B2"
        assert all(3 <= width.width <= 61 for width in one.column_dimensions.values())


def test_numbers_of_a_workbook_are_numbers() -> None:
    [row] = sheet(xlsx.make(document(host())), "Measurements")
    assert (row["value"], row["count"]) == (700.5, 12)


@pytest.mark.parametrize("evil", [*EVIL, "1e5", "007", "mailto:a@b.c", "x" * 40_000])
def test_words_of_a_workbook_are_words(evil: str) -> None:
    book = openpyxl.load_workbook(io.BytesIO(xlsx.make(document(host(reason=evil, findings=[finding(why=evil)])))))
    cells = [cell for one in book for row in one.iter_rows(min_row=2) for cell in row if cell.value is not None]
    assert {cell.data_type for cell in cells} <= {"s", "n"}, "no formula"
    assert not any(cell.hyperlink for cell in cells)
    assert all(isinstance(cell.value, str) for cell in book["Decisions"][2] if cell.value is not None)


def test_a_host_that_was_not_judged_left_out_everything() -> None:
    made = document(silent("node9"), host(left_out=[{"what": "x", "why": "y"}]), *(
        host(f"n{number}", left_out=[{"what": "x", "why": "y"}]) for number in range(9)))  # fmt: skip
    everything, x = sheet(xlsx.make(made), "Left out")
    assert (everything["what"], everything["which"]) == ("everything", "node9")
    assert (x["hosts"], x["which"]) == (10, "node1, n0, n1, n2, n3 and 5 more")


def test_a_sheet_that_would_be_cut_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(xlsx, "ROWS", 1)
    with pytest.raises(Refused, match="Findings has 2 rows, a sheet holds 1; take parquet or CSV"):
        xlsx.make(document(host(findings=[finding(), finding()])))


def test_a_decision_stands_with_all_that_is_known_of_it() -> None:
    condition = {"condition": "re-test", "owner": "vendor", "due": "2026-02-01"}
    decided = {"decision": "conditional", "because": "so", "verdict": "pass", "conditions": [condition]}
    more: dict[str, Any] = {"waived": [{"id": "W-1", "by": "A"}], "by_profile": {"a": decided, "b": decided}}
    [row] = sheet(xlsx.make(document(host("n", "conditional", **more))), "Decisions")
    assert row["profiles"] == "a: conditional (so); b: conditional (so)"
    assert row["conditions"] == "condition=re-test, owner=vendor, due=2026-02-01"
    assert (row["waived"], row["started"]) == ("id=W-1, by=A", "2025-12-31 23:58:30 UTC")


def test_columns_of_parquet_have_their_types() -> None:
    told = table(parquet.make(document(host(), silent("node9"))))
    kinds = {field.name: field.type for field in told.schema}
    assert kinds["value"] == pyarrow.float64() and kinds["count"] == pyarrow.int64()
    assert kinds["host"] == pyarrow.string() and kinds["point_values"] == pyarrow.map_(
        pyarrow.string(), pyarrow.string()
    )
    assert told.column("value").to_pylist() == [700.5, None]
    assert told.column("point_values").to_pylist() == [[("dtype", "bf16")], None]
    assert told.schema.metadata[b"gpuburn.decisions"] == b'{"accepted": 1, "untested": 1}'


def test_a_table_of_nobody_still_has_its_columns() -> None:
    assert table(parquet.make(document())).num_rows == 0
    assert rows(findings.make(document())) == []
    assert sheet(xlsx.make(document()), "Decisions") == []
    assert len(tables.measurements(document()).columns) == len(set(tables.MEASUREMENTS))
