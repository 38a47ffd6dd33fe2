"""What a machine counts from its start on, before and after the work: what grew in between happened under load.

A probe that is planned twice, as step X and as step X_after or X_hot, took its counters at both ends. Two looks are
compared here, whatever the probe is; the absolute values are judged by limits, like any others. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from gpuburn import rotation
from gpuburn.finding import Finding, Verdict, finding
from gpuburn.measurement import UNTOLD, Measurement, Metric, Point
from gpuburn.outcome import Outcome
from gpuburn.plan import Plan, Step
from gpuburn.probe import Probe

PASS, FAIL, INCOMPLETE, _ = Verdict
AFTER = ("_after", "_hot")  # how the second step of a pair is called
# By what is fixed: the codes where it changed, and where one look did not tell it.
CHANGED = {"part": ("identity.changed", "identity.missing"), "result": ("fact.failed", "fact.unobserved")}
# By what is counted: the code of a counter that grew, the verdict, whether it is marginal.
GREW = {"errors": ("health.grew", FAIL, False), "corrected": ("health.corrected", PASS, True)}


def pairs(plan: Plan) -> Iterator[tuple[Step, Step]]:
    """The steps that look at the same thing before and after the work, and each turn of one with its first."""
    for first, *later in rotation.turns(plan.steps).values():
        yield from ((first, again) for again in later)
    for step in plan.steps:
        for after in (plan.step(step.name + ending) for ending in AFTER):
            if after is not None and after.probe == step.probe:
                yield step, after


def growth(plan: Plan, outcomes: Mapping[str, Outcome], probes: Mapping[str, Probe]) -> Iterable[Finding]:
    """One finding for each counter, subject and point that both looks have. One that only one look has is missed by
    its limit there.
    """
    for before, after in pairs(plan):
        for name, metric in probes[before.probe].metrics.items():
            about = f"{before.probe}.{name}"
            first, last = _taken(outcomes.get(before.name), about), _taken(outcomes.get(after.name), about)
            for (subject, point), one in last.items():
                if metric.counter and (subject, point) in first:
                    yield _compared(metric, before, after, first[subject, point], one)


def changes(plan: Plan, outcomes: Mapping[str, Outcome], probes: Mapping[str, Probe]) -> Iterable[Finding]:
    """One finding for each fixed fact that the second look does not have as the first had it."""
    for before, after in pairs(plan):
        for name, kind in ((name, fact.fixed) for name, fact in probes[before.probe].facts.items() if fact.fixed):
            about = f"{before.probe}.{name}"
            first, last = _facts(outcomes.get(before.name), about), _facts(outcomes.get(after.name), about)
            for where in sorted(first.keys() & last.keys(), key=str):
                if first[where] != last[where]:
                    yield _changed(about, CHANGED[kind], before, after, where, first[where], last[where])


def _facts(outcome: Outcome | None, about: str) -> dict[tuple[str, Point], str]:
    return {(f.subject, f.point): f.value for f in (outcome.facts if outcome else []) if f.name == about}


def _changed(
    about: str, codes: tuple[str, str], before: Step, after: Step, where: tuple[str, Point], first: str, last: str
) -> Finding:
    """What was told once and then no longer is not known to be the same; that is no proof of a change."""
    known = not first.startswith(UNTOLD) and not last.startswith(UNTOLD)
    code, verdict = (codes[0], FAIL) if known else (codes[1], INCOMPLETE)
    why = f"{first} in step {before.name}, {last} in step {after.name}"
    subject, point = where
    return finding(
        code, about, verdict, why, "plan", after.profiles, step=after.name, subject=subject, point=point,
        evidence=f"steps/{after.name}",
    )  # fmt: skip


def _taken(outcome: Outcome | None, about: str) -> dict[tuple[str, Point], Measurement]:
    found = outcome.measurements if outcome else []
    return {(m.subject, m.point): m for m in found if m.name == about}


def _compared(metric: Metric, before: Step, after: Step, first: Measurement, last: Measurement) -> Finding:
    span = f"{first.value:.12g} in step {before.name}, {last.value:.12g} in step {after.name}"
    if last.value > first.value:
        code, verdict, marginal = GREW[metric.counter]
        why = f"{last.value - first.value:.12g} {last.unit} more under load: {span}"
    elif last.value < first.value:
        code, verdict, marginal = "health.restarted", INCOMPLETE, False
        why = f"counted from the start again, so that its growth is not known: {span}"
    else:
        code, verdict, marginal, why = "health.steady", PASS, False, f"no more under load: {span}"
    return finding(
        code, last.name, verdict, why, "limit", after.profiles, marginal=marginal, step=after.name,
        subject=last.subject, point=last.point, evidence=f"steps/{after.name}",
    )  # fmt: skip
