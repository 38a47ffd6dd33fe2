"""The one input of a run on a host: what is run, on which devices, and what is demanded of it.

Every number is resolved here, so that a result never depends on a file that has changed since.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import permutations
from typing import Any, Literal

from gpuburn import strict
from gpuburn.limit import Limit
from gpuburn.measurement import Metric, Observed, Point
from gpuburn.probe import Probe, Scope, discover
from gpuburn.strict import Refused, known
from gpuburn.telemetry import TELEMETRY

SCHEMA: Literal["gpuburn/plan/1"] = "gpuburn/plan/1"
HOST = "host"
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,59}")
LEVELS = ("smoke", "quick", "standard", "soak")
Level = Literal["smoke", "quick", "standard", "soak"]
Kind = Literal["hardware", "rehearsal", "simulated"]
Environment = Literal["bare_metal", "vm", "container"]


@dataclass(frozen=True, slots=True)
class Device:
    """One device that must answer: gpu0... in PCI order, or cpu0... of a rehearsal. Empty identity: not known yet.

    kind: where its work is done; a simulated run's GPUs have addresses, and work on the CPU.
    """

    name: str
    kind: Literal["cuda", "cpu"]
    pci: str = ""
    uuid: str = ""
    serial: str = ""

    @property
    def gpu(self) -> bool:
        """Whether it is a GPU that NVML tells of, also a simulated one."""
        return self.name.startswith("gpu")


@dataclass(frozen=True, slots=True)
class Guard:
    """A bound that the supervisor enforces while running; crossing it ends the step.

    probes: only in steps of these probes; of none named in all.
    """

    name: Literal[
        "temperature", "disk_free", "memory_available", "foreign_load", "hw_slowdown", "hw_thermal", "sw_thermal",
        "power_brake",
    ]  # fmt: skip
    unit: str
    because: str
    min: float | None = None
    max: float | None = None
    probes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Step:
    """A probe with its parameters. threads: per process (0 = left alone); expected and timeout in seconds."""

    name: str
    probe: str
    scope: Scope
    revision: int
    profiles: tuple[str, ...]
    because: str
    params: dict[str, Any]
    expected: float
    timeout: float
    threads: int = 1
    env: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class LeftOut:
    """What this plan does not demand, and why."""

    what: str
    why: str
    profiles: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Place:
    """Where the host stands, as the inventory says."""

    rack: str = ""
    unit: str = ""
    power_domain: str = ""


@dataclass(frozen=True, slots=True)
class Plan:
    """issued and deadline are unix seconds of the controller; the run is over at the deadline, finished or not.

    privileges: whether the supervisor is root (kernel log, DMI). worker: the account of the workers ("" = the same).
    decision_rule: how a value near its limit is judged (policy.yml). policy, criteria: SHA-256 of the policy, and of
    all that the host is judged by (criteria.py). judgement: of the way of judging itself (judgement.py).
    """

    schema: Literal["gpuburn/plan/1"]
    run: str
    delivery: str
    host: str
    kind: Kind
    environment: Environment
    privileges: Literal["root", "user"]
    worker: str
    level: Level
    profiles: tuple[str, ...]
    sku: str
    place: Place
    devices: list[Device]
    nonce: str
    seed: int
    issued: float
    deadline: float
    steps: list[Step]
    limits: list[Limit]
    guards: list[Guard]
    left_out: list[LeftOut]
    versions: dict[str, str]
    notes: list[str] = field(default_factory=list)
    decision_rule: Literal["simple", "guard_band"] = "simple"
    policy: str = ""
    criteria: str = ""
    judgement: str = ""

    def step(self, name: str) -> Step | None:
        return next((step for step in self.steps if step.name == name), None)

    def device_names(self) -> list[str]:
        return [device.name for device in self.devices]

    def expected(self) -> float:
        """Seconds that the steps are expected to take together."""
        return sum(step.expected for step in self.steps)


def subjects(plan: Plan, step: Step) -> list[str]:
    """Whom a step's outcome must speak about."""
    return [HOST] if step.scope == "host" else plan.device_names()


def pair(one: str, other: str) -> str:
    """The subject that is an ordered pair of devices: from the one to the other."""
    return f"{one}>{other}"


def members(subject: str) -> list[str]:
    """The devices of a pair; of any other subject itself."""
    return subject.split(">")


def pairs(names: Iterable[str]) -> list[str]:
    """Every ordered pair of devices."""
    return [pair(one, other) for one, other in permutations(names, 2)]


def owner(name: str, step: Step, probes: dict[str, Probe]) -> Probe:
    """The declaration behind the first half of "probe.metric" in a step: the step's own probe, or the telemetry."""
    return TELEMETRY if name == TELEMETRY.name else probes[step.probe]


def promise(limit: Limit, step: Step, probes: dict[str, Probe]) -> Metric | Observed:
    """The declaration that a limit speaks of."""
    probe, _, name = limit.about.partition(".")
    declared = owner(probe, step, probes)
    return declared.promises[name]


def explained(step: Step, probes: dict[str, Probe]) -> tuple[str, ...]:
    """The facts, by full name, that say why a number of the step or of its telemetry is absent."""
    declared = (probes[step.probe], TELEMETRY)
    return tuple(f"{probe.name}.{name}" for probe in declared for name, one in probe.facts.items() if one.explains)


def reference(limit: Limit, step: Step, probes: dict[str, Probe]) -> Metric | None:
    """The metric behind the other number of the same result that a limit is a share of."""
    probe, _, name = limit.of.partition(".")
    return owner(probe, step, probes).metrics[name] if limit.of else None


def demanded(plan: Plan, limit: Limit, step: Step, probes: dict[str, Probe]) -> Iterable[tuple[str, Point]]:
    """Every subject and point that a limit must find an answer for: from the plan, never from what was measured."""
    declared = promise(limit, step, probes)
    probe = owner(limit.about.partition(".")[0], step, probes)
    names = plan.device_names()
    whom = {"host": [HOST], "device": names, "pair": pairs(names)}.get(declared.per) or subjects(plan, step)
    params = step.params if probe.name == step.probe else {}
    for subject in whom:
        for point in probe.points(declared, params):
            if limit.when.point.includes(point):
                yield subject, point


def check(plan: Plan, where: str = "plan") -> Plan:
    """Refuse a plan that cannot be carried out or judged, before the first watt is burnt."""
    probes = discover()
    names = [step.name for step in plan.steps]
    if len(set(names)) != len(names):
        raise Refused(f"{where}: two steps have the same name in {names}")
    if len(set(plan.device_names())) != len(plan.devices) or HOST in plan.device_names():
        raise Refused(f"{where}: devices need names of their own, found are {plan.device_names()}")
    if not plan.steps or not plan.devices or not plan.profiles:
        raise Refused(f"{where}: a plan needs profiles, devices and steps")
    for step in plan.steps:
        _check_step(plan, step, probes, f"{where}: step {step.name}")
    for limit in plan.limits:
        _check_limit(plan, limit, probes, f"{where}: limit {limit.about}")
    return plan


def _check_share(limit: Limit, step: Step, probes: dict[str, Probe], where: str) -> None:
    """A share of another measurement: of the same step (or its telemetry), in the same unit."""
    probe, _, name = limit.of.partition(".")
    known(probe, [step.probe, TELEMETRY.name], f"{where}: of")
    metrics = owner(probe, step, probes).metrics
    known(name, metrics, f"{where}: of: metric of {probe}")
    if metrics[name].unit != limit.unit:
        raise Refused(f"{where}: {limit.of} is measured in {metrics[name].unit!r}, limited in {limit.unit!r}")


def _check_step(plan: Plan, step: Step, probes: dict[str, Probe], where: str) -> None:
    if not NAME.fullmatch(step.name):
        raise Refused(f"{where}: a step's name is a folder's: letters, digits, _ and -, at most 60")
    known(step.probe, probes, f"{where}: probe")
    if not step.profiles:
        raise Refused(f"{where}: a step serves at least one profile")
    probe = probes[step.probe]
    probe.settled(step.params, where)
    if step.scope != probe.scope:
        raise Refused(f"{where}: scope {step.scope!r}, {probe.name} runs per {probe.scope!r}")
    if step.timeout <= 0 or step.expected <= 0 or step.timeout < step.expected:
        raise Refused(f"{where}: timeout {step.timeout:g} s must be at least the expected {step.expected:g} s, above 0")
    for profile in step.profiles:
        known(profile, plan.profiles, f"{where}: profile")


def _check_limit(plan: Plan, limit: Limit, probes: dict[str, Probe], where: str) -> None:
    for name in limit.when.steps:
        step = plan.step(name)
        if step is None:
            raise Refused(f"{where}: unknown step {name!r}; the plan has {', '.join(s.name for s in plan.steps)}")
        probe, _, metric = limit.about.partition(".")
        known(probe, [step.probe, TELEMETRY.name], f"{where}: probe of step {name}")
        declared = owner(probe, step, probes)
        known(metric, [*declared.metrics, *declared.facts], f"{where}: metric or fact of {probe}")
        fits(limit, declared, where)
        if limit.of:
            _check_share(limit, step, probes, where)
        if not any(demanded(plan, limit, step, probes)):
            raise Refused(f"{where}: step {name} has no point {str(limit.when.point)!r}, so that it demands nothing")
    for profile in limit.when.profiles:
        known(profile, plan.profiles, f"{where}: profile")
    if not limit.when.profiles:
        raise Refused(f"{where}: a limit in a plan names the profiles that it is for")
    if not limit.when.steps:
        raise Refused(f"{where}: a limit in a plan names its step")


def fits(limit: Limit, probe: Probe, where: str) -> None:
    """Refuse a limit whose unit or form is not that of the metric or fact that it is about."""
    name = limit.about.partition(".")[2]
    metric = probe.metrics.get(name)
    if metric and (limit.agree or limit.equals is not None):
        raise Refused(f"{where}: {limit.about} is a number; wanted is min or max")
    if not metric and (limit.numeric or limit.of):
        raise Refused(f"{where}: {limit.about} is a fact; wanted is equals or agree")
    if metric and (limit.numeric or limit.of) and limit.unit != metric.unit:
        raise Refused(f"{where}: {limit.about} is measured in {metric.unit!r}, limited in {limit.unit!r}")


def decode(data: bytes, where: str = "plan.json") -> Plan:
    """Read a plan strictly, and refuse one that cannot be carried out."""
    document = strict.loads(data, where)
    if not isinstance(document, dict) or document.get("schema") != SCHEMA:
        found = document.get("schema") if isinstance(document, dict) else document
        raise Refused(f"{where}: schema {strict.short(found)}, this version reads {SCHEMA!r}")
    return check(strict.build(Plan, document, where), where)
