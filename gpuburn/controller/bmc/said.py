"""What the looks at the BMCs add to the findings of their hosts. Needs no Redfish: it reads what was kept."""

from __future__ import annotations

from collections.abc import Iterator

from gpuburn import bmc_verdict
from gpuburn.bmc import Look
from gpuburn.bmc_verdict import Asked
from gpuburn.controller.bmc import kept
from gpuburn.controller.reach import Way
from gpuburn.controller.run import Run
from gpuburn.finding import Finding
from gpuburn.policy import Policy
from gpuburn.strict import Refused


def findings(run: Run, went: list[Way], policy: Policy) -> Iterator[tuple[str, Finding]]:
    """(host, finding) of all that the BMCs say, and of each hardware host that names none."""
    entries = run.by_host() if any(one.expected.bmc for one in went) else {}
    for one in went:
        expected = one.expected
        asked = Asked(tuple(expected.profiles), expected.count, policy.supplies)
        if not expected.bmc:
            if one.judged and expected.kind == "hardware":
                yield expected.host, bmc_verdict.unnamed(asked.profiles)
            continue
        try:
            looks = kept.looks(run, expected.host, entries.get(expected.host, []))
        except Refused as error:
            yield expected.host, bmc_verdict.broken(str(error), asked)
            continue
        inband = kept.inband(one.judged) if one.judged else None
        if looks or one.judged:
            for found in bmc_verdict.findings(looks, inband, asked):
                yield expected.host, found


def looks(run: Run, one: Way) -> list[Look]:
    """What the host's page shows of its BMC; nothing where a finding says that it is not sound."""
    if not one.expected.bmc:
        return []
    try:
        return kept.looks(run, one.expected.host, run.by_host().get(one.expected.host, []))
    except Refused:
        return []
