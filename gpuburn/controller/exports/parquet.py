"""Measurements with their types, for pandas, DuckDB or Polars: a row per measurement, missing values as nulls."""

from __future__ import annotations

import json

from gpuburn.controller import tables
from gpuburn.controller.export import Document, Format

NUMBERS = {"value": "float64", "low": "float64", "high": "float64", "count": "int64"}


def make(document: Document) -> bytes:
    import pyarrow
    from pyarrow import parquet

    table = tables.measurements(document)
    told = {"gpuburn.run": document["run"], "gpuburn.decisions": json.dumps(document["decisions"], sort_keys=True)}
    fields = [(name, getattr(pyarrow, NUMBERS.get(name, "string"))()) for name in table.columns]
    fields.append(("point_values", pyarrow.map_(pyarrow.string(), pyarrow.string())))
    schema = pyarrow.schema(fields, metadata=told)
    columns = [list(column) for column in zip(*table.rows)] or [[] for _ in table.columns]
    typed = pyarrow.table([*columns, _points(document)], schema=schema)
    out = pyarrow.BufferOutputStream()
    parquet.write_table(typed, out, compression="zstd")
    return bytes(out.getvalue())


def _points(document: Document) -> list[list[tuple[str, str]] | None]:
    """Where on a sweep each row was taken, as pairs that a query can ask for; in the order of the table's rows."""
    return [
        None if one is None else [(key, str(value)) for key, value in sorted(one["point"].items())]
        for host in document["hosts"]
        for one in (host["measurements"] or [None])
    ]


FORMAT = Format("parquet", "parquet", "measurements as typed columns", make, "parquet")
