"""What the looks at a host's BMC amount to, as findings. Pure: the looks, what the host says of itself, the policy."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from gpuburn.bmc import Inband, Look, Moment, compare
from gpuburn.finding import Finding, Verdict, finding
from gpuburn.plan import HOST

PASS, FAIL, INCOMPLETE, NOT_APPLICABLE = Verdict
EVIDENCE = "../bmc.json"  # beside the run folder, which came from the host: this did not
SHOWN = 3  # lines of a log that a finding names
CODES = {"agrees": "bmc.agrees", "differs": "bmc.differs", "not comparable": "bmc.not_comparable"}
VERDICTS = {"agrees": PASS, "differs": FAIL, "not comparable": NOT_APPLICABLE}
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
        found += [*_same(last, inband, asked), *_supplies(last, asked), *_inlet(heard, asked)]
        found += [*_changed(heard, asked), *_log(by_moment.get("end"), asked)]
    return found


def broken(why: str, asked: Asked) -> Finding:
    """What was kept of a BMC is not what the journal vouches for."""
    return _one("bmc.unread", "bmc", INCOMPLETE, why, asked)


def _heard(look: Look | None, moment: Moment, asked: Asked) -> Iterator[Finding]:
    if look is None:
        yield _one("bmc.silent", "bmc", INCOMPLETE, f"no look at it was taken at the {moment} of the run", asked)
        return
    if look.silent:
        yield _one("bmc.silent", "bmc", INCOMPLETE, f"at the {moment} of the run: {look.silent}", asked)
    for what, why in look.unread.items():
        yield _one("bmc.unread", "bmc", INCOMPLETE, f"at the {moment} of the run: {what}: {why}", asked)
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


def _supplies(look: Look, asked: Asked) -> Iterator[Finding]:
    """Each power supply that is there. One that tells nothing of its state is listed, not passed."""
    if not look.supplies:
        yield _one("bmc.not_comparable", "bmc.psu", NOT_APPLICABLE, "the BMC lists no power supply", asked)
    for one in look.supplies:
        why = f"state {one.state or 'not told'}, health {one.health or 'not told'}"
        about = f"bmc.psu.{one.name}"
        if not one.told:
            yield _one("bmc.not_comparable", about, NOT_APPLICABLE, why, asked)
        elif one.ok:
            yield _one("bmc.agrees", about, PASS, why, asked)
        else:
            verdict = {"inform": NOT_APPLICABLE, "warn": PASS, "fail": FAIL}[asked.supplies]
            yield _one("bmc.supply", about, verdict, f"{why}; wanted is OK", asked, marginal=asked.supplies == "warn")


def _inlet(heard: list[Look], asked: Asked) -> Iterator[Finding]:
    told = [f"{look.inlet:g} C at the {look.moment}" for look in heard if look.inlet is not None]
    why = f"{', '.join(told)}; no limit: the room's business" if told else "the BMC tells no inlet temperature"
    yield _one("informational", "bmc.inlet", NOT_APPLICABLE, why, asked)


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


def _log(look: Look | None, asked: Asked) -> Iterator[Finding]:
    """What its event logs have gained over the run; a critical line fails, whoever it is about."""
    if look is None or look.silent:
        return
    log = look.log
    if log.missing:
        yield _one("bmc.unread", "bmc.log", INCOMPLETE, log.missing, asked)
    critical, warnings = log.counts.get("Critical", 0), log.counts.get("Warning", 0)
    for severity, code, verdict, count in (
        ("Critical", "bmc.event_critical", FAIL, critical), ("Warning", "bmc.event_warning", PASS, warnings),
    ):  # fmt: skip
        if count:
            named = [f"{one.created} {one.text}".strip() for one in log.lines if one.severity == severity][:SHOWN]
            why = f"{count} line(s) of severity {severity} during the run: {'; '.join(named)}"
            yield _one(code, "bmc.log", verdict, why, asked, marginal=verdict is PASS)
    if not critical and not warnings and not log.missing:
        yield _one("bmc.log_quiet", "bmc.log", PASS, "no warning and nothing critical during the run", asked)


def _one(
    code: str, about: str, verdict: Verdict, why: str, asked: Asked, subject: str = HOST, marginal: bool = False
) -> Finding:
    return finding(
        code, about, verdict, why, "fleet", asked.profiles, marginal=marginal, subject=subject, evidence=EVIDENCE
    )  # fmt: skip
