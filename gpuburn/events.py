"""What happened beside the work, as findings: by the class that kernel.yml gives each kind for a new machine. Pure.

Xids are judged by their numbers in xids.py; here stands what is told twice, and all that is no Xid.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from gpuburn import kernel, xid
from gpuburn.attribution import Attribution, same
from gpuburn.finding import Finding, Verdict, finding
from gpuburn.identity import Event
from gpuburn.kernel import Rule

XID, NVML_XID, NVML_DBE = "kernel.xid", "nvml.xid", "nvml.dbe"
NVML_ABSENT, NVML_LOST, NVML_UNREADABLE, NVML_MORE = "nvml.absent", "nvml.lost", "nvml.unreadable", "nvml.more"
OFF_BUS, MORE, LOST = "kernel.off_bus", "kernel.more", "kernel.lost"
WITHIN = 5.0  # seconds: NVML's and the kernel's word of one Xid are this near; two Xids of one cause may be as well
FALLEN, DOUBLE_BIT = 79, 48  # Xids that say the same as another event does
BESIDE: dict[str, Rule] = {
    MORE: "info", LOST: "disturbed", NVML_DBE: "reject", NVML_ABSENT: "info", NVML_MORE: "info",
    NVML_LOST: "disturbed", NVML_UNREADABLE: "disturbed",
}  # fmt: skip
Weight = Literal["fail", "incomplete", ""]  # what one event alone leads to
WEIGHTS: dict[str, Weight] = {  # by the class of an event or of an Xid
    "reject": "fail", "disturbed": "incomplete", "app": "incomplete", "unknown": "incomplete",
}  # fmt: skip
VERDICTS: dict[Rule, tuple[str, Verdict, bool]] = {
    "reject": ("event.reject", Verdict.FAIL, False),
    "disturbed": ("event.disturbed", Verdict.INCOMPLETE, False),
    "unknown": ("event.unknown", Verdict.PASS, True),
    "warn": ("event.warn", Verdict.PASS, True),
    "count": ("event.corrected", Verdict.PASS, False),
    "info": ("event.info", Verdict.NOT_APPLICABLE, False),
}


@dataclass(slots=True)
class _Many:
    """Events of one code about one part in one step: the first of them, and how many there were."""

    first: Event
    count: int = 0
    last: float = 0.0


def distinct(events: Sequence[Event]) -> list[Event]:
    """The events without those that say again, of the same device and moment, what another says better."""
    free: dict[int | None, list[Event]] = {}
    spoken: dict[int | None, list[Event]] = {}
    for one in events:
        if one.code in (XID, NVML_XID):
            spoken.setdefault(_number(one), []).append(one)
        if one.code == XID:
            free.setdefault(_number(one), []).append(one)
    kept = []
    for one in events:
        if one.code == NVML_XID:
            others = free.get(_number(one), [])
            known = next((other for other in others if _together(one, other)), None)
            if known:
                others.remove(known)
                continue
        same_said = {OFF_BUS: FALLEN, NVML_DBE: DOUBLE_BIT}.get(one.code)
        if same_said and any(_together(one, other) for other in spoken.get(same_said, [])):
            continue
        kept.append(one)
    return kept


def findings(events: Sequence[Event], where: Attribution, profiles: tuple[str, ...], evidence: str
             ) -> Iterable[Finding]:  # fmt: skip
    """One finding per kind, part and step, with how often it happened; nothing of Xids."""
    many: dict[tuple[str, str, str], _Many] = {}
    for event in events:
        if event.code in (XID, NVML_XID) or rule(event.code) is None:
            continue
        one = many.setdefault((event.code, event.about, where.step(event)), _Many(event))
        one.count += kernel.times(event.code, event.text)
        one.last = max(one.last, event.at)
    for (code, _, step), one in many.items():
        yield _finding(code, step, one, where, profiles, evidence)


def failing(event: Event) -> bool:
    """Whether an event alone says that hardware failed."""
    return weight(event) == "fail"


def weight(event: Event) -> Weight:
    """What an event alone leads to: an unknown line of the kernel is a warning, an unknown Xid proves nothing."""
    if event.code in (XID, NVML_XID):
        number = _number(event)
        return WEIGHTS.get(xid.classify(number, event.text)[0] if number is not None else "unknown", "")
    found = rule(event.code)
    return WEIGHTS.get(found or "", "") if found != "unknown" else ""


def rule(code: str) -> Rule | None:
    """The class of an event; None for what is no event of hardware or kernel, such as a restart of the supervisor."""
    found = kernel.kind(code)
    return found.rule if found else BESIDE.get(code)


def _finding(code: str, step: str, many: _Many, where: Attribution, profiles: tuple[str, ...], evidence: str
             ) -> Finding:  # fmt: skip
    kind, what, event = kernel.kind(code), rule(code), many.first
    assert what is not None
    above = kind.above if kind else 0
    if (what == "count" and many.count > above) or (code == MORE and rule(event.about) == "count"):
        what = "warn"  # more than are listed of one part: its steps can no longer be counted apart
    ending, verdict, marginal = VERDICTS[what]
    often = f"{many.count} times, first: " if many.count > 1 else ""
    bound = f" (up to {above} of one part in one step are corrected and no warning)" if above else ""
    doc = f"{kind.doc}: " if kind else ""
    why = f"{where.words(event)}: {doc}{often}{event.text}{bound}"
    return finding(ending, code, verdict, why, "event", profiles, marginal=marginal,
                   evidence=where.evidence(event, evidence), step=step,
                   subject=where.subject(event))  # fmt: skip


def _number(event: Event) -> int | None:
    found = xid.number(event.text)
    return found[0] if found else None


def _together(one: Event, other: Event) -> bool:
    return abs(one.at - other.at) <= WITHIN and same(one.about, other.about)
