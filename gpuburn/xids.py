"""Xids that were told during a run, as findings: by the class that xid.yml gives them for a new machine. Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from gpuburn import xid
from gpuburn.attribution import Attribution, address
from gpuburn.events import NVML_XID, XID
from gpuburn.finding import Finding, Verdict, finding
from gpuburn.identity import Event
from gpuburn.outcome import Outcome

TOLD_BY = (XID, NVML_XID)
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


def findings(events: Sequence[Event], where: Attribution, outcomes: Iterable[Outcome], profiles: tuple[str, ...],
             evidence: str) -> Iterable[Finding]:  # fmt: skip
    """One finding per Xid.

    The program is ours and the same on every device: an Xid that suspects the program and repeats on one device alone
    is that device's. What repeats on one device may weigh more than once (xid.yml).
    """
    told = [event for event in events if event.code in TOLD_BY]
    kills = [(one.started, one.started + one.seconds) for one in outcomes if one.probe == KILLS]
    by_device: dict[str, int] = {}
    for event in told:
        if _classed(event, kills)[0] == "app":
            by_device[_part(event)] = by_device.get(_part(event), 0) + 1
    often = Counter((_part(event), one.entry) for event in told if (one := _entry(event)))
    for event in told:
        kind, why = _repeated(event, often, *_classed(event, kills))
        if kind == "app" and set(by_device) == {_part(event)} and by_device[_part(event)] > 1:
            kind, why = "reject", f"{why}; {by_device[_part(event)]} times, on this device alone"
        code, verdict, marginal = VERDICTS[kind]
        text = f"{where.words(event)}: {event.text}: {why}"
        yield finding(code, "host", verdict, text, "event", profiles, marginal=marginal, step=where.step(event),
                      subject=where.subject(event), evidence=where.evidence(event, evidence))  # fmt: skip


def _repeated(event: Event, often: Mapping[tuple[str, int], int], kind: str, why: str) -> tuple[str, str]:
    """The class of an event after how often its entry was told of this GPU in the run (xid.yml, repeats)."""
    one = _entry(event)
    count = often[_part(event), one.entry] if one else 0
    if one is None or one.repeats is None or count <= one.repeats.over or kind == "reject":
        return kind, why
    return one.repeats.rule, f"{why}; {count} times on this device, and more than {one.repeats.over} are too many"


def _entry(event: Event) -> xid.Xid | None:
    match = NUMBER.search(event.text)
    return xid.load().get(int(match[1])) if match else None


def _part(event: Event) -> str:
    return str(address(event.about) or event.about)


def _classed(event: Event, kills: list[tuple[float, float]]) -> tuple[str, str]:
    match = NUMBER.search(event.text)
    if match is None:
        return "unknown", "no number in it"
    number = int(match[1])
    if number in AFTER_A_KILL and any(start <= event.at <= end for start, end in kills):
        return "info", "expected where a step kills its own ranks"
    kind, meaning, action = xid.classify(number, event.text)
    return kind, f"{meaning}; NVIDIA: {action}" if action else meaning
