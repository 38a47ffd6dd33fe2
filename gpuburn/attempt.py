"""One attempt of a delivery: a run's word on one host, and what had changed since the attempt before. Pure.

Stops at one attempt: which of them decides is standing.py's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Literal

from gpuburn import criteria as criterias
from gpuburn.criteria import Criteria
from gpuburn.decision import Case, Decided, decide, worst
from gpuburn.finding import Verdict
from gpuburn.policy import Decision, Policy

Outcome = Literal["pass", "fail", "open"]
GOOD = (Decision.ACCEPTED, Decision.CONDITIONAL)
FAILED = (Decision.REJECTED, Decision.TRIAL_FAILED)
NAMED = 6  # changes of one kind that are told one by one


@dataclass(frozen=True, slots=True)
class Leave:
    """A waiver that this attempt used, and until when it holds (YYYY-MM-DD)."""

    id: str
    person: str
    about: str
    expires: str


@dataclass(frozen=True, slots=True)
class Attempt:
    """What one run says of one host, without the host's history.

        cases: per profile. parts, versions: {"subject kind": value}, without what the host did not tell. digest: of the
        criteria. leaves: waivers that it used. cause: why it failed, as a person recorded it; "" where nobody did.
    held: what failed by a check whose breaker nobody has released, in words; "" where nothing did. started: when the
        host was last started in the run (unix seconds; 0: not known). suspects: the serials of what failed.
    """

    run: str
    host: str
    at: float
    kind: str
    level: str
    cases: dict[str, Case]
    policy: Policy
    digest: str = ""
    criteria: Criteria | None = None
    parts: dict[str, str] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)
    reason: str = ""
    cause: str = ""
    leaves: tuple[Leave, ...] = ()
    held: str = ""
    started: float = 0.0
    suspects: tuple[str, ...] = ()
    decision: Decision = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "decision", worst(one.decision for one in self.decided().values()))

    def decided(self, marks: frozenset[str] = frozenset(), spoilt: bool = False) -> dict[str, Decided]:
        """The decision per profile with these marks. spoilt: what was waived counts as failed again."""
        made = {}
        for profile, case in self.cases.items():
            now = replace(case, marks=case.marks | marks)
            if spoilt and "waived" in case.marks:
                now = replace(now, verdict=Verdict.FAIL, marks=now.marks - {"waived"})
            made[profile] = decide(self.policy, now, self.at)
        return made

    @property
    def when(self) -> float:
        """What attempts are ordered by (unix seconds): a run may start a host long after it began itself."""
        return max(self.at, self.started)

    @property
    def bad(self) -> bool:
        """Whether something failed, whatever stood between it and a rejection: a waiver, or a breaker."""
        return self.outcome == "fail" or bool(self.leaves) or bool(self.held)

    @property
    def outcome(self) -> Outcome:
        """open: neither a pass nor a fail; it showed too little to decide anything."""
        return "pass" if self.decision.good else "fail" if self.decision in FAILED else "open"

    @property
    def loosened(self) -> bool:
        """Whether the site demanded less than gpuburn does: what would have failed is not known."""
        return any("loosened" in case.marks for case in self.cases.values())

    @property
    def full(self) -> bool:
        """Whether it is a full pass: at a kind and level that can accept, nothing of it waived or loosened."""
        return self.decision in GOOD and not self.leaves and not self.loosened


class Laxer:
    """Why an attempt's criteria are laxer than another's; each pair of criteria is compared once."""

    def __init__(self, compare: Callable[[Criteria, Criteria], str] = criterias.laxer) -> None:
        self.compare = compare
        self.seen: dict[tuple[str, str], str] = {}

    def __call__(self, now: Attempt, before: Attempt) -> str:
        """The first difference, in words; "" where they are the same or stricter."""
        if now.criteria is None or before.criteria is None:
            return "" if before.criteria is None else "no plan is kept of it"
        if now.digest == before.digest:
            return ""
        key = (now.digest, before.digest)
        if key not in self.seen:
            mine = now.criteria
            if replace(now.policy, decision_rule=before.policy.decision_rule) == before.policy:
                mine = replace(mine, policy=before.criteria.policy)  # but for the rule, which is compared by itself
            self.seen[key] = self.compare(mine, before.criteria)
        return self.seen[key]


def swapped(known: dict[str, str], now: dict[str, str]) -> list[str]:
    """The parts that are others than they were when last seen, in words. A part that is silent was not swapped."""
    return [
        f"{name} was {known[name]}, is {value}"
        for name, value in sorted(now.items())
        if known.get(name, value) != value
    ]


def changed(now: Attempt, before: Attempt, known: dict[str, str], laxer: Laxer) -> list[str]:
    """What changed since the attempt before, in words. known: every part as it was last seen."""
    told = _short([f"part: {one}" for one in swapped(known, now.parts)])
    told += _short(_versions(now.versions, before.versions))
    for name in ("kind", "level"):
        was, has = getattr(before, name), getattr(now, name)
        if was != has:
            told.append(f"{name} was {was}, is {has}")
    if now.policy is not before.policy and now.policy != before.policy:
        told.append(f"policy was {before.policy.digest[:12]}, is {now.policy.digest[:12]}")
    if now.digest and before.digest and now.digest != before.digest:
        why = laxer(now, before)
        words = why if why.startswith(criterias.OTHER) else f"criteria: laxer: {why}"
        told.append(words if why else "criteria: others, none of them laxer")
    return told


def _versions(now: dict[str, str], before: dict[str, str]) -> list[str]:
    """The same change on many devices is told once."""
    moved: dict[tuple[str, str, str], list[str]] = {}
    for name, value in sorted(now.items()):
        subject, _, about = name.partition(" ")
        if before.get(name, value) != value:
            moved.setdefault((about, before[name], value), []).append(subject)
    return [f"{about} of {', '.join(subjects)} was {was}, is {has}" for (about, was, has), subjects in moved.items()]


def _short(told: Iterable[str]) -> list[str]:
    every = list(told)
    return every if len(every) <= NAMED else [*every[:NAMED], f"and {len(every) - NAMED} more"]
