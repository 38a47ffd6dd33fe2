"""The report's document as plain tables: what CSV, XLSX and Parquet write. No host drops out of any of them."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from gpuburn.controller.export import Document, Host, at_point, clean, conditions, judged, said
from gpuburn.controller.report import COLUMNS, safe_cell, utc

Cell = str | float | int | None
DECISIONS = (
    "host", "rack", "unit", "kind", "level", "environment", "sku", "delivery", "decision", "reason", "profiles",
    "reached", "started", "ended", "conditions", "waived", "person_decisions", "trouble",
)  # fmt: skip
MEASUREMENTS = (
    "run", "delivery", "host", "rack", "kind", "level", "sku", "decision", "step", "metric", "subject", "point",
    "value", "unit", "low", "high", "count",
)  # fmt: skip
LEFT_OUT = ("what", "why", "profiles", "hosts", "which")
NAMED = 5  # hosts that are named where something was left out on many


@dataclass(frozen=True, slots=True)
class Table:
    """Rows under their columns; a cell without a value is None."""

    name: str
    columns: tuple[str, ...]
    rows: list[tuple[Cell, ...]]

    def csv(self) -> bytes:
        """As text. A number stands as it is; a text that a spreadsheet would take for a formula is marked as text."""
        out = io.StringIO()
        writer = csv.writer(out)
        writer.writerow(self.columns)
        for row in self.rows:
            writer.writerow([safe_cell(clean(one)) if isinstance(one, str) else one for one in row])
        return out.getvalue().encode()


def decisions(document: Document) -> Table:
    """One row per host, in the report's order: the worst first."""
    return Table("Decisions", DECISIONS, [_decided(host) for host in document["hosts"]])


def _decided(host: Host) -> tuple[Cell, ...]:
    cells: dict[str, Cell] = {name: said(host.get(name)) for name in DECISIONS}
    per = host["by_profile"].items()
    cells["profiles"] = "; ".join(f"{name}: {one['decision']} ({one['because']})" for name, one in per)
    cells["conditions"] = said(conditions(host))
    for name in ("started", "ended"):
        cells[name] = "" if host.get(name) is None else utc(host[name])
    return tuple(cells.values())


def findings(document: Document) -> Table:
    """One row per finding, and one for every host that has none."""
    rows = [row for host in document["hosts"] for row in _found(host)]
    return Table("Findings", COLUMNS, rows)


def _found(host: Host) -> Iterator[tuple[Cell, ...]]:
    head = (host["host"], host["rack"], host["unit"], host["kind"], host["level"], host["decision"])
    for one in host["findings"]:
        yield (*head, " ".join(one["profiles"]), one["step"], one["about"], one["subject"], at_point(one["point"]),
               one["verdict"], "marginal" if one["marginal"] else "", one["code"], one["why"], one["action"],
               one["evidence"])  # fmt: skip
    if not host["findings"]:
        profiles = " ".join(host["profiles"])
        yield (*head, profiles, "", "", "", "", "", "", host["reached"], host["reason"], "", "")


def measurements(document: Document) -> Table:
    """One row per measurement, and one without a value for every host that has none."""
    rows = [row for host in document["hosts"] for row in _measured(document, host)]
    return Table("Measurements", MEASUREMENTS, rows)


def _measured(document: Document, host: Host) -> Iterator[tuple[Cell, ...]]:
    names = ("delivery", "host", "rack", "kind", "level", "sku", "decision")
    head = (document["run"], *(host[name] for name in names))
    for one in host["measurements"]:
        yield (*head, one["step"], one["name"], one["subject"], at_point(one["point"]), float(one["value"]),
               one["unit"], float(one["low"]), float(one["high"]), one["count"])  # fmt: skip
    if not host["measurements"]:
        yield (*head, None, None, None, None, None, None, None, None, 0)


def left_out(document: Document) -> Table:
    """What nothing was demanded of, and why, with the hosts; a host without a judgement leaves out everything."""
    seen: dict[tuple[str, str, str], list[str]] = {}
    for host in document["hosts"]:
        for what, why, profiles in _missing(host):
            seen.setdefault((what, why, profiles), []).append(host["host"])
    rows: list[tuple[Cell, ...]] = [(*key, len(hosts), _named(hosts)) for key, hosts in seen.items()]
    return Table("Left out", LEFT_OUT, rows)


def _missing(host: dict[str, Any]) -> Iterator[tuple[str, str, str]]:
    if not judged(host):
        yield "everything", f"{host['reached']}: {host['reason']}", " ".join(host["profiles"])
    for one in host.get("left_out", []):
        yield one["what"], one["why"], " ".join(one.get("profiles", []))


def _named(hosts: list[str]) -> str:
    more = f" and {len(hosts) - NAMED} more" if len(hosts) > NAMED else ""
    return ", ".join(hosts[:NAMED]) + more
