"""What happened beside the work, as findings: by the class that kernel.yml gives each kind for a new machine. Pure.

Xids are judged by their numbers in xids.py; here stands what is told twice, and all that is no Xid.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from gpuburn import kernel, xid
from gpuburn.attribution import Attribution, same
from gpuburn.finding import Finding, Verdict, finding
from gpuburn.identity import Event
from gpuburn.kernel import Rule

XID, NVML_XID, NVML_DBE = "kernel.xid", "nvml.xid", "nvml.dbe"
NVML_ABSENT, NVML_LOST, NVML_UNREADABLE = "nvml.absent", "nvml.lost", "nvml.unreadable"
OFF_BUS, MORE = "kernel.off_bus", "kernel.more"
WITHIN = 5.0  # seconds: NVML's and the kernel's word of one Xid are this near; two Xids of one cause may be as well
FALLEN, DOUBLE_BIT = 79, 48  # Xids that say the same as another event does
BESIDE: dict[str, Rule] = {
    MORE: "info", NVML_DBE: "reject", NVML_ABSENT: "info", NVML_LOST: "disturbed", NVML_UNREADABLE: "disturbed",
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
    xids = [one for one in events if one.code == XID]
    spoken = xids + [one for one in events if one.code == NVML_XID]
    free = list(xids)
    kept = []
    for one in events:
        if one.code == NVML_XID:
            known = next((other for other in free if _number(other) == _number(one) and _together(one, other)), None)
            if known:
                free.remove(known)
                continue
        same_said = {OFF_BUS: FALLEN, NVML_DBE: DOUBLE_BIT}.get(one.code)
        if same_said and any(_number(other) == same_said and _together(one, other) for other in spoken):
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
    if event.code in (XID, NVML_XID):
        number = _number(event)
        return number is not None and xid.classify(number, event.text)[0] == "reject"
    return rule(event.code) == "reject"


def rule(code: str) -> Rule | None:
    """The class of an event; None for what is no event of hardware or kernel, such as a restart of the supervisor."""
    found = kernel.kind(code)
    return found.rule if found else BESIDE.get(code)


def _finding(code: str, step: str, many: _Many, where: Attribution, profiles: tuple[str, ...], evidence: str
             ) -> Finding:  # fmt: skip
    kind, what, event = kernel.kind(code), rule(code), many.first
    assert what is not None
    above = kind.above if kind else 0
    if what == "count" and many.count > above:
        what = "warn"
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
