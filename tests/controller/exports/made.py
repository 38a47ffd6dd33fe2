"""Documents of report.json made by hand and by hypothesis, and what each export says of which hosts are not good."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from typing import Any

import junitparser
import openpyxl
import pyarrow
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families
from pyarrow import parquet

ISSUED = 1_767_225_600.0
GOOD = ("accepted", "conditional", "trial passed")
BAD = ("undecided", "untested", "trial failed", "rejected")
EVIL = (
    "]]>", "<script>alert(1)</script>", "\x1b[31mred\x1b[0m", "\u202egpj.exe", "=cmd|'/C calc'!A0", "+1+1", "@SUM(1)",
    "\ufffe\uffff", "\x9b31m", "a\nb\tc\rd", '"quoted", \\n', "_x0041_", "\u96fb\u6e90", "{{7*7}}", "http://evil.example",
)  # fmt: skip


def finding(**changed: Any) -> dict[str, Any]:
    return {
        "code": "limit.met", "about": "gemm.tflops", "verdict": "pass", "why": "700 TFLOP/s; needs x >= 600 TFLOP/s",
        "source": "limit", "profiles": ["training"], "step": "gemm", "subject": "gpu3", "point": {"dtype": "bf16"},
        "marginal": False, "severity": "", "action": "", "evidence": "steps/gemm", **changed,
    }  # fmt: skip


def measurement(**changed: Any) -> dict[str, Any]:
    return {
        "step": "gemm", "name": "gemm.tflops", "unit": "TFLOP/s", "subject": "gpu3", "point": {"dtype": "bf16"},
        "value": 700.5, "low": 699.0, "high": 702.0, "count": 12, **changed,
    }  # fmt: skip


def limit(**changed: Any) -> dict[str, Any]:
    when = {"kinds": [], "levels": [], "profiles": ["training"], "environments": [], "steps": ["gemm"], "point": {}}
    return {
        "about": "gemm.tflops", "unit": "TFLOP/s", "because": "the contract says so", "min": 600.0, "max": None,
        "source": "contract", "confidence": "high", "when": when, **changed,
    }  # fmt: skip


def host(name: str = "node1", decision: str = "accepted", **changed: Any) -> dict[str, Any]:
    """A host that was judged; where its decision is not good, changed says why."""
    step = {"step": "gemm", "probe": "gemm", "status": "completed", "why": "", "started": ISSUED - 60, "seconds": 30.0}
    gpu = {"name": "gpu3", "kind": "cuda", "pci": "0000:1a:00.0", "uuid": "GPU-1", "serial": "SN-GPU-1"}
    return {
        "host": name, "kind": "hardware", "level": "standard", "environment": "bare_metal", "profiles": ["training"],
        "delivery": "lot-1", "sku": "h100-sxm5-80gb", "count": 1, "rack": "r1", "unit": "7", "power_domain": "",
        "reached": "judged", "decision": decision, "reason": f"because {decision}", "trouble": [],
        "by_profile": {"training": {"decision": decision, "because": "so", "verdict": "pass"}},
        "findings": [finding()], "measurements": [measurement()], "hostname": name, "started": ISSUED - 90,
        "ended": ISSUED - 10, "ended_as": "finished", "devices": [gpu], "versions": {"torch": "2.13.0"},
        "identity": {"dmi.product_serial": "SN-HOST-1", "os.kernel": "6.8"}, "steps": [step], "left_out": [],
        "limits": "criteria", **changed,
    }  # fmt: skip


def silent(name: str = "node9", decision: str = "untested", reached: str = "never_reached") -> dict[str, Any]:
    """A host of which nothing came home."""
    return host(
        name, decision, reached=reached, findings=[], measurements=[], devices=[], versions={}, identity={}, steps=[],
        limits="", started=None, ended=None, ended_as=None, trouble=["unreachable: ssh: no route"],
        by_profile={"training": {"decision": decision, "because": "nothing ran", "verdict": ""}},
    )  # fmt: skip


def document(*hosts: dict[str, Any], **changed: Any) -> dict[str, Any]:
    counts: dict[str, int] = {}
    for one in hosts:
        counts[one["decision"]] = counts.get(one["decision"], 0) + 1
    return {
        "schema": "gpuburn/report/1", "run": "20260101T000000Z-0000", "issued": ISSUED, "version": "0.1.0",
        "journal": "1 lines, unbroken", "decisions": counts, "limits": {"criteria": [limit()]}, "hosts": list(hosts),
        **changed,
    }  # fmt: skip


WORDS = st.one_of(
    st.sampled_from(EVIL), st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=12)
)
NUMBERS = st.floats(allow_nan=False, allow_infinity=False)
POINTS = st.dictionaries(WORDS, WORDS | NUMBERS | st.integers(-9, 9), max_size=2)
SUBJECTS = st.sampled_from(["host", "gpu3", "gpu0>gpu1"]) | WORDS
FINDINGS = st.builds(
    finding, code=st.sampled_from(["limit.met", "step.errored", "host.no_result", "kernel.xid"]), about=WORDS,
    verdict=st.sampled_from(["pass", "fail", "incomplete", "not_applicable", "a word of tomorrow"]), why=WORDS,
    step=st.sampled_from(["", "gemm", "idle"]), subject=SUBJECTS, point=POINTS, marginal=st.booleans(), action=WORDS,
)  # fmt: skip
FINE = st.builds(finding, verdict=st.sampled_from(["pass", "not_applicable"]), why=WORDS, marginal=st.booleans())
MEASUREMENTS = st.builds(
    measurement, name=WORDS, subject=SUBJECTS, point=POINTS, value=NUMBERS, low=NUMBERS, high=NUMBERS,
    count=st.integers(1, 2**53),
)  # fmt: skip


@st.composite
def hosts(draw: st.DrawFn, name: str) -> dict[str, Any]:
    decision = draw(st.sampled_from([*GOOD, *BAD, "a word of tomorrow"]))
    if decision not in GOOD and draw(st.booleans()):
        return silent(name, decision, draw(st.sampled_from(["never_reached", "lost", "refused", "vanished"])))
    found = draw(st.lists(FINE if decision in GOOD else FINDINGS, min_size=1 if decision in GOOD else 0, max_size=4))
    return host(
        name, decision, findings=found, measurements=draw(st.lists(MEASUREMENTS, max_size=3)), reason=draw(WORDS),
        rack=draw(WORDS), trouble=draw(st.lists(WORDS, max_size=2)), started=draw(st.none() | NUMBERS),
        left_out=draw(st.lists(st.fixed_dictionaries({"what": WORDS, "why": WORDS}), max_size=2)),
        versions=draw(st.dictionaries(WORDS, WORDS, max_size=2)), profiles=draw(st.sampled_from([["training"], []])),
    )  # fmt: skip


@st.composite
def documents(draw: st.DrawFn) -> dict[str, Any]:
    count = draw(st.integers(0, 3))
    return document(*(draw(hosts(f"node{number}")) for number in range(count)))


def streams(data: bytes) -> list[list[dict[str, Any]]]:
    """The OCPTV streams of an export: each begins with its schemaVersion."""
    found: list[list[dict[str, Any]]] = []
    for line in data.splitlines():
        one = json.loads(line, parse_constant=lambda name: pytest_fails(name))
        if "schemaVersion" in one:
            found.append([])
        found[-1].append(one)
    return found


def pytest_fails(name: str) -> None:
    raise AssertionError(f"{name} is not JSON")


def suites(data: bytes) -> list[Any]:
    return list(junitparser.JUnitXml.fromstring(data))


def rows(data: bytes) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(data.decode(), newline="")))


def sheet(data: bytes, name: str) -> list[dict[str, Any]]:
    head, *body = openpyxl.load_workbook(io.BytesIO(data))[name].values
    return [dict(zip(head, row)) for row in body]


def table(data: bytes) -> Any:
    return parquet.read_table(pyarrow.BufferReader(data))


def samples(data: bytes, name: str) -> list[Any]:
    return [
        one for family in text_string_to_metric_families(data.decode()) for one in family.samples if one.name == name
    ]


def _junit(data: bytes) -> set[str]:
    bad = {one.name for one in suites(data) if not all(case.is_passed for case in one if case.name == "decision")}
    return bad - {"no host"}


def _ocptv(data: bytes) -> set[str]:
    return {
        one[1]["testRunArtifact"]["testRunStart"]["dutInfo"]["name"]
        for one in streams(data)
        if one[-1]["testRunArtifact"]["testRunEnd"]["result"] != "PASS"
    }


def _told(of: list[dict[str, Any]]) -> set[str]:
    return {one["host"] for one in of if one["decision"] not in GOOD}


NOT_GOOD: dict[str, Callable[[bytes], set[str]]] = {
    "junit": _junit,
    "ocptv": _ocptv,
    "prometheus": lambda data: {one.labels["host"] for one in samples(data, "gpuburn_host_good") if one.value != 1.0},
    "findings": lambda data: _told(rows(data)),
    "measurements": lambda data: _told(rows(data)),
    "xlsx": lambda data: _told(sheet(data, "Decisions")),
    "parquet": lambda data: _told(table(data).to_pylist()),
}
