"""What the looks at a host's BMC amount to, as findings. Pure: the looks, what the host says of itself, the policy."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

from gpuburn.bmc import MOMENTS, SEVERITIES, Inband, Log, Look, Moment, Supply, compare
from gpuburn.finding import Finding, Verdict, finding
from gpuburn.plan import HOST

PASS, FAIL, INCOMPLETE, NOT_APPLICABLE = Verdict
EVIDENCE = "../bmc.json"  # beside the run folder, which came from the host: this did not
HOLDERS = ("bmc.system.", "bmc.chassis.")  # whose health BMCs make of their parts
SHOWN = 3  # lines of a log that a finding names
CODES = {"agrees": "bmc.agrees", "differs": "bmc.differs", "not comparable": "bmc.not_comparable"}
VERDICTS = {"agrees": PASS, "differs": FAIL, "not comparable": NOT_APPLICABLE}
GRADES = {
    "Critical": ("bmc.event_critical", FAIL, "severity Critical"),
    "Warning": ("bmc.event_warning", PASS, "severity Warning"),
    "": ("bmc.event_warning", PASS, "no known severity"),
}
NONE = "no BMC is named for this host (gpuburn_bmc_address): its supplies, inlet and event log were not seen"


@dataclass(frozen=True, slots=True)
class Asked:
    """Of whom: the profiles whose verdicts this enters. supplies: what a power supply that is not OK leads to."""

    profiles: tuple[str, ...]
    ordered: int = 0
    supplies: Literal["inform", "warn", "fail"] = "warn"


def unnamed(profiles: tuple[str, ...]) -> Finding:
    """A host without BMC: nothing is demanded of one, and what only it could tell is listed as not seen."""
    return finding("bmc.none", "bmc", NOT_APPLICABLE, NONE, "fleet", profiles)


def findings(looks: list[Look], inband: Inband | None, asked: Asked) -> list[Finding]:
    """Everything that the looks say. inband: None where nothing came home to compare them with."""
    by_moment = {look.moment: look for look in looks}
    found: list[Finding] = []
    for moment in ("start", "end"):
        found += _heard(by_moment.get(moment), moment, asked)
    heard = [look for look in looks if not look.silent]
    if heard:
        last = heard[-1]
        found += [*_same(last, inband, asked), *_supplies(heard, asked), *_inlet(heard, asked)]
        found += [*_health(heard, asked), *_changed(heard, asked)]
        found += _log(by_moment.get("finding"), by_moment.get("end"), asked)
    return found


def broken(why: str, asked: Asked) -> Finding:
    """What was kept of a BMC is not what the journal vouches for."""
    return _one("bmc.unread", "bmc", INCOMPLETE, why, asked)


def _heard(look: Look | None, moment: Moment, asked: Asked) -> Iterator[Finding]:
    if look is None:
        yield _one("bmc.silent", "bmc", INCOMPLETE, f"no look at it was taken at {MOMENTS[moment]}", asked)
        return
    if look.silent:
        yield _one("bmc.silent", "bmc", INCOMPLETE, f"at {MOMENTS[moment]}: {look.silent}", asked)
    for what, why in look.unread.items():
        yield _one("bmc.unread", "bmc", INCOMPLETE, f"at {MOMENTS[moment]}: {what}: {why}", asked)
    if look.verified == "unverified" and moment == "end":
        why = "its certificate was not verified, as the site says (gpuburn_bmc_verify: false)"
        yield _one("bmc.unverified", "bmc", NOT_APPLICABLE, why, asked)


def _same(look: Look, inband: Inband | None, asked: Asked) -> Iterator[Finding]:
    if inband is None:
        return
    for one in compare(inband, look):
        yield _one(CODES[one.outcome], one.about, VERDICTS[one.outcome], one.why, asked, one.subject)
    if not look.gpus:
        yield _one("bmc.not_comparable", "bmc.gpus", NOT_APPLICABLE, "the BMC lists no GPU", asked)
        return
    here = inband.count if inband.count is not None else asked.ordered
    what = "sees" if inband.count is not None else "was ordered with"
    why = f"the BMC counts {look.gpus} GPUs, the host {what} {here}"
    more = look.gpus - here
    verdict = PASS if not more else FAIL if more > 0 else INCOMPLETE
    yield _one("bmc.agrees" if not more else "bmc.gpu_count", "bmc.gpus", verdict, why, asked)


def _supplies(heard: list[Look], asked: Asked) -> Iterator[Finding]:
    """Each power supply that was there in either look; the worse of both counts, and one that is gone is told."""
    last = heard[-1]
    names = dict.fromkeys(one.name for look in heard for one in look.supplies)
    if not names:
        yield _one("bmc.not_comparable", "bmc.psu", NOT_APPLICABLE, "the BMC lists no power supply", asked)
    for name in names:
        seen = [(look.moment, one) for look in heard for one in look.supplies if one.name == name]
        here = any(one.name == name for one in last.supplies)
        yield _supply(name, seen, asked) if here else _gone(seen[0][1], last, asked)


def _supply(name: str, seen: list[tuple[Moment, Supply]], asked: Asked) -> Finding:
    """One supply, as it was at each moment. One that tells nothing of its state is listed, not passed."""
    moment, worst = min(seen, key=lambda told: 0 if not told[1].ok else 1 if not told[1].told else 2)
    about, why = f"bmc.psu.{name}", f"{worst.words()} at {MOMENTS[moment]}"
    if not worst.ok:
        return _bad(about, f"{why}; wanted is OK", asked)
    if not worst.told:
        return _one("bmc.not_comparable", about, NOT_APPLICABLE, why, asked)
    return _one("bmc.agrees", about, PASS, worst.words(), asked)


def _gone(one: Supply, last: Look, asked: Asked) -> Finding:
    """A supply of the start that is not there at the end: pulled or dead, if the supplies were read in full."""
    about = f"bmc.psu.{one.name}"
    if any(what.startswith("bmc.chassis") for what in last.unread):
        return _one("bmc.unread", about, INCOMPLETE, "there at the start of the run, and not read at its end", asked)
    number = f" (serial {one.serial})" if one.serial else ""
    return _bad(about, f"there at the start of the run{number}, gone at its end; wanted is that it stays", asked)


def _bad(about: str, why: str, asked: Asked) -> Finding:
    """A supply that is not as it should be leads to what the policy says."""
    verdict = {"inform": NOT_APPLICABLE, "warn": PASS, "fail": FAIL}[asked.supplies]
    return _one("bmc.supply", about, verdict, why, asked, marginal=asked.supplies == "warn")


def _inlet(heard: list[Look], asked: Asked) -> Iterator[Finding]:
    told = [f"{look.inlet:g} C at {MOMENTS[look.moment]}" for look in heard if look.inlet is not None]
    why = f"{', '.join(told)}; no limit: the room's business" if told else "the BMC tells no inlet temperature"
    yield _one("informational", "bmc.inlet", NOT_APPLICABLE, why, asked)


def _health(heard: list[Look], asked: Asked) -> Iterator[Finding]:
    """What the parts say of themselves, the worst word of either look; one that says nothing is not counted as OK."""
    said: dict[str, str] = {}
    for look in heard:
        for name, word in look.health.items():
            said[name] = max(said.get(name, word), word, key=lambda one: SEVERITIES.index(_grade(one)))
    supplied = all(one.ok for look in heard for one in look.supplies)
    for name, word in sorted(said.items()):
        if word != "OK":
            yield _unwell(name, word, supplied, asked)
    good = sum(word == "OK" for word in said.values())
    if not said:
        yield _one("bmc.not_comparable", "bmc.health", NOT_APPLICABLE, "no part says how it is", asked)
    elif good:
        yield _one("bmc.agrees", "bmc.health", PASS, f"{good} of {len(said)} parts say of themselves OK", asked)


def _unwell(name: str, word: str, supplied: bool, asked: Asked) -> Finding:
    """One part that is not OK. supplied: whether every supply is: a system or chassis with one that is not says the
    supply's word for its own, and that leads to what a supply leads to."""
    why = f"health {word}; wanted is OK"
    if name.startswith(HOLDERS) and not supplied:
        return _bad(name, f"{why}; a power supply is not OK, and this may be its word", asked)
    if _grade(word) == "Critical":
        return _one("bmc.health_critical", name, FAIL, why, asked)
    return _one("bmc.health_warning", name, PASS, why, asked, marginal=True)


def _grade(word: str) -> str:
    """A word that Redfish does not have is not known to be harmless."""
    return word if word in SEVERITIES else "Warning"


def _changed(heard: list[Look], asked: Asked) -> Iterator[Finding]:
    """A number that the BMC told twice, and not the same: another machine, or a part that was swapped."""
    if len(heard) < 2 or heard[0].identity is None or heard[-1].identity is None:
        return
    first, last = heard[0].identity, heard[-1].identity
    for source in sorted(first.sources):
        for key in ("serial", "uuid"):
            was, now = first.value(f"{source}.{key}"), last.value(f"{source}.{key}")
            if was and now and was != now:
                yield _one("bmc.changed", f"{source}.{key}", FAIL, f"was {was}, is {now} at the end of the run", asked)


def _log(earlier: Look | None, look: Look | None, asked: Asked) -> Iterator[Finding]:
    """What its event logs have gained over the run; a critical line fails, whoever it is about.

    earlier: at the first hardware finding. What it saw counts, also where the log was cleared or wrapped round since.
    """
    if look is None or look.silent:
        return
    log = _both(earlier.log, look.log) if earlier and not earlier.silent else look.log
    if log.missing:
        yield _one("bmc.unread", "bmc.log", INCOMPLETE, log.missing, asked)
    told = [found for severity in GRADES if (found := _came(log, severity, asked))]
    yield from told
    if not told and not log.missing:
        yield _one("bmc.log_quiet", "bmc.log", PASS, "no warning and nothing critical during the run", asked)


def _both(earlier: Log, last: Log) -> Log:
    """The later log, with the lines that it no longer has."""
    lost = [one for one in earlier.lines if one not in last.lines]
    counts = {one: max(earlier.counts.get(one, 0), last.counts.get(one, 0)) for one in {*earlier.counts, *last.counts}}
    return replace(last, lines=[*last.lines, *lost], counts=counts)


def _came(log: Log, severity: str, asked: Asked) -> Finding | None:
    """The lines of one severity. Without a known one nothing tells that a line is harmless: it is no quiet log."""
    if not (count := log.counts.get(severity, 0)):
        return None
    code, verdict, words = GRADES[severity]
    mine = [one for one in log.lines if (one.severity if one.severity in SEVERITIES else "") == severity]
    named = [f"{one.created} {one.text}".strip() for one in mine][:SHOWN]
    why = f"{count} line(s) of {words} during the run: {'; '.join(named)}"
    return _one(code, "bmc.log", verdict, why, asked, marginal=verdict is PASS)


def _one(
    code: str, about: str, verdict: Verdict, why: str, asked: Asked, subject: str = HOST, marginal: bool = False
) -> Finding:
    return finding(
        code, about, verdict, why, "fleet", asked.profiles, marginal=marginal, subject=subject, evidence=EVIDENCE
    )  # fmt: skip
