"""What a verdict leads to, as data: the rows of policy.yml, and the settings of the judgement beside them."""

from __future__ import annotations

import enum
import functools
import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, get_args

from gpuburn import strict
from gpuburn.finding import Verdict
from gpuburn.plan import Environment, Kind, Level
from gpuburn.strict import Refused

FILE = Path(__file__).parent / "policy.yml"

# How far a host came, as the controller knows it.
Reached = Literal["judged", "never_reached", "not_started", "lost", "vanished", "uncollected", "refused"]

# What qualifies a pass. unexplained: a pass after a fail for which nobody has recorded a cause.
Mark = Literal["uncalibrated", "not_observable", "marginal", "waived", "unexplained", "loosened"]


class Decision(str, enum.Enum):
    """What is done with a host for one profile, best first."""

    ACCEPTED = "accepted"
    CONDITIONAL = "conditional"
    TRIAL_PASSED = "trial passed"
    UNDECIDED = "undecided"
    UNTESTED = "untested"
    TRIAL_FAILED = "trial failed"
    REJECTED = "rejected"

    def __str__(self) -> str:
        return str(self.value)

    @property
    def good(self) -> bool:
        """Whether the playbook's last task lets the host be."""
        return self in (Decision.ACCEPTED, Decision.CONDITIONAL, Decision.TRIAL_PASSED)


@dataclass(frozen=True, slots=True)
class Row:
    """One rule: empty conditions match everything. condition, owner, due_days: what a conditional decision asks for,
    of whom, and in how many days after the run."""

    decision: Decision
    because: str
    reached: tuple[Reached, ...] = ()
    verdicts: tuple[Verdict, ...] = ()
    kinds: tuple[Kind, ...] = ()
    levels: tuple[Level, ...] = ()
    environments: tuple[Environment, ...] = ()
    marks: tuple[Mark, ...] = ()
    condition: str = ""
    owner: str = ""
    due_days: int = 0

    def __post_init__(self) -> None:
        if not self.because.strip():
            raise Refused(f"a row that leads to {self.decision} needs a reason ('because')")
        asked = (bool(self.condition), bool(self.owner), self.due_days > 0)
        if set(asked) != {self.decision is Decision.CONDITIONAL}:
            raise Refused(f"{self.decision}: condition, owner and due_days (above 0) go with conditional, all three")
        if self.decision.good:
            self._check_good()

    def fits(
        self, reached: str, verdict: str, kind: str, level: str, environment: str, marks: frozenset[str] = frozenset()
    ) -> bool:
        """Whether this row speaks of such a host; verdict is empty where there is no result."""
        asked: tuple[tuple[tuple[str, ...], str], ...] = (
            (self.reached, reached), (self.verdicts, verdict), (self.kinds, kind), (self.levels, level),
            (self.environments, environment),
        )  # fmt: skip
        fits = all(not wanted or value in wanted for wanted, value in asked)
        return fits and (not self.marks or bool(marks & set(self.marks)))

    def _check_good(self) -> None:
        """No policy accepts what did not pass; and what cannot accept (a kind, a level) it never accepts."""
        if self.verdicts != (Verdict.PASS,) or set(self.reached) - {"judged"}:
            raise Refused(f"a row that leads to {self.decision} is for verdicts: [pass] of judged hosts alone")
        accepts = self.decision is not Decision.TRIAL_PASSED
        able = self.kinds == ("hardware",) and self.levels and set(self.levels) <= {"standard", "soak"}
        if accepts and not able:
            raise Refused(
                f"a row that leads to {self.decision} is for kinds: [hardware], levels: [standard, soak] alone"
            )


FEWEST, SMALLEST = 8, 0.1  # hosts, share: a breaker that trips on less would hold every rejection back


@dataclass(frozen=True, slots=True)
class Breaker:
    """When to suspect the test and not the hosts: this share of at least so many judged hosts fails the same check."""

    hosts: int = 8
    share: float = 0.5

    def __post_init__(self) -> None:
        if self.hosts < FEWEST or not SMALLEST <= self.share <= 1:
            raise Refused(
                f"hosts {self.hosts}, share {self.share:g}: wanted are at least {FEWEST} hosts, and a share from "
                f"{SMALLEST:g} to 1"
            )


@dataclass(frozen=True, slots=True)
class Shares:
    """Of a baseline's median: below fail_below a value fails, below warn_below it is marginal. The other way round
    (divided) for what is better when lower."""

    fail_below: float = 0.95
    warn_below: float = 0.97

    def __post_init__(self) -> None:
        if not 0 < self.fail_below <= self.warn_below <= 1:
            raise Refused(
                f"shares {self.fail_below:g}, {self.warn_below:g}: wanted is 0 < fail_below <= warn_below <= 1"
            )


@dataclass(frozen=True, slots=True)
class Decay:
    """What a loss of this share over a soak, after warm-up, leads to."""

    share: float = 0.01
    leads_to: Literal["inform", "warn", "fail"] = "warn"

    def __post_init__(self) -> None:
        if not 0 < self.share < 1:
            raise Refused(f"share {self.share:g}: wanted is a share in (0, 1)")


@dataclass(frozen=True, slots=True)
class Policy:
    """decision_rule: simple acceptance, or a guard band of twice the readings' spread (JCGM 106:2012, 8.3).

    peers: what an outlier among its peers leads to (inform, warn: a marginal pass, fail); supplies: what a power supply
    does that its BMC does not call OK.
    """

    rows: list[Row]
    decision_rule: Literal["simple", "guard_band"] = "simple"
    peers: Literal["inform", "warn", "fail"] = "warn"
    breaker: Breaker = field(default_factory=Breaker)
    baseline: Shares = field(default_factory=Shares)
    decay: Decay = field(default_factory=Decay)
    supplies: Literal["inform", "warn", "fail"] = "warn"

    @property
    def digest(self) -> str:
        """SHA-256 of the canonical policy: the same rows are the same digest, however the file is laid out."""
        return strict.digest(strict.encode(self))


@functools.cache
def load(path: Path = FILE) -> Policy:
    """A policy file that does not change while we run: the package's, or a run's own copy."""
    return read(path)


def read(path: Path) -> Policy:
    """Read a policy strictly; an unknown key, decision or mark is refused by name."""
    document = strict.load_yaml(path)
    if not isinstance(document, dict) or not isinstance(document.get("rows"), list):
        raise Refused(f"{path.name}: wanted are rows: a list of rules")
    policy = strict.build(Policy, document, path.name)
    for way in _ways():
        said = ", ".join(f"{name} {value or 'none'}" for name, value in zip(WAY, way))
        if _first(policy, way) is None:
            raise Refused(f"{path.name}: rows: no row for {said}; wanted is a row for every way that a host can end")
        if wrong := _promised(policy, way):
            raise Refused(f"{path.name}: rows: for {said}: {wrong}")
    return policy


Way = tuple[str, str, str, str, str]


def _first(policy: Policy, way: Way, *some: str) -> Decision | None:
    marks = frozenset(some) - {""}
    return next((row.decision for row in policy.rows if row.fits(*way, marks)), None)


def _promised(policy: Policy, way: Way) -> str:
    """What no policy may do: let a failure be anything else, or accept what a person has still to answer for."""
    _, verdict, kind, *_ = way
    if verdict == "fail":
        wanted = Decision.REJECTED if kind == "hardware" else Decision.TRIAL_FAILED
        other = next((d for mark in ("", *get_args(Mark)) if (d := _first(policy, way, mark)) is not wanted), None)
        return f"what failed is {wanted}, not {other}" if other else ""
    # One mark is enough for a row to match, so that two show every row that stands before another.
    pairs = ((mark, other) for mark in ANSWERED for other in (mark, *get_args(Mark)))
    open_ = next((one for one in pairs if _first(policy, way, *one) is Decision.ACCEPTED), None)
    told = " and ".join(dict.fromkeys(open_)) if open_ else ""
    return f"a pass with mark {told} is at best conditional" if told else ""


ANSWERED = ("waived", "unexplained", "loosened")  # what somebody has still to answer for
WAY = ("reached", "verdict", "kind", "level", "environment")


def _ways() -> Iterator[Way]:
    """Every way that a host can end, without marks: a row for a mark alone leaves a gap."""
    judged = ("pass", "fail", "incomplete")
    for reached in get_args(Reached):
        for verdict in judged if reached == "judged" else ("", "incomplete"):
            yield from itertools.product((reached,), (verdict,), get_args(Kind), get_args(Level), get_args(Environment))
