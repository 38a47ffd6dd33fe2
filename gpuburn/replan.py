"""The same plan with other limits: what if the site had demanded this, by that baseline, under that policy? Pure.

The steps stay what they were, so that the evidence of the run answers the new demands as it answered the old.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from gpuburn import criteria, limit as limits, planning, resolve
from gpuburn.baseline import Baseline
from gpuburn.limit import Limit
from gpuburn.measurement import Metric, Point
from gpuburn.plan import LeftOut, Plan, Step, check, owner, promise
from gpuburn.planning import Request
from gpuburn.policy import Policy, Shares, load
from gpuburn.probe import discover
from gpuburn.strict import Refused


@dataclass(frozen=True, slots=True)
class Instead:
    """What is demanded instead of what the run demanded; what is None or empty stays as it was.

    site: {probe.metric: fields}, as a site's gpuburn_limits; where: what they are called in a refusal.
    """

    site: Mapping[str, dict[str, Any]] | None = None
    where: str = "gpuburn_limits"
    baseline: Baseline | None = None
    policy: Policy | None = None

    @property
    def anything(self) -> bool:
        return bool(self.site or self.baseline or self.policy)


def replanned(plan: Plan, instead: Instead) -> Plan:
    """The plan under other limits. Named quantities are planned anew; every other limit stays as the run had it."""
    if not instead.anything:
        return plan
    demands, left_out = list(plan.limits), list(plan.left_out)
    if instead.site:
        demands, left_out = _site(plan, instead)
    shares = (instead.policy or load()).baseline
    if instead.baseline:
        if other := instead.baseline.fits(plan.sku, plan.kind, plan.run):
            raise Refused(f"{plan.host}: {other}")
        demands = [made for one in demands for made in _by(plan, one, instead.baseline, shares)]
    elif instead.policy:
        demands = [_shared(plan, one, shares) for one in demands]
    policy = instead.policy
    made = replace(
        plan, limits=demands, left_out=left_out,
        decision_rule=policy.decision_rule if policy else plan.decision_rule,
        policy=policy.digest if policy else plan.policy,
    )  # fmt: skip
    return check(replace(made, criteria=criteria.digest(made)), f"plan of {plan.host}")


def _site(plan: Plan, instead: Instead) -> tuple[list[Limit], list[LeftOut]]:
    """The limits on what a site names are planned anew, each in the place of those that it follows."""
    site = dict(instead.site or {})
    request = Request(
        plan.run, plan.host, plan.kind, plan.level, plan.profiles, plan.delivery, plan.environment, plan.privileges,
        plan.worker, plan.sku, len(plan.devices), site_limits=((instead.where, site),),
        policy=instead.policy or load(),
    )  # fmt: skip
    fresh, silent = planning.demand(request, plan.steps)
    limits = [one for one in plan.limits if one.about not in site]
    left_out = [one for one in plan.left_out if one.what.partition(" ")[0] not in site]
    return (
        [*limits, *(one for one in fresh if one.about in site)],
        [*left_out, *(one for one in silent if one.what.partition(" ")[0] in site)],
    )


def _by(plan: Plan, one: Limit, baseline: Baseline, shares: Shares) -> Iterable[Limit]:
    """What has no number of its own, or another baseline's, is judged by this one."""
    step, metric = _judged(plan, one)
    if metric is None or not (one.uncalibrated or one.source == "baseline"):
        return [one]
    why = one.informational or "no reference number of its own"
    bare = limits.Limit(one.about, metric.unit, informational=why, uncalibrated=True, when=one.when)
    points, count = _points(one, step, metric), len(plan.devices)
    return resolve.of_baseline(bare, step, metric, points, count, baseline, shares, plan.host)


def _shared(plan: Plan, one: Limit, shares: Shares) -> Limit:
    """A share of a baseline's number under a policy that names another share."""
    metric = _judged(plan, one)[1]
    if metric is None or one.source != "baseline" or one.reference is None:
        return one
    return resolve.share_of(one.about, metric, one.when, shares, one.reference)


def _judged(plan: Plan, one: Limit) -> tuple[Step, Metric | None]:
    """The step of a limit, and its metric if devices and runs are compared by it."""
    step = plan.step(one.when.steps[0])
    if step is None:
        raise Refused(f"plan of {plan.host}: limit {one.about}: unknown step {one.when.steps[0]!r}")
    declared = promise(one, step, discover())
    return step, declared if isinstance(declared, Metric) and declared.better else None


def _points(one: Limit, step: Step, metric: Metric) -> list[Point]:
    probe = owner(one.about.partition(".")[0], step, discover())
    params = step.params if probe.name == step.probe else {}
    return [point for point in probe.points(metric, params) if one.when.point.includes(point)]
