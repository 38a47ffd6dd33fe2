"""Prometheus text, read back with the reader of the client library."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from prometheus_client.parser import text_string_to_metric_families

from gpuburn.controller.exports.prometheus import make

from .made import EVIL, document, documents, finding, host, measurement, samples, silent


@pytest.mark.parametrize(
    ("verdict", "value"),
    [("not_applicable", 0), ("pass", 1), ("incomplete", 2), ("fail", 3), ("a word of tomorrow", 2)],
)
def test_a_finding_is_a_number_that_grows_worse(verdict: str, value: int) -> None:
    [one] = samples(make(document(host(findings=[finding(verdict=verdict)]))), "gpuburn_finding_status")
    assert one.value == value
    assert one.labels == {
        "host": "node1", "subject": "gpu3", "step": "gemm", "about": "gemm.tflops", "point": "dtype=bf16",
    }  # fmt: skip


def test_of_findings_with_the_same_labels_the_worst_stands() -> None:
    several = [finding(verdict=one) for one in ("pass", "fail", "not_applicable")]
    assert [one.value for one in samples(make(document(host(findings=several))), "gpuburn_finding_status")] == [3.0]


def test_a_decision_is_one_of_all() -> None:
    data = make(document(host("node1", "rejected"), silent("node2")))
    for name in ("gpuburn_host_decision", "gpuburn_profile_decision"):
        held = {(one.labels["host"], one.labels["decision"]) for one in samples(data, name) if one.value == 1.0}
        assert held == {("node1", "rejected"), ("node2", "untested")}
    assert len(samples(data, "gpuburn_host_decision")) == 14, "also the decisions that the host has not"


def test_a_measurement_has_its_unit() -> None:
    [one] = samples(make(document(host())), "gpuburn_measurement")
    assert (one.value, one.labels["unit"], one.labels["about"]) == (700.5, "TFLOP/s", "gemm.tflops")


def test_serial_numbers_stand_in_info_alone() -> None:
    data = make(document(host(measurements=[measurement()])))
    lines = [line for line in data.decode().splitlines() if "SN-" in line or "GPU-1" in line]
    assert lines and all(line.startswith("gpuburn_info{") for line in lines)
    told = {one.labels["subject"]: one.labels["serial"] for one in samples(data, "gpuburn_info")}
    assert told == {"host": "SN-HOST-1", "gpu3": "SN-GPU-1"}


def test_how_old_the_report_is_can_be_asked() -> None:
    [one] = samples(make(document()), "gpuburn_report_issued_timestamp_seconds")
    assert one.value == document()["issued"]


@pytest.mark.parametrize("evil", EVIL)
def test_no_word_of_a_host_ends_a_line_or_a_label(evil: str) -> None:
    told = host(findings=[finding(about=evil, point={evil: evil})], rack=evil, sku=evil)
    data = make(document(told))
    assert len(samples(data, "gpuburn_finding_status")) == 1
    assert len(samples(data, "gpuburn_info")) == 2


@given(documents())
def test_no_series_stands_twice(made: dict[str, Any]) -> None:
    for family in text_string_to_metric_families(make(made).decode()):
        keys = [(one.name, *sorted(one.labels.items())) for one in family.samples]
        assert len(keys) == len(set(keys)), family.name
