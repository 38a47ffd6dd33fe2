"""Before anything runs: who is expected, whether each may be touched, and the plan of each. One call for all hosts."""

from __future__ import annotations

import dataclasses
import re
import secrets
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from gpuburn import planning, rotation, strict
from gpuburn.baseline import Baseline
from gpuburn.controller import (
    again,
    archives,
    baselines,
    breaking,
    explain,
    look as looks_,
    power,
    site as sites,
    whole_run,
)
from gpuburn.controller.bmc import access
from gpuburn.controller.look import Look
from gpuburn.controller.run import Expected, Run, check_host
from gpuburn.controller.site import Site
from gpuburn.plan import Place, Plan
from gpuburn.planning import Request
from gpuburn.policy import Policy
from gpuburn.storage import Storage
from gpuburn.strict import Refused

INVENTORY = "inventory/hosts.yml"
PYTHON = (3, 10)
DOUBLED = re.compile(r"(\b[\w.]+: )\1+")
VERSION = re.compile(r"(\d{1,3})\.(\d{1,3})")
DISK = {
    "rehearsal": 3.0,
    "hardware": 12.0,
    "simulated": 3.0,
}  # GiB: torch's CPU build 0.7, CUDA build 6, evidence, checkpoint
SKEW = 300.0  # seconds; a clock further off makes evidence that nobody can order

Variables = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Host:
    """One host with everything that the inventory says of it. power: why its domain must not be stepped, or ""."""

    name: str
    site: Site
    limits: list[tuple[str, dict[str, Any]]]
    baseline: Baseline | None = None
    power: str = planning.NO_BUDGET

    @property
    def count(self) -> int:
        return self.site.processes if self.site.kind == "rehearsal" else self.site.gpu_count

    @property
    def origin(self) -> dict[str, str]:
        """{probe.metric: the variable that limits it}."""
        return {about: variable for variable, entries in self.limits for about in entries}

    def expected(self) -> Expected:
        s = self.site
        return Expected(
            self.name, s.kind, s.level, s.environment, s.profiles, s.delivery, s.sku, self.count, s.rack, str(s.unit),
            s.power_domain, s.baseline, access.verified(s) or "",
        )  # fmt: skip


def expect(
    inventory: dict[str, Variables], source: str = INVENTORY, unresolved: dict[str, dict[str, str]] | None = None
) -> list[Host]:
    """Every host's variables, checked together: all that is wrong is said in one message, before anything runs.

    unresolved: {host: {variable: why}} of variables whose templates do not resolve; there is no host without them.
    """
    hosts, wrong = [], []
    plannable: set[str] = set()
    for name, variables in sorted(inventory.items()):
        try:
            for variable, why in (unresolved or {}).get(name, {}).items():
                how = "uses a variable that is not defined" if "is undefined" in why else "cannot be resolved"
                raise Refused(f"{source}: host {name}: {variable} {how}: {why}")
            hosts.append(_host(name, variables, f"{source}: host {name}", plannable))
        except Refused as error:
            wrong.append(str(error))
    if wrong:
        raise Refused("\n".join(wrong))
    if not hosts:
        raise Refused(f"{source}: no host matches; wanted is -l with a group or host of the inventory")
    return power.shared_out(hosts, source)


def from_command_line(hosts: list[Host], run: str, reports: str, wait: bool, source: str = INVENTORY) -> None:
    """Refuse in an inventory what holds for the whole run and is read from the command line only."""
    for host in hosts:
        s = host.site
        said = {
            "gpuburn_run": s.run not in ("", run),
            "gpuburn_reports_dir": s.reports_dir != "" and str(Path(s.reports_dir).resolve()) != reports,
            "gpuburn_wait": s.wait != wait,
        }
        for name in (name for name, other in said.items() if other):
            raise Refused(
                f"{source}: host {host.name}: {name} is for the whole run; give it with -e on the command line"
            )


def _host(name: str, variables: Variables, where: str, plannable: set[str]) -> Host:
    """One host, checked. plannable: what was planned already for another host: planning once shows every name in it."""
    try:
        check_host(name)
    except Refused as error:
        raise Refused(f"{where.partition(':')[0]}: {error}") from None
    if variables.get("gpuburn_placeholder"):
        raise Refused(
            f"{where} is a placeholder: edit {where.partition(':')[0]}, put your servers in its place "
            f"(inventory/example/ shows two racks), and run the same command again"
        )
    site, limits = sites.read(variables, where)
    sites.check(site, where)
    access.check(site, where)
    host = Host(name, site, limits, power="" if site.power_budget_kw else planning.NO_BUDGET)
    asked = repr((dataclasses.replace(site, rack="", unit="", power_domain="", delivery=""), limits))
    if asked in plannable:
        return host
    try:
        planning.make(request(host, "00000000T000000Z-0000", None), "", 0.0)  # so that every name in it is known
        plannable.add(asked)
    except Refused as error:
        raise Refused(f"{where}: {_named(host, str(error).removeprefix(f'{name}: '))}") from None
    return host


def _named(host: Host, said: str) -> str:
    """A refusal with the variable that it is about, and no name twice in a row."""
    about = said.removeprefix("limit ").partition(": ")[0]
    if said.startswith("limit ") and about in host.origin:
        said = f"{host.origin[about]}: {said.removeprefix('limit ')}"
    return DOUBLED.sub(r"\1", said)


def request(host: Host, run: str, look: Look | None, policy: Policy | None = None) -> Request:
    """policy: what the run began with; the one that the inventory names where it has not begun."""
    s = host.site
    return Request(
        run, host.name, s.kind, s.level, tuple(s.profiles), s.delivery, s.environment, "root" if s.become else "user",
        s.user if s.become else "", s.sku, host.count, tuple(look.gpus) if look else (),
        Place(s.rack, str(s.unit), s.power_domain), tuple(host.limits), tuple(s.steps),
        s.grace, policy or whole_run.policy(s.policy),
        baseline=host.baseline, foreign_load=s.foreign_load, power=host.power,
        storage=Storage(s.storage, s.storage_gib, s.storage_writers),
    )  # fmt: skip


def refusal(host: Host, look: Look, run: str, now: float) -> str:
    """Why this host must not be touched; "" if it may."""
    version = VERSION.match(look.python)
    if not version or (int(version[1]), int(version[2])) < PYTHON:
        return f"python is {look.python}, wanted is 3.10 or newer; set gpuburn_python"
    if look.free_disk_gib < DISK[host.site.kind]:
        return f"{look.free_disk_gib:.1f} GiB free for {host.site.state_dir}, wanted are {DISK[host.site.kind]:g}"
    if abs(look.time - now) > SKEW:
        return f"its clock is {look.time - now:+.0f} s off the controller's, wanted is within {SKEW:g} s"
    if look.busy and host.site.kind == "hardware" and run not in look.unfinished:  # our own workers are no strangers
        return f"its GPUs are in use by {', '.join(look.busy[:5])}; hosts in use are refused"
    others = [one for one in look.unfinished if one != run]
    if others:
        return f"run {others[0]} is not finished on it; wait for it, or `gpuburn-agent stop` it there"
    if host.site.become and look.uid != 0:
        return f"become gave uid {look.uid}, wanted is root"
    return ""


def judging(run: Run, hosts: list[Host], source: str = INVENTORY) -> list[Host]:
    """The hosts with the baselines that they name; what is missing, or of another SKU or kind, is refused by name."""
    wrong, found = [], []
    for host in hosts:
        try:
            found.append(replace(host, baseline=baselines.judging(run, host.site)))
        except Refused as error:
            wrong.append(f"{source}: host {host.name}: gpuburn_baseline: {error}")
    if wrong:
        raise Refused("\n".join(wrong))
    return found


def plan(
    run: Run, hosts: list[Host], looks: dict[str, str | None], now: float, write: bool, source: str = INVENTORY
) -> dict[str, dict[str, Any]]:
    """Plan every host that was seen. {host: {"refused": why} or {"plan": path, "text": ...}}; kept plans stay.

    over: whether the host has done its run, and is not started again; kept: SHA-256 of what came from it.
    looks: what each host printed, as text that nobody has parsed; None of a host that was not seen.
    """
    told: dict[str, dict[str, Any]] = {}
    entries = run.by_host()
    held = breaking.Hold(run)
    for host in judging(run, hosts):
        printed = looks.get(host.name)
        if printed is None:
            continue  # never reached: its account is given in the report
        try:
            held.check(host.name, host.site.delivery)
            if write:
                archives.file_away(run, host.name)  # of a collection that was cut short: not fetched over
            told[host.name] = {
                **_planned(run, host, printed, now, write, source),
                "over": archives.over(run, host.name, entries.get(host.name, [])),
                "kept": archives.held(run, host.name).archives,
            }
        except Refused as error:  # what one host said ends its own run, never another's
            told[host.name] = {"refused": f"{host.name}: {str(error).removeprefix(f'{host.name}: ')}"}
    return told


def _planned(run: Run, host: Host, printed: str, now: float, write: bool, source: str) -> dict[str, Any]:
    seen = looks_.read(printed)
    if host.site.storage and seen.storage:
        who = host.site.user if host.site.become else "of the login"
        wish = f"wanted is a folder that the account {who} may write to"
        raise Refused(f"{source}: host {host.name}: gpuburn_storage is {host.site.storage!r}: {seen.storage}; {wish}")
    why = refusal(host, seen, run.id, now)
    if why:
        raise Refused(why)
    kept = run.plan(host.name)
    made = planning.make(
        request(host, run.id, seen, run.policy_kept()), kept.nonce if kept else secrets.token_hex(16),
        kept.issued if kept else now,
    )  # fmt: skip
    if kept:
        again.same_place(run.host(host.name) / again.SITE, host.site.state_dir, f"{source}: host {host.name}")
        again.unchanged(kept, made, host.origin, f"{source}: host {host.name}")
    elif write:
        run.host(host.name).mkdir(parents=True, exist_ok=True)
        (run.host(host.name) / "plan.json").write_bytes(strict.encode(made))
        (run.host(host.name) / "look.json").write_bytes(strict.encode(seen))
        (run.host(host.name) / again.SITE).write_bytes(strict.encode(host.site))
    return {"plan": str(run.host(host.name) / "plan.json"), "text": describe(kept or made)}


def describe(made: Plan) -> str:
    """The plan for a person: what runs, for how long, how many limits can reject, what it draws."""
    lines = [
        f"{made.host}: {', '.join(made.profiles)} at level {made.level}, {made.kind}, {len(made.devices)} devices; "
        f"about {made.expected() / 60:.1f} min, deadline {(made.deadline - made.issued) / 60:.0f} min after now",
        f"  {explain.in_short(made)}; criteria {made.criteria[:12]} (all of it: gpuburn plan --explain)",
    ]
    for turns in rotation.turns(made.steps).values():
        again = f", {len(turns)} turns" if len(turns) > 1 else ""
        lines.append(f"  {turns[0].name:18} {turns[0].expected:6.0f} s  {', '.join(turns[0].profiles)}{again}")
    if power := explain.peak_kw(made):
        lines.append(f"  peak power of its GPUs {power:.1f} kW, at most {explain.energy_kwh(made):.1f} kWh")
    lines += [f"  note: {note}" for note in made.notes]
    return "\n".join(lines)
