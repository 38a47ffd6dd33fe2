"""Which plans a person asks about: those of an inventory's hosts, of an order on the command line, or of a run.

Hosts with equal criteria are one group. Nothing is reached, written or started.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gpuburn import criteria, planning, strict
from gpuburn.controller import ansible_inventory, preflight, whole_run
from gpuburn.controller.explain import Group
from gpuburn.controller.preflight import Host
from gpuburn.controller.run import Run
from gpuburn.controller.site import LIMITS, PREFIX
from gpuburn.plan import Place, Plan
from gpuburn.policy import Policy
from gpuburn.strict import Refused, known

NO_RUN = "00000000T000000Z-0000"
FORMS = "wanted is --inventory or -l (hosts of an inventory), --sku and --count (an order), or --run (a run)"


@dataclass(frozen=True, slots=True)
class Selection:
    """What the command line says; empty: not given."""

    inventory: str = ""
    pattern: str = ""
    extra: list[str] = field(default_factory=list)
    sku: str = ""
    count: int = 0
    profiles: list[str] = field(default_factory=list)
    level: str = ""
    kind: str = ""
    environment: str = ""
    limits: Path | None = None
    run: str = ""
    hosts: list[str] = field(default_factory=list)
    reports: Path = Path("reports")


def groups(asked: Selection) -> list[Group]:
    """The groups that are asked for, in the order of their first hosts."""
    order = bool(asked.sku or asked.count or asked.profiles or asked.level or asked.kind or asked.environment)
    order = order or asked.limits is not None
    forms = [bool(asked.inventory or asked.pattern or asked.extra), order, bool(asked.run)]
    if sum(forms) != 1:
        raise Refused(f"{'two ways at once' if sum(forms) else 'nothing'} to choose a plan; {FORMS}")
    if asked.hosts and not asked.run:
        raise Refused("--host goes with --run; wanted for an inventory is -l")
    return of_run(asked) if asked.run else of_order(asked) if order else of_inventory(asked)


def of_inventory(asked: Selection) -> list[Group]:
    source = asked.inventory or preflight.INVENTORY
    found = ansible_inventory.variables(source, asked.pattern, asked.extra)
    plans: dict[bytes, Plan] = {}
    return _grouped([_planned(one, plans) for one in preflight.expect(found, source)])


def of_order(asked: Selection) -> list[Group]:
    """One host as the command line orders it, by the same checks as an inventory's."""
    count = "processes" if asked.kind == "rehearsal" else "gpu_count"
    said = {"profiles": asked.profiles, "level": asked.level, "kind": asked.kind, "environment": asked.environment,
            "sku": asked.sku, count: asked.count}  # fmt: skip
    variables: dict[str, Any] = {f"{PREFIX}{name}": value for name, value in said.items() if value}
    source = "command line"
    if asked.limits is not None:
        source = str(asked.limits)
        variables |= read_limits(asked.limits)
    if asked.kind == "rehearsal":
        variables[f"{PREFIX}become"] = False
    [host] = preflight.expect({"order": variables}, source)
    one = _planned(host, {})
    return _grouped([dataclasses.replace(one, hosts=[], variables={about: [source] for about in one.variables})])


def read_limits(path: Path) -> dict[str, Any]:
    """A file of limits as an inventory has them: {probe.metric: limit}, or under names such as gpuburn_limits_site."""
    if not path.is_file():
        raise Refused(f"{path}: not a file; wanted is YAML such as {{gemm.tflops: {{min: 620, unit: TFLOP/s, ...}}}}")
    found = strict.load_yaml(path)
    if not isinstance(found, dict) or not found:
        raise Refused(f"{path}: wanted is a mapping of probe.metric to a limit")
    named = [str(one) for one in found if str(one).startswith(LIMITS)]
    if named and len(named) != len(found):
        raise Refused(f"{path}: {named[0]} beside other keys; wanted is one shape or the other")
    return found if named else {LIMITS: found}


def of_run(asked: Selection) -> list[Group]:
    """The plans that a run keeps, with the policy that it began with."""
    run = Run.of(asked.reports, asked.run)
    names = [one.host for one in run.expected()]
    for name in asked.hosts:
        known(name, names, f"run {run.id}: --host")
    kept = [(name, run.plan(name)) for name in names if not asked.hosts or name in asked.hosts]
    found = [_kept(run, name, plan) for name, plan in kept if plan is not None]
    if not found:
        who = ", ".join(asked.hosts) or "any host"
        raise Refused(f"run {run.id}: no plan of {who} is kept; wanted is a run whose hosts were planned")
    return _grouped(found)


def _kept(run: Run, name: str, plan: Plan) -> Group:
    amounts = criteria.digest(plan)
    if plan.criteria and amounts != plan.criteria:
        raise Refused(f"{run.host(name) / 'plan.json'}: criteria is {plan.criteria}; its contents amount to {amounts}")
    return _group(name, plan, run.policy())


def _planned(host: Host, plans: dict[bytes, Plan]) -> Group:
    """With the plan that a run would make, but for what only a look at the host tells. plans: those made already."""
    asked = preflight.request(host, NO_RUN, None)
    key = strict.line(dataclasses.replace(asked, host="", place=Place()))
    plan = plans[key] = plans[key] if key in plans else planning.make(asked, "", 0.0)
    named = dataclasses.replace(plan, host=host.name, place=asked.place)
    return _group(host.name, named, whole_run.policy(host.site.policy), _variables(host))


def _group(name: str, plan: Plan, policy: Policy, variables: dict[str, list[str]] | None = None) -> Group:
    same = policy if policy.digest == plan.policy else None
    return Group(plan, same, [name], plan.deadline - plan.issued, variables or {})


def _variables(host: Host) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for variable, entries in host.limits:
        for about in entries:
            found.setdefault(about, []).append(variable)
    return found


def _grouped(alone: list[Group]) -> list[Group]:
    """One group for each distinct criteria, in the order of their first hosts."""
    found: dict[str, Group] = {}
    for one in alone:
        key = one.plan.criteria or one.digest
        found[key] = _together(found[key], one) if key in found else one
    return list(found.values())


def _together(one: Group, other: Group) -> Group:
    names = {**one.variables, **other.variables}
    variables = {
        about: list(dict.fromkeys([*one.variables.get(about, []), *other.variables.get(about, [])])) for about in names
    }
    same = one.plan.delivery == other.plan.delivery  # which delivery a host is of is no part of the criteria
    plan = one.plan if same else dataclasses.replace(one.plan, delivery="")
    return Group(plan, one.policy, [*one.hosts, *other.hosts], max(one.allowed, other.allowed), variables)
