"""OCPTV: the format's rules on every stream, and that nothing unproven becomes a PASS on the way."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import ocptv.output.objects as published
import pytest
from hypothesis import given

from gpuburn.controller.exports.ocptv import make

from . import ocptv_rules as rules
from .made import BAD, EVIL, GOOD, document, documents, finding, host, limit, measurement, silent, streams


def stream(*hosts: dict[str, Any], **changed: Any) -> list[dict[str, Any]]:
    [one] = streams(make(document(*hosts, **changed)))
    rules.check(one)
    return one


def said(name: str, *hosts: dict[str, Any], step: str = "gemm", **changed: Any) -> list[dict[str, Any]]:
    """What was said under a name in the step; step "": of the run itself."""
    found, here = [], ""
    for one in stream(*hosts, **changed):
        told = one.get("testStepArtifact" if step else "testRunArtifact", {})
        here = told["testStepStart"]["name"] if "testStepStart" in told else here
        if name in told and here == step:
            found.append(told[name])
    return found


@given(documents())
def test_every_stream_keeps_every_rule(made: dict[str, Any]) -> None:
    data = make(made)
    assert data.isascii()
    for line in data.splitlines():
        json.loads(line, parse_constant=lambda word: pytest.fail(f"{word} is no JSON"))
    found = streams(data)
    assert len(found) == len(made["hosts"]), "one stream per host"
    for one in found:
        rules.check(one)


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (rules.STATUS, published.TestStatus), (rules.RESULT, published.TestResult),
        (rules.DIAGNOSIS, published.DiagnosisType), (rules.SEVERITY, published.LogSeverity),
        (rules.SOFTWARE, published.SoftwareType), (rules.COMPARISON, published.ValidatorType),
        (rules.PART, published.SubcomponentType),
    ],
)  # fmt: skip
def test_the_words_of_the_rules_are_those_of_the_projects_library(ours: tuple[str, ...], theirs: Any) -> None:
    assert set(ours) == {one.value for one in theirs}


@pytest.mark.parametrize(
    ("form", "theirs"),
    [
        (rules.START, published.RunStart), (rules.END, published.RunEnd), (rules.DUT, published.DutInfo),
        (rules.SOFTWARE_INFO, published.SoftwareInfo), (rules.HARDWARE, published.HardwareInfo),
        (rules.MEASUREMENT, published.Measurement), (rules.VALIDATOR, published.Validator),
        (rules.DIAGNOSED, published.Diagnosis), (rules.ERROR, published.Error), (rules.LOG, published.Log),
        (rules.SUBCOMPONENT, published.Subcomponent), (rules.IN_STEP["extension"], published.Extension),
    ],
)  # fmt: skip
def test_the_fields_of_the_rules_are_those_of_the_projects_library(form: dict[str, Any], theirs: Any) -> None:
    """Where a field holds an object, the library names the object instead of the field."""
    named = {field.metadata.get("spec_field", field.name) for field in dataclasses.fields(theirs)}
    objects = {"dut_info": "dutInfo"}
    # The specification's own table has both; the library 0.1.7 does not.
    newer = {published.HardwareInfo: {"partType"}, published.RunStart: {"metadata"}}.get(theirs, set())
    assert set(form["properties"]) <= {objects.get(name, name) for name in named} | newer


@pytest.mark.parametrize(("status", "result"), [("SKIP", "PASS"), ("ERROR", "FAIL"), ("COMPLETE", "NOT_APPLICABLE")])
def test_the_rules_refuse_a_pair_that_only_the_prose_forbids(status: str, result: str) -> None:
    broken = stream(host())
    broken[-1]["testRunArtifact"]["testRunEnd"] = {"status": status, "result": result}
    with pytest.raises(AssertionError):
        rules.check(broken)


@pytest.mark.parametrize(
    ("decision", "status", "result", "type_"),
    [
        *((one, "COMPLETE", "PASS", "PASS") for one in GOOD),
        ("rejected", "COMPLETE", "FAIL", "FAIL"),
        ("trial failed", "COMPLETE", "FAIL", "FAIL"),
        ("undecided", "ERROR", "NOT_APPLICABLE", "UNKNOWN"),
        ("untested", "SKIP", "NOT_APPLICABLE", "UNKNOWN"),
        ("a word of tomorrow", "ERROR", "NOT_APPLICABLE", "UNKNOWN"),
    ],
)
def test_a_decision_ends_the_run(decision: str, status: str, result: str, type_: str) -> None:
    told = stream(host("node1", decision))
    assert told[-1]["testRunArtifact"]["testRunEnd"] == {"status": status, "result": result}
    [diagnosis] = said("diagnosis", host("node1", decision), step="decision")
    assert (diagnosis["type"], diagnosis["message"]) == (type_, f"because {decision}")


def test_conditional_is_a_pass_that_warns() -> None:
    [diagnosis] = said("diagnosis", host("node1", "conditional"), step="decision")
    [log] = said("log", host("node1", "conditional"), step="decision")
    assert (diagnosis["verdict"], log["severity"]) == ("host-conditional-degraded", "WARNING")


@pytest.mark.parametrize(
    ("changed", "verdict", "type_"),
    [
        ({}, "gemm-tflops-pass", "PASS"),
        ({"marginal": True}, "gemm-tflops-degraded", "PASS"),
        ({"verdict": "fail", "code": "limit.failed"}, "gemm-tflops-fail", "FAIL"),
        ({"verdict": "fail", "waived": "W-1 by A. Person"}, "gemm-tflops-waived", "UNKNOWN"),
        ({"verdict": "incomplete", "code": "limit.unmeasured"}, "gemm-tflops-unknown", "UNKNOWN"),
        ({"verdict": "a word of tomorrow"}, "gemm-tflops-unknown", "UNKNOWN"),
    ],
)
def test_a_finding_is_a_diagnosis_of_its_device(changed: dict[str, Any], verdict: str, type_: str) -> None:
    told = host("node1", "rejected", findings=[finding(**changed)])
    [diagnosis] = said("diagnosis", told)
    assert (diagnosis["verdict"], diagnosis["type"], diagnosis["hardwareInfoId"]) == (verdict, type_, "1")
    warned = [one["severity"] for one in said("log", told)]
    assert warned == (["WARNING"] if verdict.endswith(("degraded", "waived")) else [])


@pytest.mark.parametrize("code", ["step.errored", "step.never_ran", "guard.tripped", "host.no_result"])
def test_trouble_of_the_tool_is_an_error_and_never_a_diagnosis(code: str) -> None:
    told = host("node1", "undecided", findings=[finding(verdict="incomplete", code=code)])
    [error] = said("error", told)
    assert error["symptom"] == code.replace(".", "-").replace("_", "-")
    assert said("diagnosis", told) == []


def test_a_temperature_that_failed_a_guard_is_a_diagnosis_of_the_hardware() -> None:
    told = host("node1", "rejected", findings=[finding(verdict="fail", code="guard.tripped", about="temperature")])
    assert [one["type"] for one in said("diagnosis", told)] == ["FAIL"]


def test_what_does_not_apply_is_a_log() -> None:
    told = host(findings=[finding(), finding(verdict="not_applicable", why="no fp8")])
    assert [one["message"] for one in said("log", told)] == ["not applicable: gemm.tflops: dtype=bf16 no fp8"]


def test_a_limit_is_one_comparison_and_never_a_set() -> None:
    limits = [limit(max=900.0), limit(about="gemm.other"), limit(when={**limit()["when"], "steps": ["idle"]}),
              limit(when={**limit()["when"], "point": {"dtype": "fp8"}}), limit(min=None)]  # fmt: skip
    [one] = said("measurement", host(), limits={"criteria": limits})
    assert [(each["type"], each["value"]) for each in one["validators"]] == [
        ("GREATER_THAN_OR_EQUAL", 600.0), ("LESS_THAN_OR_EQUAL", 900.0),
    ]  # fmt: skip
    assert one["metadata"] == {"low": 699.0, "high": 702.0, "count": 12, "point": {"dtype": "bf16"}}


def test_a_measurement_of_a_pair_is_of_the_host_with_the_pair_named() -> None:
    [one] = said("measurement", host(measurements=[measurement(subject="gpu0>gpu1")]))
    assert (one["hardwareInfoId"], one["subcomponent"]["name"]) == ("0", "gpu0>gpu1")


def test_the_device_under_test_has_its_serial_its_place_and_its_part_type() -> None:
    dut = stream(host())[1]["testRunArtifact"]["testRunStart"]["dutInfo"]
    itself, gpu = dut["hardwareInfos"]
    assert (itself["serialNumber"], itself["location"], itself["partType"]) == ("SN-HOST-1", "r1 7", "SYSTEM")
    assert (gpu["serialNumber"], gpu["location"], gpu["partType"]) == ("SN-GPU-1", "0000:1a:00.0", "GPU")
    assert dut["metadata"]["gpu3.uuid"] == "GPU-1"
    assert {one["name"]: one["softwareType"] for one in dut["softwareInfos"]} == {
        "torch": "APPLICATION", "os.kernel": "SYSTEM",
    }  # fmt: skip


def test_what_is_not_known_of_a_part_is_absent() -> None:
    bare = {"name": "gpu0", "kind": "cuda", "pci": "", "uuid": "", "serial": ""}
    dut = stream(host(devices=[bare], identity={}))[1]["testRunArtifact"]["testRunStart"]["dutInfo"]
    assert all("serialNumber" not in one for one in dut["hardwareInfos"])


@pytest.mark.parametrize("decision", BAD)
def test_a_host_without_a_result_has_a_stream_with_an_error(decision: str) -> None:
    [error] = said("error", silent("node9", decision, "lost"), step="")
    assert error == {"symptom": "no-judgement-lost", "message": f"because {decision}"}


@pytest.mark.parametrize(
    ("status", "ends"),
    [("completed", "COMPLETE"), ("errored", "ERROR"), ("timed_out", "ERROR"), ("unkillable", "ERROR"),
     ("aborted", "SKIP"), (None, "SKIP"), ("a word of tomorrow", "ERROR")],
)  # fmt: skip
def test_a_step_ends_as_it_went(status: str | None, ends: str) -> None:
    told = host("node1", "undecided", steps=[{"step": "gemm", "status": status, "started": None, "seconds": None}])
    assert said("testStepEnd", told) == [{"status": ends}]


def test_a_run_never_ends_better_than_its_diagnoses_or_without_any() -> None:
    for odd in (host(findings=[finding(verdict="fail")]), host(findings=[])):
        assert stream(odd)[-1]["testRunArtifact"]["testRunEnd"]["result"] != "PASS"


@pytest.mark.parametrize("evil", EVIL)
def test_words_of_a_host_are_cleaned_at_every_depth(evil: str) -> None:
    told = stream(
        host(
            reason=evil,
            trouble=[evil],
            findings=[finding(about=evil, subject=evil, why=evil)],
            left_out=[{"what": evil, "why": evil}],
            measurements=[measurement(point={evil: evil})],
        )
    )
    assert not set("\x1b\u202e\ufffe\x9b\r") & set(repr(told)) and "\\x1b" not in repr(told)


@pytest.mark.parametrize("at", [1e300, -1e300, 1e18])
def test_a_moment_that_no_calendar_has_is_that_of_the_report(at: float) -> None:
    assert stream(host(started=at))[0]["timestamp"] == "2026-01-01T00:00:00.000000Z"
