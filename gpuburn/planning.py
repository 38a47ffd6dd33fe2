"""Profiles x SKU x site = plan: all that a run on one host needs, resolved to numbers. Pure: no clock, no host."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from gpuburn import (
    __version__,
    criteria,
    declared,
    filled,
    judgement,
    limit as limits,
    needs,
    policy as policies,
    profile,
    resolve,
    rotation,
    site_limits,
    sku,
    storage as storages,
)
from gpuburn.baseline import Baseline
from gpuburn.limit import Limit, When
from gpuburn.measurement import Metric, Observed, Point
from gpuburn.plan import (
    SCHEMA,
    Device,
    Environment,
    Guard,
    Kind,
    LeftOut,
    Level,
    Place,
    Plan,
    Step,
    check,
    owner,
)
from gpuburn.policy import Policy
from gpuburn.probe import discover
from gpuburn.storage import Storage
from gpuburn.strict import Refused, known
from gpuburn.telemetry import TELEMETRY

SEED = 20260101  # shared by every run, so that bits can be compared over devices, hosts and years
GRACE = 900.0  # seconds over all timeouts: starting, sealing, and one boot of a large server
GUARDS = [
    Guard("disk_free", "GiB", "a full disk loses evidence, and on a system disk the host", min=1.0),
    Guard("memory_available", "GiB", "below this the kernel ends processes of its choice", min=0.25),
]
HEAT = Guard(
    "temperature", "C", "above every slowdown point that NVML reports on data-centre GPUs (87 to 93 C)", max=98.0
)
HELD = "a board that is held back under steps of load shows what supplies, feed or cooling cannot follow"
BRAKES: tuple[Literal["hw_slowdown", "hw_thermal", "sw_thermal", "power_brake"], ...] = (
    "hw_slowdown", "hw_thermal", "sw_thermal", "power_brake",
)  # fmt: skip
NO_BUDGET = "the site declares no power budget (gpuburn_power_budget_kw)"
FOREIGN = 0.1  # share of all CPUs
OTHERS = Guard(
    "foreign_load", "1",
    "share of all CPUs that others use for 30 s on end; a monitor takes a few per cent, a data loader or a build more",
    max=FOREIGN,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Request:
    """What the inventory and the look at a host say of it; one plan is made from one request.

    power: why the power domain must not be stepped; "" where the site's budget holds all that may be drawn there.
    storage: where the steps that test storage write, and how much.
    """

    run: str
    host: str
    kind: Kind
    level: Level
    profiles: tuple[str, ...]
    delivery: str = ""
    environment: Environment = "bare_metal"
    privileges: Literal["root", "user"] = "root"
    worker: str = ""
    sku: str = ""
    count: int = 0
    addresses: tuple[str, ...] = ()
    place: Place = field(default_factory=Place)
    site_limits: tuple[tuple[str, dict[str, Any]], ...] = ()
    only: tuple[str, ...] = ()
    grace: float = GRACE
    policy: Policy = field(default_factory=policies.load)
    baseline: Baseline | None = None
    foreign_load: float = FOREIGN
    power: str = NO_BUDGET
    storage: Storage = field(default_factory=Storage)


def make(request: Request, nonce: str, issued: float) -> Plan:
    """The plan of one host. nonce: fresh hex; issued: unix seconds. Raises Refused for what cannot be planned."""
    steps, left_out = asked(request, *offered(request))
    steps, left_out = profile.enough(steps, left_out, request.count)
    ordered = sku.load(request.sku, f"{request.host}: gpuburn_sku") if request.sku else None
    steps = [filled.step(one, discover()[one.probe], ordered, request.count, request.kind) for one in steps]
    steps, lowered = storages.place(steps, request.storage, request.count)
    if not steps:
        raise Refused(f"{request.host}: profiles {request.profiles} have no step at level {request.level}")
    other = request.baseline.fits(request.sku, request.kind, request.run) if request.baseline else ""
    if other:
        raise Refused(f"{request.host}: gpuburn_baseline: {other}")
    demands, silent = demand(request, steps)
    made = Plan(
            SCHEMA, request.run, request.delivery, request.host, request.kind, request.environment, request.privileges,
            request.worker, request.level, request.profiles, request.sku, request.place, devices(request), nonce, SEED,
            issued, issued + sum(step.timeout for step in steps) + request.grace, steps, demands,
            guards(request, steps), [*left_out, *silent],
            {"gpuburn": __version__}, [*notes(request), *lowered], request.policy.decision_rule, request.policy.digest,
    )  # fmt: skip
    made = replace(made, judgement=judgement.digest())
    return check(replace(made, criteria=criteria.digest(made)), f"plan of {request.host}")


def offered(request: Request) -> tuple[list[Step], list[LeftOut]]:
    """The steps of the profiles that device and site have all for; the others are listed with what is lacking."""
    ordered = sku.load(request.sku, f"{request.host}: gpuburn_sku") if request.sku else None
    lacks = functools.partial(needs.lacking, kind=request.kind, ordered=ordered, power=request.power)
    return profile.steps(list(request.profiles), request.level, request.kind, lacks)


def asked(request: Request, steps: list[Step], left_out: list[LeftOut]) -> tuple[list[Step], list[LeftOut]]:
    """The steps that the site asks for: all, or those it names; the others are listed as left out."""
    for name in request.only:
        known(name, [step.name for step in steps], f"{request.host}: gpuburn_steps")
    if not request.only:
        return steps, left_out
    others = [step for step in steps if step.name not in request.only]
    rest = [LeftOut(f"step {step.name}", "not among gpuburn_steps", step.profiles) for step in others]
    return [step for step in steps if step.name in request.only], [*left_out, *rest]


def guards(request: Request, steps: Iterable[Step] = ()) -> list[Guard]:
    """What steps load on purpose until something holds it back ends there: further steps of load would only repeat it.

    Foreign load ends no rehearsal or simulation, which run where people work, and no step in a container, where
    /proc tells of all tenants."""
    if request.kind == "rehearsal":
        return GUARDS
    alone = request.kind == "hardware" and request.environment != "container"
    stepped = tuple(sorted({step.probe for step in steps if discover()[step.probe].pulses}))
    held = [Guard(name, "s", HELD, max=0.0, probes=stepped) for name in BRAKES if stepped]
    return [*GUARDS, HEAT, *held, *([replace(OTHERS, max=request.foreign_load)] if alone else [])]


def devices(request: Request) -> list[Device]:
    """As many devices as the inventory says; addresses are those found, in PCI order, and may be fewer.

    A simulated GPU is told of by NVML's stand-in, and its work is done by the CPU.
    """
    if request.count < 1:
        wish = "gpuburn_processes" if request.kind == "rehearsal" else "gpuburn_gpu_count"
        raise Refused(f"{request.host}: {wish} is {request.count}, wanted is at least 1")
    if request.kind == "rehearsal":
        return [Device(f"cpu{index}", "cpu") for index in range(request.count)]
    sku.load(request.sku, f"{request.host}: gpuburn_sku")
    found = [*request.addresses, *[""] * request.count]
    where: Literal["cuda", "cpu"] = "cpu" if request.kind == "simulated" else "cuda"
    return [Device(f"gpu{index}", where, pci=found[index]) for index in range(request.count)]


def notes(request: Request) -> list[str]:
    """What a reader of the plan should know beyond its numbers."""
    one = request.baseline
    judged = [f"what has no reference number is judged by baseline {one.name}, SHA-256 {one.digest}"] if one else []
    if request.kind == "simulated":
        return [
            "simulated: a stand-in tells of the GPUs, and this host's CPU does the work; it accepts nothing",
            *judged,
        ]
    if request.kind != "rehearsal":
        return judged
    found = len(request.addresses)
    gpus = f"its {found} GPU(s) are not touched" if found else "no GPU was found on it"
    cpu = f"rehearsal: the steps run on this host's CPU in {request.count} processes; {gpus}; it accepts nothing"
    return [cpu, *judged]


def demand(request: Request, steps: list[Step]) -> tuple[list[Limit], list[LeftOut]]:
    """Every limit that applies, bound to its step; and each promise of a step that is not judged, with why."""
    merged = [*site_limits.merge(limits.load(), request.site_limits), *_ordered(request, steps)]
    conditions = declared.conditions()
    for limit in merged:
        declared.check(limit, conditions)
    merged = [site_limits.main_step(one, declared.promise(one.about), conditions["steps"]) for one in merged]
    ordered = sku.load(request.sku, f"{request.host}: gpuburn_sku") if request.sku else None
    book = [resolve.of_sku(limit, ordered, request.count) for limit in merged]
    for limit in book:
        resolve.possible(limit, ordered, steps if request.kind == "hardware" else [])
    found: list[Limit] = []
    left_out: list[LeftOut] = []
    for step in steps:
        for probe in (discover()[step.probe], TELEMETRY):
            for name, promised in probe.promises.items():
                mine = [one for one in book if one.about == f"{probe.name}.{name}"]
                points = probe.points(promised, step.params if probe.name == step.probe else {})
                some, silent = _bound(request, step, f"{probe.name}.{name}", promised, mine, points)
                must = resolve.built(promised.part, ordered, request.count)
                found += [replace(one, built=must) for one in some] if must else some
                left_out += silent if rotation.base(step.name) == step.name else []  # once for all turns
    return found, left_out


def _bound(
    request: Request, step: Step, about: str, promised: Metric | Observed, mine: list[Limit], points: list[Point]
) -> tuple[list[Limit], list[LeftOut]]:
    """The limits on one promise of a step, bound to it; and where no limit speaks of it, for which profiles."""
    where, base = f"{about} in step {step.name}", rotation.base(step.name)
    applying = [one for one in mine if one.when.applies(request.kind, request.level, request.environment, base)]
    if request.kind not in promised.kinds or not applying:
        return [], [LeftOut(where, _why(request, promised, mine), step.profiles)]
    narrow = [one for one in (limits.narrowed(one, step.name, step.profiles) for one in applying) if one.when.profiles]
    narrow = site_limits.over(narrow, points)
    narrow = _by_baseline(request, step, promised, narrow, points)
    found = [one for one in narrow if any(one.when.point.includes(point) for point in points)]
    silent = [
        LeftOut(
            f"{where} at {one.when.point}", "a limit names this point, which the step does not have", one.when.profiles
        )
        for one in narrow
        if one not in found
    ]
    for point in points:
        heard = {profile for one in found if one.when.point.includes(point) for profile in one.when.profiles}
        deaf = tuple(profile for profile in step.profiles if profile not in heard)
        if deaf:
            silent.append(LeftOut(f"{where} at {point}" if point.items else where, "no limit speaks of it", deaf))
    return found, silent


def _by_baseline(
    request: Request, step: Step, promised: Metric | Observed, narrow: list[Limit], points: list[Point]
) -> list[Limit]:
    """What has no number of its own is judged by the baseline that the site names."""
    if request.baseline is None or not isinstance(promised, Metric) or not promised.better:
        return narrow
    judged: list[Limit] = []
    for one in narrow:
        here = [point for point in points if one.when.point.includes(point)]
        shares = request.policy.baseline
        judged += (
            resolve.of_baseline(one, step, promised, here, request.count, request.baseline, shares, request.host)
            if one.uncalibrated
            else [one]
        )
    return judged


def _why(request: Request, promised: Metric | Observed, mine: list[Limit]) -> str:
    if request.kind not in promised.kinds:
        return f"not promised in a run of kind {request.kind}"
    if not mine:
        return "no limit speaks of it"
    return f"no limit at level {request.level} for kind {request.kind}: {mine[0].because or mine[0].informational}"


def _ordered(request: Request, steps: Iterable[Step]) -> list[Limit]:
    """What the order itself demands: as many GPUs as were bought, and of that model."""
    if request.kind != "hardware":
        return []
    count, found = float(request.count), []
    many = f"gpuburn_gpu_count: {request.count} GPUs were ordered for this host"
    for step in steps:
        if "gpus" in owner("identity", step, discover()).metrics:
            when = When(steps=(step.name,), profiles=step.profiles)
            found.append(Limit("identity.gpus", "count", many, min=count, max=count, source="contract", when=when))
            model = f"gpuburn_sku: {request.sku} was ordered; PCI id first, then the whole name"
            found.append(Limit("identity.gpu_sku", "", model, equals=request.sku, source="contract", when=when))
    return found


def fresh_nonce(entropy: bytes) -> str:
    """A nonce of 32 hex digits from random bytes of the caller."""
    return hashlib.sha256(entropy).hexdigest()[:32]
