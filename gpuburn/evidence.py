"""The evidence files of a step: lines that workers append, read back strictly, and what they amount to.

The host and the controller make an outcome's numbers from the same files by the same function.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from gpuburn import strict
from gpuburn.measurement import Fact, Measurement, Metric, Observed, Reading, Work, measure
from gpuburn.probe import Probe, Taken
from gpuburn.strict import MEBIBYTE, Refused

LINES = 64 * MEBIBYTE  # bytes per file: an hour of eight devices at one line a second and metric is below 10 MiB
WORKERS, SAMPLER, NVML_EVENTS = "readings.*.jsonl", "telemetry.jsonl", "nvml_events.jsonl"
MINUTES = "telemetry.minutes.jsonl"  # what the sampler's passes of a long step became; SAMPLER holds the last ones
WORKER_UUID = "worker.uuid"  # a fact that every worker on a GPU may yield; no promise has a dot in its name
KINDS: dict[str, type] = {"reading": Reading, "fact": Fact, "work": Work}
NAMES = {kind: name for name, kind in KINDS.items()}


def dump(taken: Taken) -> bytes:
    """One line of evidence."""
    return strict.line({NAMES[type(taken)]: taken})


def parse(data: bytes, where: str) -> list[Taken]:
    """Read evidence back. A last line without its newline was cut by a crash and is left out; all else is strict."""
    found: list[Taken] = []
    whole, _, _ = data.rpartition(b"\n")
    for number, text in enumerate(whole.splitlines(), 1):
        document = strict.loads(text, f"{where}:{number}")
        if not isinstance(document, dict) or len(document) != 1:
            raise Refused(f"{where}:{number}: wanted is one of {', '.join(KINDS)}")
        [(name, value)] = document.items()
        strict.known(name, KINDS, f"{where}:{number}")
        found.append(strict.build(KINDS[name], value, f"{where}:{number}"))
    return found


def read(folder: Path, pattern: str) -> list[Taken]:
    """All that a step's files of that name hold: WORKERS, or a file of the sampler. Neither speaks for the other."""
    found: list[Taken] = []
    for path in sorted(folder.glob(pattern)):
        found += parse(strict.load_file(path, LINES), f"{folder.name}/{path.name}")
    return found


def sampled(folder: Path) -> list[Taken]:
    """What the sampler of a step saw: its minutes, and the passes that came after the last of them."""
    settled = read(folder, MINUTES)
    last = max((one.at for one in settled if isinstance(one, Reading)), default=None)
    passes = read(folder, SAMPLER)
    return [*settled, *(one for one in passes if last is None or not isinstance(one, Reading) or one.at > last)]


def declared(taken: Iterable[Taken], probes: Iterable[Probe], subjects: Iterable[str]) -> list[Taken]:
    """The same entries, if every one is about a declared name and a planned subject; else Refused."""
    names = {WORKER_UUID, *(name for one in probes for name in (*one.metrics, *one.facts))}
    allowed = {*subjects, "host"}
    entries = list(taken)
    for one in entries:
        if one.subject not in allowed:
            raise Refused(f"evidence about {strict.short(one.subject)}, which the plan does not have")
        name = one.metric if isinstance(one, Reading) else one.name if isinstance(one, Fact) else ""
        if name and name not in names:
            raise Refused(f"evidence of {strict.short(name)}, which no probe of this step declares")
    return entries


def amounts(taken: Iterable[Taken], probes: Iterable[Probe]) -> tuple[list[Measurement], list[Fact], dict[str, Work]]:
    """Measurements, facts (full names; contradicting facts of one subject are all kept) and work per subject."""
    readings: list[Reading] = []
    facts: list[Fact] = []
    work: dict[str, Work] = {}
    for one in taken:
        if isinstance(one, Reading):
            readings.append(one)
        elif isinstance(one, Fact):
            facts.append(one)
        else:
            work[one.subject] = work.get(one.subject, Work()) + one
    measurements: list[Measurement] = []
    named: set[Fact] = set()
    for probe in probes:
        mine: dict[str, Metric] = probe.metrics
        measurements += measure(probe.name, mine, [r for r in readings if r.metric in mine])
        said: dict[str, Observed] = probe.facts
        named |= {Fact(f"{probe.name}.{f.name}", f.value, f.point, f.subject) for f in facts if f.name in said}
    named |= {fact for fact in facts if fact.name == WORKER_UUID}
    return measurements, sorted(named, key=lambda f: (f.name, f.subject, str(f.point), f.value)), work
