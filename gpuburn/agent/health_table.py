"""How this host is, for a person: the health probes run now, and beside each value what the shipped limits say of it.

The probes are those of a run (host_health; gpu_health where there are GPUs), the limits those of a hardware run. What
is a share of a SKU's number is left out: nobody said which SKU was ordered.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import get_args

from gpuburn import limit as limits, strict, verdict
from gpuburn.agent import by_hand
from gpuburn.comparison import Asked, compare
from gpuburn.finding import Finding, Verdict
from gpuburn.measurement import Fact, Measurement, Point
from gpuburn.outcome import Outcome, Status
from gpuburn.plan import Environment, Plan, demanded, promise
from gpuburn.probe import discover
from gpuburn.strict import known

PROBES = ("host_health", "gpu_health")
LEVEL = "standard"
WIDEST = 40  # characters of a column that is lined up; a longer value stands out of it
OUTSIDE, UNREADABLE = 1, 2
SAID = {Verdict.PASS: "ok", Verdict.FAIL: "OUTSIDE", Verdict.INCOMPLETE: "not known", Verdict.NOT_APPLICABLE: ""}


def told(environment: str, as_json: bool) -> tuple[str, int]:
    """The tables or JSON, and the exit status: 0, 1 (outside a limit) or 2 (something demanded could not be read)."""
    known(environment, get_args(Environment), "--environment")
    parts: list[tuple[Outcome, list[Finding]]] = []
    for name in PROBES:
        if name in discover() and (name != "gpu_health" or by_hand.devices(0)[0].gpu):
            plan = by_hand.plan_of(name, {}, 0, environment)  # type: ignore[arg-type]
            outcome = by_hand.carried_out(plan)
            parts.append((outcome, list(judged(plan, outcome))))
    text = _json(parts) if as_json else "\n".join(line for part in parts for line in table(*part))
    return text, status(parts)


def judged(plan: Plan, outcome: Outcome) -> Iterator[Finding]:
    """What the shipped limits of a hardware run say of one step."""
    [step] = plan.steps
    for one in limits.load():
        probe, _, name = one.about.partition(".")
        if probe != step.probe or one.of or not one.when.applies("hardware", LEVEL, plan.environment, step.name):
            continue
        if "hardware" in discover()[probe].promises[name].kinds:
            bound = replace(one, when=replace(one.when, steps=(step.name,), profiles=step.profiles))
            wanted = list(demanded(plan, bound, step, discover()))
            asked = Asked(bound, step, promise(bound, step, discover()), wanted, blind=verdict.blind(plan))
            yield from compare(asked, outcome)


def status(parts: Iterable[tuple[Outcome, list[Finding]]]) -> int:
    """The worst of all: outside before unreadable. A probe that did not end well read nothing."""
    every = list(parts)
    verdicts = {one.verdict for _, findings in every for one in findings}
    if Verdict.FAIL in verdicts:
        return OUTSIDE
    sound = all(outcome.status is Status.COMPLETED for outcome, _ in every)
    return 0 if sound and every and Verdict.INCOMPLETE not in verdicts else UNREADABLE


def table(outcome: Outcome, findings: list[Finding]) -> Iterator[str]:
    """One line for each value and fact, with its judgement; then what is not there, with the reason."""
    by_name = {(one.about, one.subject, one.point): one for one in findings}
    taken: list[Measurement | Fact] = [*outcome.measurements, *outcome.facts]
    mine = [one for one in taken if one.name.startswith(f"{outcome.probe}.")]
    rows = [_row(one, by_name.pop((one.name, one.subject, one.point), None)) for one in mine]
    rows += [(_at(one.about, one.point), one.subject, "-", SAID[one.verdict], one.why) for one in by_name.values()]
    widths = [min(WIDEST, max((len(row[column]) for row in rows), default=0)) for column in range(4)]
    yield f"{outcome.probe}: {outcome.status} {outcome.why}".rstrip()
    for row in rows:
        yield "  " + "  ".join([*(cell.ljust(width) for cell, width in zip(row, widths)), row[4]]).rstrip()


def _row(one: Measurement | Fact, finding: Finding | None) -> tuple[str, str, str, str, str]:
    name, value = _at(one.name, one.point), one.value if isinstance(one, Fact) else f"{one.value:.6g} {one.unit}"
    if finding is None or finding.verdict is Verdict.NOT_APPLICABLE:
        return name, one.subject, value, "", ""
    warned = finding.verdict is Verdict.PASS and finding.marginal
    plain = finding.verdict is Verdict.PASS and not finding.marginal
    return name, one.subject, value, "warning" if warned else SAID[finding.verdict], "" if plain else finding.why


def _at(name: str, point: Point) -> str:
    """A name with its place on a sweep."""
    return f"{name} {point}".rstrip()


def _json(parts: Iterable[tuple[Outcome, list[Finding]]]) -> str:
    return json.dumps([{"outcome": strict.plain(outcome), "findings": strict.plain(found)} for outcome, found in parts])
