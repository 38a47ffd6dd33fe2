"""The circuit breaker: where too many hosts fail one check, the test is suspect, and nobody is rejected by it yet.

New starts are held and running hosts finish. A named person releases the breaker; the rejections then stand.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from gpuburn.controller import people
from gpuburn.controller.fleet.breaker import SUSPECT, Tripped
from gpuburn.controller.judged import Judged
from gpuburn.controller.run import RUN, Run
from gpuburn.finding import Finding, Verdict, finding
from gpuburn.journal import Entry
from gpuburn.measurement import Point
from gpuburn.strict import Refused

TRIPPED, RELEASED = "breaker.tripped", "breaker.released"
HELD = people.HELD
Check = tuple[str, str, str]  # code, about, step


def note(run: Run, tripped: Iterable[Tripped], at: float) -> None:
    """Write down in the journal what tripped, once for each check."""
    known = {_check(entry) for entry in run.told() if entry.event == TRIPPED}
    for one in tripped:
        if (one.code, one.about, one.step) not in known:
            run.note(at, TRIPPED, code=one.code, about=one.about, step=one.step, why=one.why)


def held(entries: Iterable[Entry], tripped: Iterable[Tripped]) -> set[Check]:
    """The checks by which nobody is rejected: tripped, and not released since."""
    released = {_check(entry) for entry in entries if entry.event == RELEASED}
    return {(one.code, one.about, one.step) for one in tripped} - released


def spare(findings: Iterable[Finding], checks: set[Check]) -> list[Finding]:
    """The findings, where a failure of a held check proves nothing yet."""
    return [_suspect(one) if one.verdict is Verdict.FAIL and _of(one) in checks else one for one in findings]


def as_held(findings: Iterable[Finding], judged: Judged | None) -> list[Finding]:
    """A host's own findings as they are decided by: those of a held check as spare() left them among the judged."""
    held = {_where(one): one for one in judged.findings if one.code == HELD} if judged else {}
    return [held.get(_where(one), one) if one.verdict is Verdict.FAIL else one for one in findings]


def _where(one: Finding) -> tuple[str, str, str, Point]:
    return one.about, one.step, one.subject, one.point


def _of(one: Finding) -> Check:
    return one.code, one.about, one.step


def _suspect(one: Finding) -> Finding:
    why = f"{one.why}; so many hosts fail this that we {SUSPECT}: held until a named person releases it"
    return finding(HELD, one.about, Verdict.INCOMPLETE, why, "fleet", one.profiles, step=one.step,
                   subject=one.subject, point=one.point, evidence=one.evidence)  # fmt: skip


def release(run: Run, by: str, reason: str, at: float) -> list[Check]:
    """A named person lets what tripped so far stand. Refused where nothing is held, or a name or reason is missing."""
    people.signed(by, reason)
    open_ = _open(run.entries())
    if not open_:
        raise Refused(f"run {run.id}: no breaker is tripped that is not released; its report notes what trips")
    for code, about, step in open_:
        run.note(at, RELEASED, code=code, about=about, step=step, by=by, reason=reason)
    return open_


@dataclass
class Hold:
    """Whether a host may start: one that the run has started already goes on."""

    run: Run
    started: set[str] = field(init=False)
    known: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.started = {entry.host for entry in self.run.told() if entry.event == "started"}

    def check(self, host: str, delivery: str) -> None:
        """Raises Refused where a breaker of the run or of its delivery holds new starts."""
        if host in self.started:
            return
        if delivery not in self.known:
            self.known[delivery] = hold(self.run, [delivery])
        if self.known[delivery]:
            raise Refused(self.known[delivery])


def hold(run: Run, deliveries: Iterable[str]) -> str:
    """Why nothing new may start: a breaker of this run, or of another run of these deliveries; "" if none is held."""
    named = {one for one in deliveries if one}
    for other in [run, *(_others(run) if named else [])]:
        if other.id != run.id and not named & {one.delivery for one in other.expected()}:
            continue
        for _, about, step in _open(other.told()):
            what = f"{about} in step {step}" if step else about
            return (
                f"held: too many hosts of run {other.id} fail {what}; when the test, the image and the fabric are "
                f"cleared: gpuburn breaker release {other.id} --by NAME --reason WHY"
            )
    return ""


def _others(run: Run) -> list[Run]:
    return [
        Run(folder.name, folder)
        for folder in sorted(run.folder.parent.glob("*-*"))
        if RUN.fullmatch(folder.name) and folder.name != run.id and (folder / "expected.json").exists()
    ]


def open_ones(entries: Iterable[Entry]) -> list[str]:
    """The checks that tripped and that nobody has released, in words."""
    return [f"{about} in step {step}" if step else about for _, about, step in _open(entries)]


def _open(entries: Iterable[Entry]) -> list[Check]:
    found: dict[Check, None] = {}
    for entry in entries:
        if entry.event == TRIPPED:
            found[_check(entry)] = None
        elif entry.event == RELEASED:
            found.pop(_check(entry), None)
    return list(found)


def _check(entry: Entry) -> Check:
    return entry.details.get("code", ""), entry.details.get("about", ""), entry.details.get("step", "")
