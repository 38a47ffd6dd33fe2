"""Simulated GPUs judged: the sampler and the health probe under the stand-in library, then the plan's own limits."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import runs

from gpuburn import evidence, planning, strict
from gpuburn.finding import Finding, Verdict
from gpuburn.plan import Plan, Step
from gpuburn.probe import Taken, discover
from gpuburn.telemetry import HOST
from gpuburn.verdict import judge
from tests.fakes.nvml.build import BUSES, environment, healthy, later

ROOT = Path(__file__).parents[2]
STEPS = ("gpu_health", "gemm")
AT = (0.0, 10.0, 20.0)  # seconds of the scenario's clock at which the sampler looks during step gemm
# Every GPU under a healthy load from second 5 on: hot, at its power limit, and held there, which is normal.
LOAD = [
    f"@5 {index} {line}" for index in range(len(BUSES))
    for line in (
        "power_mw 695000", "temperature 68", "reasons 4", "sm_clock 1700", "field_74 9000000000", "field_83 905000000"
    )
]  # fmt: skip
# Each line on standard input: [[now, scenario], ...], the first also for the probe. Answers with lines of evidence.
PROGRAM = """
import json, os, sys
from dataclasses import replace
from pathlib import Path
from gpuburn import evidence, plan, strict
from gpuburn.agent import nvml, telemetry
from gpuburn.agent.family import Family
from gpuburn.agent.host import Host
from gpuburn.measurement import Reading
from gpuburn.probe import discover
devices = strict.build(list[plan.Device], json.loads(sys.argv[1]), "devices")
probe = discover()["gpu_health"]
path = Path(os.environ["GPUBURN_FAKE_NVML"])
def text(taken, now):
    return evidence.dump(replace(taken, at=now) if isinstance(taken, Reading) else taken).decode()
for line in sys.stdin:
    said = json.loads(line)
    path.write_text(said[0][1])
    host = Host("host", Path("."), devices, 1, 1)
    health = [replace(one, subject=one.subject or "host") for one in probe.run(host)]
    with nvml.Nvml() as library:
        family = Family(whole=sys.argv[2] != "container")
        beside = [*telemetry.Sampler(devices, library, family).gpus(0.0)]
    with nvml.Nvml() as library:
        sampler, sampled = telemetry.Sampler(devices, library, family), []
        for now, scenario in said:
            path.write_text(scenario)
            sampled += [text(one, now) for one in sampler.news(now)]
    print(json.dumps({"gpu_health": [text(one, 1.0) for one in (*health, *beside)], "gemm": sampled}), flush=True)
"""


def plan(count: int = len(BUSES), sku: str = "h200-sxm", where: str = "bare_metal") -> Plan:
    """A simulated host's plan, cut to what these GPUs are asked about."""
    addresses = tuple(f"0000:{bus.lower()}:00.0" for bus in BUSES[:count])
    asked = runs.hardware(kind="simulated", count=count, sku=sku, addresses=addresses, environment=where)
    whole = planning.make(asked, runs.NONCE, runs.ISSUED)
    limits = [one for one in whole.limits if one.when.steps[0] in STEPS and _of_gpus(one.about)]
    steps = [one for one in whole.steps if one.name in STEPS]
    return dataclasses.replace(whole, steps=steps, limits=limits)


def _of_gpus(about: str) -> bool:
    probe, _, name = about.partition(".")
    return probe == "gpu_health" or (probe == "telemetry" and (name not in HOST or name == "silent"))


class Gpus:
    """One process that reads scenario after scenario of the same devices."""

    def __init__(self, built: Path, scenario: Path, of: Plan) -> None:
        self.plan = of
        given = json.dumps(strict.plain(of.devices))
        self._process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, given, of.environment], cwd=ROOT, env=environment(built, scenario),
            text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )  # fmt: skip

    def told(self, *lines: str, base: str = "") -> dict[str, list[Taken]]:
        """What both steps yield under these lines, put before those of healthy GPUs."""
        base = base or healthy(len(self.plan.devices))
        said = [[at, later(base, at, *lines, *LOAD)] for at in AT]
        assert self._process.stdin and self._process.stdout
        self._process.stdin.write(json.dumps(said) + "\n")
        self._process.stdin.flush()
        found: dict[str, Any] = json.loads(self._process.stdout.readline())
        return {step: evidence.parse("".join(text).encode(), step) for step, text in found.items()}

    def findings(self, *lines: str, base: str = "") -> list[Finding]:
        taken = self.told(*lines, base=base)
        outcomes = [runs.outcome(self.plan, step, self._whole(step, taken[step.name])) for step in self.plan.steps]
        return judge(self.plan, outcomes, runs.record())

    def bad(self, *lines: str, base: str = "") -> set[tuple[str, str, str, str]]:
        """(code, quantity, step, subject) of all that is not as a sound GPU has it."""
        poor = (Verdict.FAIL, Verdict.INCOMPLETE)
        found = self.findings(*lines, base=base)
        return {(one.code, one.about, one.step, one.subject) for one in found if one.verdict in poor or one.marginal}

    def _whole(self, step: Step, taken: Sequence[Taken]) -> list[Taken]:
        """With the work that the step itself proves; here only what is beside it is looked at."""
        others = [] if step.scope == "host" else self.plan.device_names()
        return [*taken, *(runs.worked(name, discover()[step.probe]) for name in others)]

    def close(self) -> None:
        assert self._process.stdin
        self._process.stdin.close()
        assert self._process.wait(30) == 0
