"""Which earlier runs of its deliveries a run knew, in its journal: one whose folder is gone later is missed by name.

Hosts that were not good are named with their decision; of good ones nothing is lost that would help them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from gpuburn import journal
from gpuburn.attempt import GOOD, Attempt
from gpuburn.controller.run import Run
from gpuburn.journal import Entry
from gpuburn.policy import Decision

EVENT = "knew"
COUNTS = (str(Decision.REJECTED), str(Decision.CONDITIONAL))  # conditional: by what was waived
AT_ONCE = 400  # hosts of one line; names of 100 letters each are less than the journal's longest line
Knew = dict[tuple[str, str], dict[str, str]]  # (delivery, run): {host: decision}, of those that were not good


def read(entries: Iterable[Entry]) -> Knew:
    """What a run noted of earlier runs; the last word on each counts."""
    found: Knew = {}
    for entry in entries:
        if entry.event == EVENT:
            said = entry.details
            mine = found.setdefault((said.get("delivery", ""), said.get("run", "")), {})
            mine.update(dict.fromkeys(said.get("hosts", "").split(), said.get("decision", "")))
    return found


def of(by_host: Mapping[str, tuple[str, Attempt]], run: str) -> Knew:
    """What there is to note of one earlier run."""
    found: Knew = {}
    for host, (delivery, attempt) in by_host.items():
        mine = found.setdefault((delivery, run), {})
        if attempt.decision not in GOOD or attempt.leaves:
            mine[host] = str(attempt.decision)
    return found


def note(run: Run, knew: Knew, at: float) -> None:
    """Write down what the journal does not say already."""
    before = read(run.told())
    for (delivery, other), hosts in knew.items():
        said = before.get((delivery, other))
        fresh = {host: decision for host, decision in hosts.items() if said is None or said.get(host) != decision}
        if said is None or fresh:
            for decision in sorted(set(fresh.values())) or [""]:
                names = [host for host, one in fresh.items() if one == decision]
                for start in range(0, max(len(names), 1), AT_ONCE):
                    named = {"decision": decision, "hosts": " ".join(names[start : start + AT_ONCE])}
                    journal.append(run.journal, at, EVENT, "", {"delivery": delivery, "run": other, **named})


def missing(knew: Iterable[Knew], there: set[str], delivery: str, before: str = "~") -> dict[str, dict[str, str]]:
    """{run: {host: decision}}: runs of the delivery that another run knew, and that are not there."""
    found: dict[str, dict[str, str]] = {}
    for one in knew:
        for (named, run), hosts in one.items():
            if named == delivery and run not in there and run < before:
                found.setdefault(run, {}).update(hosts)
    return found


def lost(gone: Mapping[str, Mapping[str, str]]) -> dict[str, str]:
    """{host: what it was in a run that is gone}, in words; of those that failed there."""
    return {
        host: f"it was {decision} in run {run}, whose folder is gone"
        for run, hosts in sorted(gone.items())
        for host, decision in hosts.items()
        if decision in COUNTS
    }


def told(run: str, hosts: Mapping[str, str]) -> str:
    """A missing run, in words."""
    some = ", ".join(f"{host} {decision}" for host, decision in list(hosts.items())[:3])
    more = f" and {len(hosts) - 3} more" if len(hosts) > 3 else ""
    named = f" ({some}{more})" if hosts else ""
    return f"run {run} of the delivery is gone{named}, and a later run knew it: put its folder back"
