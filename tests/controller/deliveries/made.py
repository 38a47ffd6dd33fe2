"""Runs of one delivery, made without a process: each host of each run passes, fails, or sends nothing home."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import runs
import yaml

from gpuburn import policy, strict, waiver
from gpuburn.controller import report
from gpuburn.controller.account import Account
from gpuburn.controller.run import BEGAN, POLICY, WAIVERS, Run
from gpuburn.measurement import Fact, Reading
from gpuburn.plan import Plan

LOT = "lot-1"
STEPS = ("idle", "identity", "gemm", "allreduce")
FIRST, SECOND, THIRD, FOURTH = (f"2026010{day}T000000Z-000{day}" for day in (1, 2, 3, 4))
NOW = runs.ISSUED + 5 * 86_400
OPEN = ("marginal", "uncalibrated", "laxer")  # what a hand-made run cannot do without


def plan(run: str, host: str, **changed: Any) -> Plan:
    asked = runs.hardware(**{"count": 2, "level": "standard", "run": run, "delivery": LOT, **changed})
    return dataclasses.replace(runs.plan(asked, STEPS), host=host)


def serial(host: str, device: str) -> str:
    return f"{host}-{device}"


def answers(of: Plan, says: str) -> dict[str, list[Any]]:
    """says: words. fail (gpu1 computes wrong), slow (gpu1 is below its limit), mute (nothing is measured of gpu1's
    speed), swapped (gpu1 is another part)."""
    given = runs.answers(of)
    given["identity"] = [_named(of, one, "swapped" in says) for one in given["identity"]]
    if "fail" in says:
        given["gemm"].append(Reading("wrong", 1.0, subject="gpu1", at=runs.ISSUED))
    if "mute" in says:
        given["gemm"] = [one for one in given["gemm"] if not _slow(one)]
    if "slow" in says:
        given["gemm"] = [dataclasses.replace(one, value=500.0) if _slow(one) else one for one in given["gemm"]]
    return given


def _slow(one: Any) -> bool:
    return isinstance(one, Reading) and one.metric == "tflops" and one.subject == "gpu1"


def _named(of: Plan, one: Any, swapped: bool) -> Any:
    if not isinstance(one, Fact) or one.name not in ("gpu_serial", "gpu_uuid"):
        return one
    other = "-new" if swapped and one.subject == "gpu1" else ""
    return dataclasses.replace(
        one, value=f"{serial(of.host, one.subject)}{other}{'-uuid' if one.name == 'gpu_uuid' else ''}"
    )


def tried(tmp: Path, run: str, hosts: dict[str, str], waivers: str = "", strictly: bool = False, **changed: Any) -> Run:
    """A run over these hosts: {host: words}; "away" sends nothing home. strictly: by the package's own policy."""
    where = Run.of(tmp / "reports", run)
    where.folder.mkdir(parents=True)
    if not strictly:
        (where.folder / POLICY).write_text(lenient())
    if waivers:
        (where.folder / WAIVERS).write_text(waivers)
    plans = [plan(run, host, policy=where.policy(), **changed) for host in hosts]
    where.expect([runs.expected(one) for one in plans])
    where.note(
        where.began(),
        BEGAN,
        expected=where.expected_digest(),
        policy=where.policy().digest,
        waivers=waiver.digest(where.waivers()),
    )
    for one in plans:
        where.host(one.host).mkdir(parents=True)
        (where.host(one.host) / "plan.json").write_bytes(strict.encode(one))
        if hosts[one.host] != "away":
            folder = tmp / "sent" / run / one.host
            runs.write(folder, one, answers(one, hosts[one.host]))
            runs.bring(where, one.host, folder)
    return where


def lenient() -> str:
    """Our policy without the conditions that a hand-made run cannot meet, so that a pass is accepted."""
    document = yaml.safe_load(policy.FILE.read_text())
    document["rows"] = [one for one in document["rows"] if not set(one.get("marks", [])) & {*OPEN, "not_observable"}]
    return yaml.safe_dump(document)


def reported(run: Run, now: float = NOW) -> dict[str, Account]:
    """The run is decided and its report written."""
    accounts, _ = report.make(run, now)
    return {one.expected.host: one for one in accounts}
