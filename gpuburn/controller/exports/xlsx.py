"""A workbook for people: decisions, findings, measurements, what was left out. No cell is ever a formula or a link."""

from __future__ import annotations

import datetime
import io
from typing import Any

from gpuburn.controller import tables
from gpuburn.controller.export import Document, Format, clean
from gpuburn.controller.tables import Table
from gpuburn.strict import Refused

ROWS = 1_048_575  # that a sheet holds under its header
WIDEST = 60
LOOKED_AT = 1_000  # rows that decide how wide a column is
AS_TEXT = {
    "constant_memory": True, "strings_to_formulas": False, "strings_to_urls": False, "strings_to_numbers": False,
}  # fmt: skip


def make(document: Document) -> bytes:
    import xlsxwriter

    out = io.BytesIO()
    book = xlsxwriter.Workbook(out, AS_TEXT)
    issued = datetime.datetime.fromtimestamp(document["issued"], datetime.timezone.utc).replace(tzinfo=None)
    book.set_properties({"title": f"gpuburn {document['run']}", "created": issued})
    bold = book.add_format({"bold": True, "bottom": 1})
    made = (tables.decisions, tables.findings, tables.measurements, tables.left_out)
    for table in (one(document) for one in made):
        _sheet(book.add_worksheet(table.name), table, bold)
    book.close()
    return out.getvalue()


def _sheet(sheet: Any, table: Table, bold: Any) -> None:
    if len(table.rows) > ROWS:
        raise Refused(
            f"--format xlsx: {table.name} has {len(table.rows)} rows, a sheet holds {ROWS}; take parquet or CSV"
        )
    for column, name in enumerate(table.columns):
        sheet.write_string(0, column, name, bold)
        longest = max((len(_text(row[column])) for row in table.rows[:LOOKED_AT]), default=0)
        sheet.set_column(column, column, min(max(longest, len(name)) + 2, WIDEST))
    for number, row in enumerate(table.rows, 1):
        for column, cell in enumerate(row):
            if isinstance(cell, str):
                sheet.write_string(number, column, clean(cell))
            elif cell is not None:
                sheet.write_number(number, column, cell)
    sheet.freeze_panes(1, 1)
    sheet.autofilter(0, 0, max(len(table.rows), 1), len(table.columns) - 1)


def _text(cell: Any) -> str:
    return "" if cell is None else f"{cell:.6g}" if isinstance(cell, float) else str(cell)


FORMAT = Format("xlsx", "xlsx", "workbook: decisions, findings, measurements, left out", make, "xlsx")
