"""Whether a power domain may be stepped: only where its declared budget holds all that this run can draw there."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

from gpuburn import sku
from gpuburn.planning import NO_BUDGET
from gpuburn.strict import Refused

if TYPE_CHECKING:
    from gpuburn.controller.preflight import Host


def shared_out(hosts: list[Host], source: str) -> list[Host]:
    """The hosts, each with the reason why its domain must not be stepped. Two budgets for one domain are refused."""
    domains: dict[str, list[Host]] = {}
    for host in hosts:
        domains.setdefault(host.site.power_domain, []).append(host)
    return [replace(host, power=_why(domains[host.site.power_domain], host, source)) for host in hosts]


def _why(domain: list[Host], host: Host, source: str) -> str:
    """ "" where the GPUs of all the run's hosts on the domain fit into its budget together."""
    budget = host.site.power_budget_kw
    other = next((one for one in domain if one.site.power_budget_kw != budget), None)
    if host.site.power_domain and other:
        raise Refused(
            f"{source}: host {host.name}: gpuburn_power_budget_kw is {budget:g} and on {other.name} "
            f"{other.site.power_budget_kw:g}; both hang on {host.site.power_domain!r}, wanted is one budget for it"
        )
    if not budget:
        return NO_BUDGET
    drawn = peak_kw(one for one in domain if one.site.kind == "hardware")
    if drawn > budget:
        return f"the power domain may draw {budget:g} kW, and the GPUs of this run on it up to {drawn:g} kW"
    return ""


def peak_kw(hosts: Iterable[Host]) -> float:
    """What the GPUs of these hosts may draw together: their board power, which every SKU has."""
    watts = 0.0
    for host in hosts:
        power = sku.load(host.site.sku).number("power")
        watts += host.count * power.value if power else 0.0
    return watts / 1e3
