"""findings.csv: one row per finding, for a spreadsheet or a script. The same file that a report brings."""

from __future__ import annotations

from gpuburn.controller import tables
from gpuburn.controller.export import Document, Format


def make(document: Document) -> bytes:
    return tables.findings(document).csv()


FORMAT = Format("findings", "findings.csv", "CSV, a row per finding", make)
