"""One probe by hand: the same launch path as a run, a readable table, no verdict."""

from __future__ import annotations

import os
import tempfile
import time
from pathlib import Path
from typing import Any, Literal

import yaml

from gpuburn import __version__, filled, planning
from gpuburn.agent import hardware, nvml
from gpuburn.agent.step import carry_out
from gpuburn.agent.user import Account
from gpuburn.outcome import Outcome
from gpuburn.plan import SCHEMA, Device, Environment, Place, Plan, Step, check
from gpuburn.probe import discover
from gpuburn.strict import Refused, known

TIMEOUT = 3600.0


def parameters(words: list[str], probe: str) -> dict[str, Any]:
    """["--size", "64"] -> {"size": 64}; values are YAML, so lists are written [1, 2]."""
    found: dict[str, Any] = {}
    if len(words) % 2:
        raise Refused(f"probe {probe}: {words[-1]!r} has no value; wanted is --param value")
    for name, value in zip(words[::2], words[1::2]):
        if not name.startswith("--"):
            raise Refused(f"probe {probe}: {name!r} is no parameter; wanted is --param value")
        key = name[2:].replace("-", "_")
        if key in found:
            raise Refused(f"probe {probe}: {name} is given twice")
        try:
            found[key] = yaml.safe_load(value)
        except yaml.YAMLError as error:
            raise Refused(f"probe {probe}: {name} {value!r} is no YAML: {' '.join(str(error).split())}") from None
    return found


def devices(cpu: int) -> list[Device]:
    """The GPUs of this host in PCI order, as the kernel or NVML shows them, or so many CPU processes."""
    gpus = [] if cpu else sorted({*hardware.gpus(hardware.look()), *_by_nvml()})
    if not gpus:
        return [Device(f"cpu{index}", "cpu") for index in range(cpu or 1)]
    return [Device(f"gpu{index}", "cuda", pci=address) for index, address in enumerate(gpus)]


def _by_nvml() -> list[str]:
    """PCI addresses of the GPUs that NVML shows: a container's /sys may show none of them."""
    with nvml.Nvml() as library:
        return [str(one.values["pci"]) for one in library.look(("pci",)).gpus if "pci" in one.values]


def plan_of(name: str, params: dict[str, Any], cpu: int, environment: Environment = "bare_metal") -> Plan:
    """A plan of this one probe. On a CPU its small parameters are the default, on GPUs its full ones."""
    known(name, discover(), "probe")
    if cpu < 0:
        raise Refused(f"--cpu is {cpu}; wanted is the number of processes, or 0 for the GPUs")
    probe, where = discover()[name], devices(cpu)
    on_cpu = where[0].kind == "cpu"
    small = {name: value for name, value in probe.smoke.items() if on_cpu and name not in probe.filled}
    settled = probe.settled({**small, **params}, "command line")
    step = Step(name, name, probe.scope, probe.revision, ("by_hand",), "by hand", settled, 1.0, TIMEOUT)
    step = filled.step(step, probe, None, len(where), "rehearsal" if on_cpu else "hardware")
    now = time.time()
    privileges: Literal["root", "user"] = "root" if os.geteuid() == 0 else "user"
    return check(
        Plan(
            SCHEMA, "by-hand", "", "this host", "rehearsal" if on_cpu else "hardware", environment, privileges, "",
            "smoke",
            ("by_hand",), "", Place(), where, "", planning.SEED, now, now + TIMEOUT, [step], [], [], [],
            {"gpuburn": __version__},
        )
    )  # fmt: skip


def carry_out_one(name: str, params: dict[str, Any], cpu: int) -> Outcome:
    """Run one probe now."""
    return carried_out(plan_of(name, params, cpu))


def carried_out(plan: Plan) -> Outcome:
    """Run a plan's only step in a folder that is removed."""
    [step] = plan.steps
    with tempfile.TemporaryDirectory(prefix="gpuburn-") as scratch:
        folder = Path(scratch) / "steps" / step.name
        folder.mkdir(parents=True)
        return carry_out(plan, step, folder, Account(), 1, lambda: "", lambda: None)


def table(outcome: Outcome) -> str:
    """What was measured and observed, in columns."""
    rows = [("metric", "subject", "point", "value", "unit", "low", "high", "n")]
    rows += [
        (m.name, m.subject, str(m.point), f"{m.value:.6g}", m.unit, f"{m.low:.6g}", f"{m.high:.6g}", str(m.count))
        for m in outcome.measurements
    ]
    rows += [(f.name, f.subject, str(f.point), f.value[:48], "", "", "", "") for f in outcome.facts]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in rows]
    lines += [f"{one.subject}: {one.status} {one.why}".rstrip() for one in outcome.subjects]
    return "\n".join([*lines, f"{outcome.step}: {outcome.status} in {outcome.seconds:.1f} s {outcome.why}".rstrip()])
