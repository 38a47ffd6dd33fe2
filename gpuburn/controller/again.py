"""Coming back to a run: everyone it expects, with what the inventory said when it began. Anything else is a new run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from gpuburn import __version__, criteria, strict
from gpuburn.controller.run import Run
from gpuburn.limit import Limit
from gpuburn.plan import Plan, Step
from gpuburn.strict import Refused

SHOWN = 5  # hosts that are named of those that are missing
LIMITS = "gpuburn_limits"
SITE = "site.json"  # a host's variables, as they were when it was planned


def everyone(run: Run, hosts: Iterable[str]) -> None:
    """Refuse to come back with fewer hosts: whoever is left out would be bad without anyone hearing of it."""
    given = set(hosts)
    missing = [one.host for one in run.expected() if one.host not in given]
    if missing:
        more = f" and {len(missing) - SHOWN} more" if len(missing) > SHOWN else ""
        raise Refused(
            f"run {run.id} also expects {', '.join(missing[:SHOWN])}{more}; "
            "come back with the -i and -l that it began with, so that every host has its word"
        )


def same_place(kept: Path, state_dir: str, where: str) -> None:
    """Refuse to look for a run where it does not lie: it would be started a second time beside itself. kept: what the
    site's variables were when the host was planned."""
    was = strict.loads(strict.load_file(kept), kept.name).get("state_dir", "") if kept.exists() else state_dir
    if was != state_dir:
        raise Refused(f"{where}: {_told('gpuburn_state_dir', was, state_dir)}; a changed inventory is a new run")


def unchanged(kept: Plan, now: Plan, origin: dict[str, str], where: str) -> None:
    """Refuse a host of which the inventory now asks something else than the plan that was sent. origin: {probe.metric:
    variable} of the site's limits. Another version of gpuburn plans otherwise by itself: then the plan stands."""
    if kept.criteria and kept.versions.get("gpuburn") == __version__:
        said = next(_differences(kept, now, origin), "")
        if not said and criteria.digest(kept) != criteria.digest(now):
            said = f"criteria were {criteria.digest(kept)[:12]} when the run began, are {criteria.digest(now)[:12]} now"
        if said:
            raise Refused(f"{where}: {said}; a changed inventory is a new run")


def _differences(kept: Plan, now: Plan, origin: dict[str, str]) -> Iterator[str]:
    for variable, was, says in (
        ("gpuburn_steps", _names(kept.steps), _names(now.steps)),
        ("gpuburn_become", kept.privileges, now.privileges),
        ("gpuburn_user", kept.worker, now.worker),
        ("gpuburn_grace", f"{_grace(kept):g}", f"{_grace(now):g}"),
    ):
        if was != says:
            yield _told(variable, was, says)
    before, after = _by_place(kept.limits), _by_place(now.limits)
    for place in sorted({*before, *after}):
        if before.get(place) != after.get(place):
            about, step, point = place
            where = " ".join(part for part in (about, f"in step {step}", point) if part)
            yield _told(f"{origin.get(about, LIMITS)}: {where}", _said(before.get(place)), _said(after.get(place)))


def _told(what: str, was: str, says: str) -> str:
    return f"{what} was {was!r} when the run began, is {says!r} now"


def _names(steps: Iterable[Step]) -> str:
    return ", ".join(step.name for step in steps)


def _grace(plan: Plan) -> float:
    return round(plan.deadline - plan.issued - sum(step.timeout for step in plan.steps), 3)


def _by_place(limits: Iterable[Limit]) -> dict[tuple[str, str, str], list[Limit]]:
    found: dict[tuple[str, str, str], list[Limit]] = {}
    for one in limits:
        found.setdefault((one.about, " ".join(one.when.steps), str(one.when.point)), []).append(one)
    return found


def _said(limits: list[Limit] | None) -> str:
    return "; ".join(f"{one} ({one.because or one.informational})" for one in limits) if limits else "not demanded"
