"""Whole runs of several hosts with chosen numbers, brought home: for baselines, comparisons and replays."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import runs

from gpuburn.controller.run import Run
from gpuburn.measurement import Reading
from gpuburn.plan import Plan
from gpuburn.strict import encode

Speed = Callable[[int, int], float]  # (host, device) -> TFLOP/s of gemm


def run(reports: Path, hosts: int, speed: Speed = lambda host, device: 1.0, of: Plan | None = None,
        id: str = runs.RUN, wrong: tuple[int, ...] = (), **changed: Any) -> Run:  # fmt: skip
    """A run of hosts node0, node1, ... that all came home. wrong: hosts whose product was wrong once."""
    plan = of or runs.plan(steps=("gemm",))
    plans = [dataclasses.replace(plan, host=f"node{index}", run=id) for index in range(hosts)]
    made = Run.of(reports, id)
    made.expect([runs.expected(one, **changed) for one in plans])
    for index, one in enumerate(plans):
        made.host(one.host).mkdir(parents=True)
        (made.host(one.host) / "plan.json").write_bytes(encode(one))
        folder = reports.parent / f"sent-{id}" / one.host
        runs.write(folder, one, answers(one, index, speed, index in wrong))
        runs.bring(made, one.host, folder)
    return made


def answers(plan: Plan, host: int, speed: Speed, wrong: bool) -> dict[str, list[Any]]:
    said = runs.answers(plan)
    names = plan.device_names()
    for name, taken in said.items():
        said[name] = [
            dataclasses.replace(one, value=speed(host, names.index(one.subject)))
            if isinstance(one, Reading) and one.metric == "tflops"
            else one
            for one in taken
        ]
    if wrong:
        said["gemm"].append(Reading("wrong", 1.0, subject=names[0], at=runs.ISSUED))
    return said
