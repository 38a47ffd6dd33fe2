"""What the report's document tells of a host beside findings and decision: parts, versions, times, steps, limits.

Stops at telling: nothing here judges, and what is not known is empty or null, never made up.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from gpuburn import strict
from gpuburn.controller.account import Account
from gpuburn.identity import Identity


def of(account: Account) -> dict[str, Any]:
    """The fields of one host. started, ended and ended_as are null where no result came home."""
    plan = account.plan
    result = account.collected.result if account.collected else None
    looks = result.record.identities if result else []
    return {
        "hostname": result.hostname if result else "",
        "started": result.started if result else None,
        "ended": result.ended if result else None,
        "ended_as": result.ended_as if result else None,
        "devices": strict.plain(plan.devices if plan else []),
        "versions": {**(plan.versions if plan else {}), **(result.versions if result else {})},
        "identity": known(looks[-1]) if looks else {},
        "steps": _steps(account),
        "left_out": strict.plain(plan.left_out if plan else []),
        "limits": key(account),
    }


def measurements(account: Account) -> list[dict[str, Any]]:
    """Every measurement with the step that took it: a quantity is measured in many."""
    outcomes = account.collected.outcomes if account.collected else []
    return [{"step": one.step, **strict.plain(m)} for one in outcomes for m in one.measurements]


def limits(accounts: list[Account]) -> dict[str, Any]:
    """{key: limits}: hosts with the same plan share them, and each names its key."""
    found: dict[str, Any] = {}
    for account in accounts:
        if account.plan and (name := key(account)) not in found:
            found[name] = strict.plain(account.plan.limits)
    return found


def criteria(accounts: list[Account]) -> list[tuple[str, int]]:
    """(digest, hosts): the distinct criteria that the hosts were judged by, most hosts first; "" for no plan."""
    return Counter(account.judged.criteria if account.judged else sent(account) for account in accounts).most_common()


def sent(account: Account) -> str:
    """The digest of the criteria that were sent to the host; empty without a plan."""
    return account.plan.criteria if account.plan else ""


def key(account: Account) -> str:
    """The digest of the host's limits; empty without a plan."""
    return strict.digest(strict.line(account.plan.limits)) if account.plan else ""


def known(look: Identity) -> dict[str, str]:
    """{source.key: value} of one look at the host, without a vendor's filler."""
    names = (f"{source}.{name}" for source, found in look.sources.items() for name in found)
    return {name: look.value(name) for name in names if look.value(name)}


def _steps(account: Account) -> list[dict[str, Any]]:
    """Every planned step and how it went; status is null where it left no outcome."""
    done = {one.step: one for one in (account.collected.outcomes if account.collected else [])}
    told = []
    for step in account.plan.steps if account.plan else []:
        one = done.get(step.name)
        told.append(
            {
                "step": step.name,
                "probe": step.probe,
                "revision": step.revision,
                "scope": step.scope,
                "profiles": list(step.profiles),
                "status": str(one.status) if one else None,
                "why": one.why if one else "",
                "started": one.started if one else None,
                "seconds": one.seconds if one else None,
                "attempt": one.attempt if one else 0,
                "subjects": strict.plain(one.subjects) if one else [],
            }
        )
    return told
