"""Prometheus text for a node exporter's textfile folder, or a scrape of a file: decisions, findings, measurements.

Serial numbers stand in gpuburn_info alone, so that a dashboard of the other metrics can be shared.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.metrics_core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from gpuburn.controller.export import DECISIONS, Document, Format, Host, at_point, clean, good, said

METRICS = {
    "gpuburn_report_issued_timestamp_seconds": "When the report was written, unix time",
    "gpuburn_host_good": "1: the decision lets the host be; 0: it does not",
    "gpuburn_host_decision": "1 for the decision of the host, 0 for every other",
    "gpuburn_profile_decision": "1 for the decision of the host for a profile, 0 for every other",
    "gpuburn_finding_status": "0 not applicable, 1 pass, 2 incomplete, 3 fail; the worst of its kind",
    "gpuburn_measurement": "The reduced value, in unit",
    "gpuburn_info": "Which hardware this is; the only place of serial numbers",
}
STATUS = {"not_applicable": 0, "pass": 1, "incomplete": 2, "fail": 3}
WHERE = ("host", "subject", "step", "about", "point")
INFO = (
    "run", "version", "host", "subject", "rack", "rack_unit", "kind", "level", "sku", "delivery", "serial", "uuid",
    "pci",
)  # fmt: skip
Labels = tuple[str, ...]


class Told(Collector):
    """A report as gauges."""

    def __init__(self, document: Document) -> None:
        self.document = document

    def collect(self) -> Iterator[Metric]:
        hosts, info = self.document["hosts"], {}
        for host in hosts:
            info.update(dict.fromkeys(_parts(self.document, host), 1.0))
        yield _gauge("gpuburn_report_issued_timestamp_seconds", (), {(): self.document["issued"]})
        yield _gauge("gpuburn_host_good", ("host",), {(host["host"],): float(good(host)) for host in hosts})
        yield _gauge("gpuburn_host_decision", ("host", "decision"), _decisions(hosts))
        yield _gauge("gpuburn_profile_decision", ("host", "profile", "decision"), _by_profile(hosts))
        yield _gauge("gpuburn_finding_status", WHERE, _statuses(hosts))
        yield _gauge("gpuburn_measurement", (*WHERE, "unit"), _measurements(hosts))
        yield _gauge("gpuburn_info", INFO, info)


def make(document: Document) -> bytes:
    registry = CollectorRegistry()
    registry.register(Told(document))
    return generate_latest(registry)


def _gauge(name: str, labels: Labels, values: dict[Labels, float]) -> GaugeMetricFamily:
    family = GaugeMetricFamily(name, METRICS[name], labels=labels)
    for key, value in values.items():
        family.add_metric(key, value)
    return family


def _states(decision: str) -> Iterator[tuple[str, float]]:
    mine = clean(decision)
    names = dict.fromkeys([*DECISIONS, mine])
    return ((name, float(name == mine)) for name in names)


def _decisions(hosts: list[Host]) -> dict[Labels, float]:
    return {(host["host"], name): value for host in hosts for name, value in _states(host["decision"])}


def _by_profile(hosts: list[Host]) -> dict[Labels, float]:
    return {
        (host["host"], profile, name): value
        for host in hosts
        for profile, one in host["by_profile"].items()
        for name, value in _states(one["decision"])
    }


def _statuses(hosts: list[Host]) -> dict[Labels, float]:
    """Where several findings share their labels, the worst; a verdict that is not known is incomplete."""
    found: dict[Labels, float] = {}
    for host in hosts:
        for one in host["findings"]:
            key = _where(host, one, one["about"])
            found[key] = max(found.get(key, 0.0), float(STATUS.get(one["verdict"], STATUS["incomplete"])))
    return found


def _measurements(hosts: list[Host]) -> dict[Labels, float]:
    return {
        (*_where(host, one, one["name"]), clean(one["unit"])): float(one["value"])
        for host in hosts
        for one in host["measurements"]
    }


def _where(host: Host, one: dict[str, Any], about: str) -> Labels:
    return tuple(map(clean, (host["host"], one["subject"], one["step"], about, at_point(one["point"]))))


def _parts(document: Document, host: Host) -> Iterator[Labels]:
    """The host, and each of its devices."""
    shared = {**{name: host[name] for name in ("host", "rack", "kind", "level", "sku", "delivery")},
              "run": document["run"], "version": document["version"], "rack_unit": host["unit"]}  # fmt: skip
    identity = host.get("identity", {})
    parts = [{"subject": "host", "serial": identity.get("dmi.product_serial", "")}]
    parts += [{"subject": one["name"], **{key: one[key] for key in ("serial", "uuid", "pci")}}
              for one in host.get("devices", [])]  # fmt: skip
    for part in parts:
        told = {**shared, **part}
        yield tuple(clean(said(told.get(name))) for name in INFO)


FORMAT = Format("prometheus", "prom", "Prometheus text: decisions, findings, measurements", make)
