"""Xids that the kernel told during a run, as findings: by the class that xid.yml gives them for a new machine. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from gpuburn import xid
from gpuburn.finding import Finding, Verdict, finding
from gpuburn.identity import Event
from gpuburn.outcome import Outcome

CODE = "kernel.xid"
NUMBER = re.compile(r"Xid (\d{1,6})")
KILLS = "resume"  # the probe that ends its own ranks with SIGKILL
AFTER_A_KILL = (43, 45)  # the channel of a killed process is reset and removed (NVIDIA, Xid errors, 43 and 45)
VERDICTS = {
    "reject": ("xid.reject", Verdict.FAIL, False),
    "app": ("xid.app", Verdict.INCOMPLETE, False),
    "warn": ("xid.warn", Verdict.PASS, True),
    "info": ("xid.info", Verdict.NOT_APPLICABLE, False),
    "ignore": ("xid.info", Verdict.NOT_APPLICABLE, False),
    "unknown": ("xid.unknown", Verdict.INCOMPLETE, False),
}


def findings(events: Sequence[Event], outcomes: Iterable[Outcome], profiles: tuple[str, ...], evidence: str
             ) -> Iterable[Finding]:  # fmt: skip
    """One finding per Xid that the kernel told.

    The program is ours and the same on every device: an Xid that suspects the program and repeats on one device alone
    is that device's.
    """
    told = [event for event in events if event.code == CODE]
    kills = [(one.started, one.started + one.seconds) for one in outcomes if one.probe == KILLS]
    by_device: dict[str, int] = {}
    for event in told:
        if _classed(event, kills)[0] == "app":
            by_device[event.about] = by_device.get(event.about, 0) + 1
    for event in told:
        kind, why = _classed(event, kills)
        if kind == "app" and set(by_device) == {event.about} and by_device[event.about] > 1:
            kind, why = "reject", f"{why}; {by_device[event.about]} times, on this device alone"
        code, verdict, marginal = VERDICTS[kind]
        text = f"PCI {event.about}: {event.text}: {why}"
        yield finding(code, "host", verdict, text, "event", profiles, marginal=marginal, evidence=evidence)


def _classed(event: Event, kills: list[tuple[float, float]]) -> tuple[str, str]:
    match = NUMBER.search(event.text)
    if match is None:
        return "unknown", "no number in it"
    number = int(match[1])
    if number in AFTER_A_KILL and any(start <= event.at <= end for start, end in kills):
        return "info", "expected where a step kills its own ranks"
    kind, meaning, action = xid.classify(number, event.text)
    return kind, f"{meaning}; NVIDIA: {action}" if action else meaning
