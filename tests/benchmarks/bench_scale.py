"""How long the analysis and the decisions take, and how much memory, from 100 to 10,000 hosts of 8 GPUs.

Each size is a process of its own: the run's folder is made first, as collecting leaves it (judged.json per host, its
digest in the journal, the archive's place taken by an empty file), then everything from the files to the decisions.
"""

from __future__ import annotations

import dataclasses
import json
import os
import random
import resource
import subprocess
import sys
import time
from pathlib import Path

import runs

from gpuburn import journal, planning, resolve, strict
from gpuburn.controller import account, archives
from gpuburn.controller.judged import SCHEMA, Judged, demanded, encode, references, version
from gpuburn.controller.named import Part, Said
from gpuburn.controller.run import Run
from gpuburn.controller.series import Series, Table, What
from gpuburn.finding import Verdict
from gpuburn.measurement import Metric
from gpuburn.plan import HOST, Plan, owner, subjects
from gpuburn.probe import discover
from gpuburn.telemetry import TELEMETRY

SIZES = (100, 300, 1000, 3000, 10_000)
SECONDS, GIBIBYTES = 60.0, 2.0


def whole() -> Plan:
    """Both profiles at standard, 8 GPUs."""
    asked = runs.hardware(count=8, level="standard", profiles=("training", "inference"))
    return planning.make(asked, runs.NONCE, runs.ISSUED)


def quantities(plan: Plan) -> list[tuple[What, float]]:
    """Every quantity of the plan that devices are compared by, and what is usual: its reference where it has one."""
    middle = {(one.step, one.about, one.point): one.value for one in references(plan)}
    found = []
    for step in plan.steps:
        for probe in (discover()[step.probe], TELEMETRY):
            for name, metric in probe.metrics.items():
                if isinstance(metric, Metric) and metric.better and plan.kind in metric.kinds:
                    whom = plan.device_names() if metric.per == "device" else subjects(plan, step)
                    whom = [HOST] if metric.per == "host" else whom
                    about, params = f"{probe.name}.{name}", step.params if probe.name == step.probe else {}
                    for point in owner(probe.name, step, discover()).points(metric, params):
                        usual = middle.get((step.name, about, str(point)), middle.get((step.name, about, ""), 700.0))
                        what = What(step.name, about, metric.unit, metric.better, str(point),
                                    resolve.method(step), tuple(whom), tuple(step.profiles))  # fmt: skip
                        found.append((what, usual))
    return found


def series(asked: list[tuple[What, float]], near: random.Random) -> list[Series]:
    """What one healthy host measured: 0.5 % around what is usual."""
    found = []
    for what, usual in asked:
        values = [round(usual * (1 + near.gauss(0, 0.005)), 1) for _ in what.subjects]
        found.append(Series(what, values, [0.005] * len(values), [60] * len(values)))
    return found


def judged(plan: Plan, asked: list[tuple[What, float]], number: int, near: random.Random) -> Judged:
    name, gpus = f"n{number:05}", plan.device_names()
    parts = [Part(HOST, "serial", f"S{number}"), *(Part(gpu, "uuid", f"{name}-{gpu}") for gpu in gpus)]
    versions = [Said("driver", HOST, "580.95.05"), *(Said("vbios", gpu, "96.00.CF.00.01") for gpu in gpus)]
    facts = [Said("gemm.checksum", gpu, "a" * 32, "gemm", "", list(plan.profiles)) for gpu in gpus]
    return Judged(
        SCHEMA, name, version(), plan.criteria, True, [], dict.fromkeys(plan.profiles, Verdict.PASS),
        {profile: ["uncalibrated"] for profile in plan.profiles}, [], parts, versions, facts, "h100, 580, 700 W",
        Table.of(series(asked, near)), [*references(plan)], met=list(plan.profiles), deadline=plan.deadline,
        demanded={**demanded(plan), "host": name},
    )  # fmt: skip


def make(reports: Path, count: int) -> None:
    plan, near, run = whole(), random.Random(1), Run.of(reports, runs.RUN)
    asked, expected, lines, previous = quantities(plan), [], [], journal.GENESIS
    (run.folder / "incoming").mkdir(parents=True)
    for number in range(count):
        one = judged(plan, asked, number, near)
        folder = run.host(one.host)
        folder.mkdir(parents=True)
        run.incoming(one.host).write_bytes(b"")
        one = dataclasses.replace(one, inputs=archives.held(run, one.host).details())
        data = encode(one)
        (folder / "judged.json").write_bytes(data)
        expected.append(runs.expected(plan, host=one.host, rack=f"r{number // 4:04}"))
        details = {"judged": strict.digest(data), **one.inputs}
        entry = journal.Entry(number + 1, runs.ISSUED, archives.COLLECTED, previous, one.host, details)
        lines.append(strict.line(entry))
        previous = strict.digest(lines[-1].rstrip(b"\n"))
    run.expect(expected)
    run.journal.write_bytes(b"".join(lines))


def measure(reports: Path) -> dict[str, float]:
    """From the files to the decisions, in this process."""
    start = time.perf_counter()
    went = account.ways(Run.of(reports, runs.RUN), runs.ISSUED + 60)
    read = time.perf_counter()
    accounts, _ = account.settle(Run.of(reports, runs.RUN), went)
    end = time.perf_counter()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    good = sum(one.decision.good for one in accounts)
    return {"hosts": len(accounts), "good": good, "read": read - start, "decide": end - read, "GiB": peak}


def test_analysis_and_decisions_are_linear_in_the_hosts(tmp_path: Path) -> None:
    print(f"\n{'hosts':>6} {'read s':>8} {'decide s':>9} {'all s':>7} {'ms a host':>10} {'GiB':>6}")
    for count in SIZES:
        reports = tmp_path / str(count)
        make(reports, count)
        env = {**os.environ, "PYTHONPATH": str(Path(runs.__file__).parent)}
        command = [sys.executable, __file__, str(reports)]
        done = subprocess.run(command, capture_output=True, text=True, check=True, env=env)
        one = json.loads(done.stdout)
        seconds = one["read"] + one["decide"]
        print(f"{count:>6} {one['read']:>8.2f} {one['decide']:>9.2f} {seconds:>7.2f} {1e3 * seconds / count:>10.2f} "
              f"{one['GiB']:>6.2f}")  # fmt: skip
        assert one["hosts"] == one["good"] == count
    print(f"budget at 10,000 hosts: {SECONDS:g} s, {GIBIBYTES:g} GiB")


if __name__ == "__main__":
    print(json.dumps(measure(Path(sys.argv[1]))))
