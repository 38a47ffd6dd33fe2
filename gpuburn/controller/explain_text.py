"""An explained plan as plain text for a terminal of 100 columns. Stops at layout: explain says what is told."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator

from gpuburn.controller import applicable, explain
from gpuburn.controller.explain import DOES, Demand, Does, Group
from gpuburn.plan import Guard, LeftOut
from gpuburn.policy import Row
from gpuburn.rotation import turns

WIDTH = 100
HEADS: dict[Does, str] = {
    "rejects": "CAN REJECT: missing one of these fails the host",
    "warns": "CAN ONLY WARN: missing one of these makes a pass marginal",
    "uncalibrated": "HAS NO REFERENCE NUMBER: recorded; the policy makes such a pass conditional",
    "recorded": "IS RECORDED ONLY",
}
RULES = {
    "simple": "simple acceptance: a value at its limit passes (its spread is not subtracted)",
    "guard_band": "guard band: within twice the readings' spread of a limit nothing is decided (not proven)",
}


def text(groups: list[Group]) -> str:
    """All groups, one after another."""
    return "\n\n\n".join("\n".join(line.rstrip() for line in _group(one)) for one in groups)


def _group(group: Group) -> Iterator[str]:
    yield from _head(group)
    yield from _short(group)
    yield from _steps(group)
    demands = explain.demands(group)
    for does in DOES:
        mine = [one for one in demands if one.does == does]
        if mine:
            yield from ("", HEADS[does])
            yield from _judged(group, mine) if does in ("rejects", "warns") else _recorded(group, mine)
    yield from _left_out(group.plan.left_out)
    yield from _guards(group.plan.guards)
    yield from _decisions(group)


def _head(group: Group) -> Iterator[str]:
    plan = group.plan
    who = f"{len(group.hosts)} host(s): {', '.join(group.hosts)}" if group.hosts else "each host of the order"
    yield from wrapped(who, "", "  ")
    devices = f"{len(plan.devices)} x {plan.sku or 'CPU process'}"
    yield f"{' and '.join(plan.profiles)} at level {plan.level}; {plan.kind}, {plan.environment}; {devices}"
    yield f"criteria {group.digest}"


def _short(group: Group) -> Iterator[str]:
    counts, quick = explain.counts(group.plan), explain.performance(group.plan)
    yield from ("", "IN SHORT")
    said = f"{counts['rejects']} can reject, {counts['warns']} can only warn, {counts['uncalibrated']} have no " \
        f"reference number, {counts['recorded']} are recorded only"  # fmt: skip
    yield from wrapped(f"{len(group.plan.limits)} limits: {said}")
    total = len(quick.can) + len(quick.cannot)
    yield from wrapped(f"{len(quick.can)} of {total} performance metrics can reject: {', '.join(quick.can) or 'none'}")
    if quick.cannot:
        yield from wrapped(f"{len(quick.cannot)} performance metrics cannot:")
        shared: dict[str, list[str]] = {}
        for name, reasons in quick.cannot.items():
            shared.setdefault("; ".join(reasons), []).append(name)
        for why, names in shared.items():
            yield from wrapped(f"{', '.join(names)}: {why}", "    ")
    for limit in group.plan.limits:
        if limit.loosened:
            less = f"{limit.about}: {explain.wish(limit) or 'nothing'}; gpuburn itself: {limit.loosened}"
            yield from wrapped(f"demands less than gpuburn does: {less}")


def _steps(group: Group) -> Iterator[str]:
    plan = group.plan
    yield from ("", "STEPS AND COST", f"  {'step':18}{'expected':>10}{'at most':>10}  for")
    for step in plan.steps:
        served = " and ".join(step.profiles)
        yield f"  {step.name:18}{step.expected:8.0f} s{step.timeout:8.0f} s  {served}"
        yield from wrapped(step.because, "      ")
    together = sum(step.timeout for step in plan.steps)
    yield f"  {'together':18}{plan.expected():8.0f} s{together:8.0f} s"
    yield from wrapped(
        f"about {duration(plan.expected())}; over at the latest {duration(group.allowed)} after the start: all steps' "
        "limits of time and the grace for one boot"
    )
    yield from wrapped(power(group))
    for note in plan.notes:
        yield from wrapped(f"note: {note}")


def power(group: Group) -> str:
    """Peak power and energy in words, and what they leave out."""
    peak, energy = explain.peak_kw(group.plan), explain.energy_kwh(group.plan)
    if not peak:
        return "power: no figure (no GPU is loaded, or nobody says what its board draws)"
    one = f"power: GPUs only, peak {peak:.1f} kW and at most {energy:.1f} kWh per host"
    many = len(group.hosts)
    all_of = f", {peak * many:.1f} kW and {energy * many:.1f} kWh for {many} hosts at once" if many > 1 else ""
    return f"{one}{all_of}; CPUs, memory, fans and conversion come on top: no sourced figure for them"


def duration(seconds: float) -> str:
    """Seconds for a person."""
    return f"{seconds / 3600:.1f} h" if seconds >= 5400 else f"{seconds / 60:.0f} min"


def _judged(group: Group, demands: list[Demand]) -> Iterator[str]:
    for one in demands:
        yield from _demand(group, one)


def _demand(group: Group, one: Demand) -> Iterator[str]:
    wish = one.wish or f"marginal {one.edge}"
    near = f"; marginal {one.edge}" if one.wish and one.edge else ""
    yield from wrapped(f"{_name(group, one)}: {wish}{near}; {one.per}", "  ", "      ")
    yield from wrapped(f"measures: {one.doc}", "      ")
    yield from wrapped(f"because: {one.because}", "      ")
    yield from wrapped(f"number: {one.number}" + (f" ({one.source})" if one.source else ""), "      ")
    if one.cannot:
        yield from wrapped(f"cannot reject: {one.cannot}", "      ")
    if one.loosened:
        yield from wrapped(f"gpuburn itself demands: {one.loosened}", "      ")


def _recorded(group: Group, demands: list[Demand]) -> Iterator[str]:
    """Quantities that are not judged, together where the reason is the same."""
    shared: dict[str, list[str]] = {}
    for one in demands:
        shared.setdefault(one.because, []).append(_name(group, one))
    for why, names in shared.items():
        yield from wrapped(f"{', '.join(names)}: {why}", "  ", "      ")


def _name(group: Group, one: Demand) -> str:
    """The quantity with its place."""
    everywhere = len(one.steps) == len(turns(group.plan.steps))
    where = "every step" if everywhere else f"step {', '.join(one.steps)}"
    at = f" at {one.point}" if one.point else ""
    served = f" ({' and '.join(one.profiles)} only)" if one.profiles else ""
    return f"{one.about}{at} [{where}]{served}"


def _left_out(left_out: list[LeftOut]) -> Iterator[str]:
    yield from ("", "IS LEFT OUT")
    shared: dict[str, list[str]] = {}
    for one in left_out:
        shared.setdefault(one.why, []).append(one.what)
    for why, what in shared.items():
        yield from wrapped(f"{_together(what)}: {why}", "  ", "      ")
    if not left_out:
        yield "  nothing that a step promises"


def _together(what: Iterable[str]) -> str:
    """The same quantity in many steps is named once."""
    steps: dict[str, list[str]] = {}
    for one in what:
        name, _, step = one.partition(" in step ")
        steps.setdefault(name, []).extend([step] if step else [])
    return ", ".join(f"{name} [step {', '.join(found)}]" if found else name for name, found in steps.items())


def _guards(guards: list[Guard]) -> Iterator[str]:
    yield from ("", "GUARDS: crossing one while a step runs ends the step")
    for one in guards:
        yield from wrapped(f"{one.name}: {bounds(one)}: {one.because}", "  ", "      ")


def bounds(one: Guard) -> str:
    """A guard's bounds."""
    low = [f">= {one.min:g} {one.unit}"] if one.min is not None else []
    return " and ".join(low + ([f"<= {one.max:g} {one.unit}"] if one.max is not None else []))


def _decisions(group: Group) -> Iterator[str]:
    yield from ("", "DECISIONS: the first row that matches decides; further conditional rows add their condition")
    yield from wrapped(f"decision rule: {RULES[group.plan.decision_rule]}")
    if group.policy is None:
        yield from wrapped(f"the policy with the digest {group.plan.policy} is not here")
    for row in applicable.rows(group.policy, group.plan):
        yield from wrapped(f"{when(row)} -> {row.decision}: {row.because}", "  ", "      ")
        if row.condition:
            yield from wrapped(f"condition: {row.condition}; {row.owner}, within {row.due_days} days", "      ")


def when(row: Row) -> str:
    """In which case a row decides."""
    parts = [" or ".join(map(str, many)) for many in (row.reached, row.verdicts, row.marks) if many]
    return ", ".join(parts) or "all else"


def wrapped(said: str, first: str = "  ", more: str = "") -> list[str]:
    """Lines of at most WIDTH columns; a long name is broken rather than let out."""
    return textwrap.wrap(said, WIDTH, initial_indent=first, subsequent_indent=more or first)
