"""The rules of OCP Test & Validation output 2.0, as far as our emitter uses the format: forms, then what prose says.

Written from the specification (opencomputeproject/ocp-diag-core, json_spec); test_ocptv.py compares the names and the
words with those of the project's own library. Stricter than the published forms: a field that is not ours is refused.
"""

from __future__ import annotations

from typing import Any

from jsonschema import Draft202012Validator

STATUS = ("COMPLETE", "ERROR", "SKIP")
RESULT = ("PASS", "FAIL", "NOT_APPLICABLE")
DIAGNOSIS = ("PASS", "FAIL", "UNKNOWN")
SEVERITY = ("INFO", "DEBUG", "WARNING", "ERROR", "FATAL")
SOFTWARE = ("UNSPECIFIED", "FIRMWARE", "SYSTEM", "APPLICATION")
COMPARISON = (
    "EQUAL", "NOT_EQUAL", "LESS_THAN", "LESS_THAN_OR_EQUAL", "GREATER_THAN", "GREATER_THAN_OR_EQUAL", "REGEX_MATCH",
    "REGEX_NO_MATCH", "IN_SET", "NOT_IN_SET",
)  # fmt: skip
PART = ("UNSPECIFIED", "ASIC", "ASIC-SUBSYSTEM", "BUS", "FUNCTION", "CONNECTOR")
# The prose allows four pairs; the published forms allow nine.
PAIRS = {("SKIP", "NOT_APPLICABLE"), ("ERROR", "NOT_APPLICABLE"), ("COMPLETE", "PASS"), ("COMPLETE", "FAIL")}

TEXT = {"type": "string"}
ANY = {"type": "object"}


def closed(required: dict[str, Any], **optional: Any) -> dict[str, Any]:
    return {"type": "object", "properties": {**required, **optional}, "required": list(required),
            "additionalProperties": False}  # fmt: skip


def texts(names: str) -> dict[str, Any]:
    return dict.fromkeys(names.split(), TEXT)


def words(names: tuple[str, ...]) -> dict[str, Any]:
    return {"type": "string", "enum": list(names)}


def one_of(fields: dict[str, Any], **always: Any) -> dict[str, Any]:
    return {"oneOf": [closed({**always, name: form}) for name, form in fields.items()]}


SUBCOMPONENT = closed(texts("name"), type=words(PART), **texts("location version revision"))
WHOM = {"hardwareInfoId": TEXT, "subcomponent": SUBCOMPONENT}
# A set as an array is in the prose and not in the published form: a value is one text, number or boolean.
VALUE = {"type": ["string", "number", "boolean"]}
VALIDATOR = closed({"type": words(COMPARISON), "value": VALUE}, name=TEXT, metadata=ANY)
LOG = closed({"severity": words(SEVERITY), "message": TEXT})
ERROR = closed({"symptom": TEXT}, message=TEXT, softwareInfoIds={"type": "array", "items": TEXT})
HARDWARE = closed(
    texts("hardwareInfoId name"),
    **texts("computerSystem location odataId partNumber serialNumber manager manufacturer manufacturerPartNumber"),
    **texts("partType version revision"),
)
SOFTWARE_INFO = closed(
    texts("softwareInfoId name"), softwareType=words(SOFTWARE), **texts("computerSystem version revision")
)
DUT = closed(
    texts("dutInfoId"), name=TEXT, metadata=ANY, hardwareInfos={"type": "array", "items": HARDWARE},
    softwareInfos={"type": "array", "items": SOFTWARE_INFO},
)  # fmt: skip
START = closed({**texts("name version commandLine"), "parameters": ANY, "dutInfo": DUT}, metadata=ANY)
END = closed({"status": words(STATUS), "result": words(RESULT)})
MEASUREMENT = closed(
    {"name": TEXT, "value": VALUE}, unit=TEXT, metadata=ANY, validators={"type": "array", "items": VALIDATOR}, **WHOM
)
DIAGNOSED = closed({"verdict": TEXT, "type": words(DIAGNOSIS)}, message=TEXT, **WHOM)
IN_RUN = {"testRunStart": START, "testRunEnd": END, "log": LOG, "error": ERROR}
IN_STEP = {
    "testStepStart": closed({"name": TEXT}), "testStepEnd": closed({"status": words(STATUS)}), "log": LOG,
    "error": ERROR, "measurement": MEASUREMENT, "diagnosis": DIAGNOSED,
    "extension": closed({"name": TEXT, "content": ANY}),
}  # fmt: skip
ARTIFACT = one_of(
    {
        "schemaVersion": closed({"major": {"const": 2}, "minor": {"const": 0}}),
        "testRunArtifact": one_of(IN_RUN),
        "testStepArtifact": one_of(IN_STEP, testStepId=TEXT),
    },
    sequenceNumber={"type": "integer", "minimum": 0, "maximum": 2**31 - 1},
    timestamp={"type": "string", "pattern": r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)?$"},
)
LINE = Draft202012Validator(ARTIFACT)


def check(stream: list[dict[str, Any]]) -> None:
    """Every rule on one stream; an assertion names the line."""
    for number, one in enumerate(stream):
        wrong = sorted(LINE.iter_errors(one), key=lambda error: -len(error.path))
        assert not wrong, (number, wrong[0].message, one)
        assert one["sequenceNumber"] == number, "monotonic, from 0"
    assert "schemaVersion" in stream[0], "the first message"
    runs = [next(iter(one["testRunArtifact"])) for one in stream if "testRunArtifact" in one]
    assert (runs[0], runs[-1]) == ("testRunStart", "testRunEnd")
    assert runs.count("testRunStart") == runs.count("testRunEnd") == 1
    assert "testRunStart" in stream[1].get("testRunArtifact", {}) and "testRunEnd" in stream[-1]["testRunArtifact"]
    _steps([one["testStepArtifact"] for one in stream if "testStepArtifact" in one])
    _references(stream)
    end = stream[-1]["testRunArtifact"]["testRunEnd"]
    assert (end["status"], end["result"]) in PAIRS
    if end["result"] == "PASS":
        assert "FAIL" not in diagnoses(stream), "no passing run with a failing diagnosis"


def diagnoses(stream: list[dict[str, Any]]) -> list[str]:
    steps = [one["testStepArtifact"] for one in stream if "testStepArtifact" in one]
    return [one["diagnosis"]["type"] for one in steps if "diagnosis" in one]


def _steps(steps: list[dict[str, Any]]) -> None:
    """Each step is begun once, ended once, and says nothing outside."""
    begun: dict[str, str] = {}
    for one in steps:
        number = one["testStepId"]
        if "testStepStart" in one:
            assert number not in begun
            begun[number] = "open"
        assert begun[number] == "open", one
        if "testStepEnd" in one:
            begun[number] = "ended"
    assert set(begun.values()) <= {"ended"}


def _references(stream: list[dict[str, Any]]) -> None:
    """Identifiers are unique, and what is referred to was introduced."""
    dut = stream[1]["testRunArtifact"]["testRunStart"]["dutInfo"]
    for kind in ("hardware", "software"):
        numbers = [one[f"{kind}InfoId"] for one in dut[f"{kind}Infos"]]
        assert len(numbers) == len(set(numbers))
    known = {one["hardwareInfoId"] for one in dut["hardwareInfos"]}
    for one in stream:
        for told in one.get("testStepArtifact", {}).values():
            if isinstance(told, dict) and "hardwareInfoId" in told:
                assert told["hardwareInfoId"] in known
