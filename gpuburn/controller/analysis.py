"""What only the comparison of hosts can tell: findings for the hosts it concerns, and statements about the fleet."""

from __future__ import annotations

from dataclasses import dataclass, field

from gpuburn.controller.reach import Way
from gpuburn.finding import Finding
from gpuburn.policy import Policy


@dataclass(frozen=True, slots=True)
class Analysis:
    """findings: {host: those that the fleet adds}."""

    findings: dict[str, list[Finding]] = field(default_factory=dict)


def analyse(went: list[Way], policy: Policy) -> Analysis:
    return Analysis()
