"""JUnit: green only for a pass, whatever a CI looks at: a case, a suite's counts, the whole."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from typing import Any

import junitparser
import pytest
from hypothesis import given

from gpuburn.controller.exports.junit import make

from .made import BAD, EVIL, GOOD, document, documents, finding, host, measurement, silent, suites


def cases(*hosts: dict[str, Any]) -> dict[tuple[str, str], Any]:
    return {(case.classname, case.name): case for suite in suites(make(document(*hosts))) for case in suite}


@pytest.mark.parametrize(
    ("verdict", "ends"),
    [
        ("pass", []),
        ("fail", [junitparser.Failure]),
        ("incomplete", [junitparser.Error]),
        ("not_applicable", [junitparser.Skipped]),
        ("a word of tomorrow", [junitparser.Error]),
    ],
)
def test_a_finding_ends_its_case(verdict: str, ends: list[type]) -> None:
    case = cases(host(findings=[finding(verdict=verdict)]))["node1.gpu3", "gemm/gemm.tflops/dtype=bf16"]
    assert [type(one) for one in case.result] == ends
    assert all(one.message.startswith("700 TFLOP/s") and one.type == "limit.met" for one in case.result)


def test_numbers_stand_in_properties() -> None:
    told = ET.fromstring(make(document(host())))
    found = {one.get("name"): one.get("value") for one in told.iterfind(".//testcase/properties/property")}
    assert found["value"] == "700.5" and found["unit"] == "TFLOP/s" and found["count"] == "12"


@pytest.mark.parametrize("decision", [*GOOD, *BAD])
def test_the_decision_is_a_case_of_its_own(decision: str) -> None:
    of_host, of_profile = (cases(host("n", decision))["n", name] for name in ("decision", "decision/training"))
    assert of_host.is_passed == of_profile.is_passed == (decision in GOOD)
    assert of_host.is_failure == (decision in ("rejected", "trial failed"))
    assert of_host.is_error == (decision in ("undecided", "untested"))


def test_a_host_without_a_result_is_a_suite_with_an_error_that_says_how_it_was_lost() -> None:
    [suite] = suites(make(document(silent("node9"))))
    assert (suite.name, suite.errors, suite.failures) == ("node9", 3, 0)
    result = next(case for case in suite if case.name == "result")
    assert result.is_error and "ssh: no route" in result.result[0].text


def test_a_host_of_which_nothing_was_demanded_is_no_green_suite_even_if_a_decision_says_so() -> None:
    [suite] = suites(make(document(host(findings=[], by_profile={}))))
    assert suite.errors == 1


def test_a_report_of_no_host_is_not_green() -> None:
    [suite] = suites(make(document()))
    assert suite.errors == 1


def test_names_stay_the_same_over_runs_and_are_never_doubled() -> None:
    both = [finding(profiles=["training"]), finding(profiles=["inference"], verdict="fail"),
            finding(profiles=["inference"], verdict="fail")]  # fmt: skip
    names = [case.name for suite in suites(make(document(host(profiles=["training", "inference"], findings=both))))
             for case in suite if case.classname == "node1.gpu3"]  # fmt: skip
    name = "gemm/gemm.tflops/dtype=bf16"
    assert names == [f"{name} [training]", f"{name} [inference]", f"{name} [inference] #2"]


def test_a_waived_failure_is_neither_green_nor_red_and_names_its_person() -> None:
    told = host(findings=[finding(verdict="fail", waived="W-1 by A. Person")])
    case = cases(told)["node1.gpu3", "gemm/gemm.tflops/dtype=bf16"]
    assert case.is_skipped and "waived (W-1 by A. Person): fail" in case.result[0].message


def test_what_was_left_out_is_skipped() -> None:
    case = cases(host(left_out=[{"what": "peer_transfer", "why": "one GPU"}]))["node1", "left out/peer_transfer"]
    assert case.is_skipped and case.result[0].message == "one GPU"


@pytest.mark.parametrize("evil", EVIL)
def test_no_word_of_a_host_breaks_the_document(evil: str) -> None:
    told = host(reason=evil, rack=evil, trouble=[evil], versions={"a": evil}, findings=[
        finding(why=evil, action=evil, about=evil, point={evil: evil}, verdict="fail")])  # fmt: skip
    data = make(document(told))
    assert b"\x1b" not in data and b"<script" not in data
    assert [one.failures for one in suites(data)] == [1]


@given(documents())
def test_counts_are_those_of_the_cases(made: dict[str, Any]) -> None:
    root = ET.fromstring(make(made))
    for one in (root, *root):
        for name, tag in (("tests", "testcase"), ("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
            assert int(one.attrib[name]) == len(list(one.iter(tag)))


def test_a_measurement_of_another_step_is_not_that_of_the_case() -> None:
    data = make(document(host(measurements=[measurement(step="idle")])))
    assert b"700.5" not in data
