"""measurements.csv: one row per measurement with its unit, step, subject and point."""

from __future__ import annotations

from gpuburn.controller import tables
from gpuburn.controller.export import Document, Format


def make(document: Document) -> bytes:
    return tables.measurements(document).csv()


FORMAT = Format("measurements", "measurements.csv", "CSV, a row per measurement", make)
