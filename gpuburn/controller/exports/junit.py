"""JUnit XML, which every CI reads: a suite per host, a case per finding, and the host's decision as a case of its own.

A case is green only for a pass. What was not proven is an error, so that no suite of a host that is not good is green.
"""

from __future__ import annotations

import datetime
import xml.etree.ElementTree as ET  # written here, never read
from collections import Counter
from collections.abc import Iterator
from typing import Any

from gpuburn.controller.export import (
    Document,
    Format,
    Host,
    at_point,
    clean,
    conditions,
    good,
    judged,
    rejected,
    said,
    waived,
)

COUNTED = {"tests": "testcase", "failures": "failure", "errors": "error", "skipped": "skipped"}
SUITE = (
    "rack", "unit", "kind", "level", "environment", "sku", "delivery", "decision", "reason", "reached", "waived",
    "person_decisions",
)  # fmt: skip
NUMBERS = ("value", "unit", "low", "high", "count")


def make(document: Document) -> bytes:
    suites = [_suite(host) for host in document["hosts"]] or [_nobody()]
    root = _element("testsuites", name=f"gpuburn {document['run']}", **_counts(suites))
    head = ET.tostring(root).removesuffix(b" />")
    return b"".join([
        b'<?xml version="1.0" encoding="UTF-8"?>\n', head, b">\n",
        *(ET.tostring(one) + b"\n" for one in suites), b"</testsuites>\n",
    ])  # fmt: skip


def _suite(host: Host) -> ET.Element:
    suite = _element("testsuite", name=host["host"], hostname=host["host"])
    told = {name: host.get(name) for name in SUITE} | {"conditions": conditions(host)}
    _properties(suite, told | _versions(host))
    cases = [*_decisions(host), *_nothing(host), *_findings(host), *_left_out(host)]
    suite.extend(cases)
    suite.attrib.update(_counts([suite]))
    if host.get("started") is not None:
        suite.set("time", f"{max((host.get('ended') or host['started']) - host['started'], 0.0):.3f}")
        suite.set("timestamp", _moment(host["started"]))
    return suite


def _nobody() -> ET.Element:
    """A report of no host proves nothing about any."""
    suite = _element("testsuite", name="no host")
    suite.append(_case("no host", "decision", ("error", "no host is in this report", "untested")))
    suite.attrib.update(_counts([suite]))
    return suite


def _decisions(host: Host) -> Iterator[ET.Element]:
    """The host's decision, then one per profile."""
    yield _case(host["host"], "decision", _decided(host["decision"], host["reason"], good(host)))
    for profile, one in host["by_profile"].items():
        fine = good({**host, "decision": one["decision"]})
        told = {"verdict": one.get("verdict", "")}
        yield _case(host["host"], f"decision/{profile}", _decided(one["decision"], one["because"], fine), told)


def _decided(decision: str, because: str, fine: bool) -> tuple[str, str, str] | None:
    if fine:
        return None
    return ("failure" if rejected(decision) else "error", f"{decision}: {because}", decision)


def _nothing(host: Host) -> Iterator[ET.Element]:
    """A host without a judgement says so, however its decision reads."""
    if not judged(host):
        why = f"no judgement: {host['reached']}" if host["reached"] != "judged" else "nothing was demanded of it"
        yield _case(host["host"], "result", ("error", why, host["reached"]), text=said(host["trouble"]))


def _findings(host: Host) -> Iterator[ET.Element]:
    numbers = {(one["step"], one["name"], one["subject"], at_point(one["point"])): one for one in host["measurements"]}
    seen: dict[tuple[str, str], int] = {}
    for one in host["findings"]:
        where = host["host"] if one["subject"] == "host" else f"{host['host']}.{one['subject']}"
        name = _name(host, one)
        seen[where, name] = again = seen.get((where, name), 0) + 1
        taken = numbers.get((one["step"], one["about"], one["subject"], at_point(one["point"])), {})
        told = {"code": one["code"], "profiles": " ".join(one["profiles"]), "marginal": one["marginal"] or None,
                "severity": one["severity"], **{key: taken.get(key) for key in NUMBERS}}  # fmt: skip
        text = "\n".join(part for part in (one["action"], one["evidence"]) if part)
        yield _case(where, f"{name} #{again}" if again > 1 else name, _result(one), told, text)


def _name(host: Host, one: dict[str, Any]) -> str:
    """step/about/point, with the profiles where they are not all of the host's: the same name run after run."""
    parts = dict.fromkeys(part for part in (one["step"], one["about"], at_point(one["point"])) if part)
    some = "" if list(one["profiles"]) == list(host["profiles"]) else f" [{' '.join(one['profiles'])}]"
    return "/".join(parts) + some


def _result(one: dict[str, Any]) -> tuple[str, str, str] | None:
    """How a finding ends its case; a verdict that is not known is an error."""
    verdict, why, code = one["verdict"], one["why"], one["code"]
    if person := waived(one):
        return "skipped", f"waived ({person}): {verdict}: {why}", code
    if verdict == "pass":
        return None
    return {"fail": "failure", "not_applicable": "skipped"}.get(verdict, "error"), why, code


def _left_out(host: Host) -> Iterator[ET.Element]:
    for what, why in dict.fromkeys((one["what"], one["why"]) for one in host.get("left_out", [])):
        yield _case(host["host"], f"left out/{what}", ("skipped", why, "left_out"))


def _case(
    where: str, name: str, result: tuple[str, str, str] | None, told: dict[str, Any] | None = None, text: str = ""
) -> ET.Element:
    case = _element("testcase", classname=where, name=name)
    _properties(case, told or {})
    if result:
        kind, message, code = result
        ended = _element(kind, message=message, type=code)
        ended.text = clean(text)
        case.append(ended)
    return case


def _properties(parent: ET.Element, told: dict[str, Any]) -> None:
    values = {name: repr(value) if isinstance(value, float) else said(value) for name, value in told.items()}
    kept = [_element("property", name=name, value=value) for name, value in values.items() if value]
    if kept:
        ET.SubElement(parent, "properties").extend(kept)


def _versions(host: Host) -> dict[str, Any]:
    return {f"version.{name}": value for name, value in host.get("versions", {}).items()}


def _counts(suites: list[ET.Element]) -> dict[str, str]:
    tags = Counter(one.tag for suite in suites for one in suite.iter())
    return {name: str(tags[tag]) for name, tag in COUNTED.items()}


def _element(tag: str, **attributes: str) -> ET.Element:
    return ET.Element(tag, {name: clean(value) for name, value in attributes.items()})


def _moment(at: float) -> str:
    try:
        return datetime.datetime.fromtimestamp(at, datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%S")
    except (OverflowError, ValueError, OSError):
        return "1970-01-01T00:00:00"


FORMAT = Format("junit", "junit.xml", "JUnit XML: a suite per host, a case per finding", make)
