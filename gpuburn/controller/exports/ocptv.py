"""OCP Test & Validation output 2.0 as JSON lines: one complete stream per host, from schemaVersion to testRunEnd.

The format has no word for marginal or not proven: docs/exports.md says what becomes of them. Only a pass is a PASS.
"""

from __future__ import annotations

import datetime
import json
import re
from collections.abc import Iterator
from typing import Any

from gpuburn.controller.export import Document, Format, Host, at_point, clean, good, judged, rejected, said, waived

Artifact = dict[str, Any]
TOOL = ("step.", "guard.", "host.")  # codes of what kept the tool from measuring: an error, never a diagnosis
STEP_STATUS = {"completed": "COMPLETE", "aborted": "SKIP", None: "SKIP"}
FIRMWARE = re.compile(r"firmware|vbios|bios|inforom", re.IGNORECASE)
SYSTEM = re.compile(r"driver|kernel|release", re.IGNORECASE)
PARAMETERS = ("delivery", "kind", "level", "environment", "sku")
DETAILS = (
    "decision", "reason", "reached", "by_profile", "conditions", "waived", "person_decisions", "left_out", "trouble",
)  # fmt: skip


def make(document: Document) -> bytes:
    lines = (
        {**artifact, "sequenceNumber": number, "timestamp": _moment(at, document["issued"])}
        for host in document["hosts"]
        for number, (artifact, at) in enumerate(Stream(document, host).artifacts())
    )
    return b"".join(json.dumps(_cleaned(one), allow_nan=False).encode() + b"\n" for one in lines)


class Stream:
    """What is said of one host, in order, each with its moment."""

    def __init__(self, document: Document, host: Host) -> None:
        self.document, self.host = document, host
        self.began = host.get("started")
        self.devices = {one["name"]: str(number) for number, one in enumerate(host.get("devices", []), 1)}
        self.limits: dict[tuple[str, str], list[dict[str, Any]]] = {}
        for limit in document.get("limits", {}).get(host.get("limits", ""), []):
            for step in limit["when"]["steps"]:
                self.limits.setdefault((limit["about"], step), []).append(limit)
        self.findings, self.measurements = _by_step(host["findings"]), _by_step(host["measurements"])

    def artifacts(self) -> Iterator[tuple[Artifact, float | None]]:
        host, ended = self.host, self.host.get("ended")
        yield {"schemaVersion": {"major": 2, "minor": 0}}, self.began
        yield _run("testRunStart", self._start()), self.began
        for trouble in host["trouble"]:
            yield _run("log", {"severity": "WARNING", "message": trouble}), self.began
        if not judged(host):
            said_so = {"symptom": _slug(f"no-judgement-{host['reached']}"), "message": host["reason"]}
            yield _run("error", said_so), self.began
        steps = self._steps()
        for number, name in enumerate(steps):
            yield from self._step(str(number), name)
        yield from ((one, ended) for one in self._decision(str(len(steps))))
        yield _run("testRunEnd", self._end()), ended

    def _start(self) -> Artifact:
        told = {name: self.host[name] for name in PARAMETERS}
        parameters = {"run": self.document["run"], **told, "profiles": " ".join(self.host["profiles"])}
        # Which command line started the run is not in the report, and not made up.
        return {"name": "gpuburn", "version": self.document["version"], "commandLine": "", "parameters": parameters,
                "dutInfo": self._dut()}  # fmt: skip

    def _dut(self) -> Artifact:
        host, name = self.host, self.host["host"]
        identity, devices = host.get("identity", {}), host.get("devices", [])
        itself = {"hardwareInfoId": "0", "name": name, "partType": "SYSTEM", "computerSystem": name,
                  "location": f"{host['rack']} {host['unit']}".strip(), "manufacturer": identity.get("dmi.sys_vendor"),
                  "serialNumber": identity.get("dmi.product_serial")}  # fmt: skip
        parts = [
            {"hardwareInfoId": self.devices[one["name"]], "name": one["name"], "location": one["pci"],
             "serialNumber": one["serial"], "partType": "GPU" if one["name"].startswith("gpu") else "CPU",
             "computerSystem": name}
            for one in devices
        ]  # fmt: skip
        metadata = {"rack": host["rack"], "unit": host["unit"], "hostname": host.get("hostname")}
        metadata |= {f"{one['name']}.uuid": one["uuid"] for one in devices}
        return {"dutInfoId": "0", "name": name, "metadata": _given(metadata), "softwareInfos": self._software(),
                "hardwareInfos": [_given(one) for one in [itself, *parts]]}  # fmt: skip

    def _software(self) -> list[Artifact]:
        named = {
            key: (value, _software_type(key) or "APPLICATION") for key, value in self.host.get("versions", {}).items()
        }
        identity = self.host.get("identity", {}).items()
        named |= {key: (value, _software_type(key)) for key, value in identity if _software_type(key)}
        return [
            _given({"softwareInfoId": str(number), "name": name or "unnamed", "version": version, "softwareType": kind,
                    "computerSystem": self.host["host"]})
            for number, (name, (version, kind)) in enumerate(named.items())
        ]  # fmt: skip

    def _steps(self) -> list[str]:
        """Planned steps in order, then any other that something was said about; "" is what concerns the host."""
        named = [*self.findings, *self.measurements]
        planned = [one["step"] for one in self.host.get("steps", [])]
        return list(dict.fromkeys([*([""] if "" in named else []), *planned, *named]))

    def _step(self, number: str, name: str) -> Iterator[tuple[Artifact, float | None]]:
        planned: dict[str, Any] = next((one for one in self.host.get("steps", []) if one["step"] == name), {})
        began = planned.get("started") or self.began
        ended = began if began is None else began + (planned.get("seconds") or 0.0)
        yield _in(number, "testStepStart", {"name": name or "host"}), began
        for one in self.measurements.get(name, []):
            yield _in(number, "measurement", self._measurement(one)), ended
        for one in self.findings.get(name, []):
            yield from ((said_so, ended) for said_so in self._finding(number, one))
        status = (
            STEP_STATUS.get(planned.get("status"), "ERROR") if name and planned else "ERROR" if name else "COMPLETE"
        )
        yield _in(number, "testStepEnd", {"status": status}), ended

    def _measurement(self, one: dict[str, Any]) -> Artifact:
        metadata = {key: one[key] for key in ("low", "high", "count", "point")}
        told = {"name": one["name"], "value": one["value"], "unit": one["unit"], "metadata": metadata}
        validators = list(self._validators(one))
        return {**told, **self._whom(one["subject"]), **({"validators": validators} if validators else {})}

    def _validators(self, one: dict[str, Any]) -> Iterator[Artifact]:
        """The limits that hold at this step and point: one comparison each, never a set."""
        point = set(one["point"].items())
        for limit in self.limits.get((one["name"], one["step"]), []):
            when = limit["when"]
            if not set(when["point"].items()) <= point:
                continue
            told = {"profiles": " ".join(when["profiles"]), "because": limit["because"], "source": limit["source"],
                    "confidence": limit["confidence"]}  # fmt: skip
            for bound, kind in (("min", "GREATER_THAN_OR_EQUAL"), ("max", "LESS_THAN_OR_EQUAL")):
                if limit[bound] is not None:
                    yield {"name": f"{limit['about']} {bound}", "type": kind, "value": limit[bound], "metadata": told}

    def _finding(self, number: str, one: dict[str, Any]) -> Iterator[Artifact]:
        """A finding as a diagnosis, an error or a log. Only a pass is a PASS."""
        why = " ".join(part for part in (at_point(one["point"]), one["why"]) if part)
        verdict, code, person = one["verdict"], one["code"], waived(one)
        if verdict == "not_applicable":
            yield _in(number, "log", {"severity": "INFO", "message": f"not applicable: {one['about']}: {why}"})
            return
        if verdict not in ("pass", "fail") and code.startswith(TOOL):
            yield _in(number, "error", {"symptom": _slug(code), "message": f"{one['subject']}: {one['about']}: {why}"})
            return
        kind, suffix = {"pass": ("PASS", "pass"), "fail": ("FAIL", "fail")}.get(verdict, ("UNKNOWN", "unknown"))
        if person:
            kind, suffix = "UNKNOWN", "waived"
        elif one["marginal"] and kind == "PASS":
            suffix = "degraded"
        if suffix in ("waived", "degraded"):
            yield _in(number, "log", {"severity": "WARNING", "message": f"{one['about']} {suffix} {person}: {why}"})
        diagnosis = {"verdict": f"{_slug(one['about'])}-{suffix}", "type": kind, "message": why}
        yield _in(number, "diagnosis", {**diagnosis, **self._whom(one["subject"])})

    def _decision(self, number: str) -> Iterator[Artifact]:
        """The host's decision as a step of its own."""
        host, decision = self.host, self.host["decision"]
        kind = "PASS" if self._end()["result"] == "PASS" else "FAIL" if rejected(decision) else "UNKNOWN"
        degraded = kind == "PASS" and decision == "conditional"
        yield _in(number, "testStepStart", {"name": "decision"})
        if degraded:
            yield _in(number, "log", {"severity": "WARNING", "message": f"{decision}: {host['reason']}"})
        verdict = f"host-{_slug(decision)}{'-degraded' if degraded else ''}"
        told = {"verdict": verdict, "type": kind, "message": host["reason"], "hardwareInfoId": "0"}
        yield _in(number, "diagnosis", told)
        content = {name: host[name] for name in DETAILS if name in host}
        yield _in(number, "extension", {"name": "gpuburn.decision", "content": content})
        yield _in(number, "testStepEnd", {"status": "COMPLETE"})

    def _end(self) -> Artifact:
        """One of the four legal pairs of status and result; never better than the diagnoses before it."""
        host, decision = self.host, self.host["decision"]
        if rejected(decision) or (good(host) and any(_failed(one) for one in host["findings"])):
            return {"status": "COMPLETE", "result": "FAIL"}
        if good(host) and judged(host):
            return {"status": "COMPLETE", "result": "PASS"}
        return {"status": "SKIP" if decision == "untested" else "ERROR", "result": "NOT_APPLICABLE"}

    def _whom(self, subject: str) -> Artifact:
        """The part of the host that is spoken of; a pair or a group is named under the host."""
        if subject == "host":
            return {"hardwareInfoId": "0"}
        if subject in self.devices:
            return {"hardwareInfoId": self.devices[subject]}
        return {"hardwareInfoId": "0", "subcomponent": {"name": subject, "type": "UNSPECIFIED"}}


def _by_step(told: list[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = {}
    for one in told:
        found.setdefault(one["step"], []).append(one)
    return found


def _failed(one: dict[str, Any]) -> bool:
    return one["verdict"] == "fail" and not waived(one)


def _run(name: str, content: Artifact) -> Artifact:
    return {"testRunArtifact": {name: content}}


def _in(number: str, name: str, content: Artifact) -> Artifact:
    return {"testStepArtifact": {"testStepId": number, name: content}}


def _given(told: Artifact) -> Artifact:
    """What is not known is left away."""
    return {key: said(value) for key, value in told.items() if said(value)}


def _software_type(name: str) -> str:
    return "FIRMWARE" if FIRMWARE.search(name) else "SYSTEM" if SYSTEM.search(name) else ""


def _slug(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-") or "unnamed"


def _cleaned(value: Any) -> Any:
    if isinstance(value, dict):
        return {clean(key): _cleaned(one) for key, one in value.items()}
    if isinstance(value, list):
        return [_cleaned(one) for one in value]
    return clean(value) if isinstance(value, str) else value


def _moment(at: float | None, otherwise: float) -> str:
    """UTC; the report's own time where the host named none, or one that no calendar has."""
    for one in (at, otherwise, 0.0):
        try:
            if one is not None:
                told = datetime.datetime.fromtimestamp(one, datetime.timezone.utc)
                return told.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        except (OverflowError, ValueError, OSError):
            continue
    raise AssertionError("the epoch is in every calendar")


FORMAT = Format("ocptv", "ocptv.jsonl", "OCP Test & Validation 2.0, JSON lines: a stream per host", make)
