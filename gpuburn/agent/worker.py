"""One process of a step: run one probe on one device and write what it yields, line by line.

Started by the supervisor (scopes device and host) or by torchrun (scope ranks). Writes only into its step's folder.
"""

from __future__ import annotations

import dataclasses
import faulthandler
import json
import os
import signal
import sys
import time
import traceback
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gpuburn import evidence, plan, strict
from gpuburn.agent.host import Host
from gpuburn.agent.lifeline import die_with_parent
from gpuburn.measurement import Fact, Reading
from gpuburn.probe import Probe, Taken, discover


@dataclass(frozen=True, slots=True)
class Assignment:
    """What the workers of one step are to do; written once by the supervisor. timeout in seconds.

    seen: what only root can read, by the names that the probe asks for (probe.reads). lost: devices that are gone.
    """

    probe: str
    scope: str
    params: dict[str, Any]
    devices: list[plan.Device]
    seed: int
    threads: int
    timeout: float
    env: dict[str, str] = field(default_factory=dict)
    seen: dict[str, Any] = field(default_factory=dict)
    lost: list[str] = field(default_factory=list)

    @property
    def left(self) -> list[plan.Device]:
        """The devices that work is given to."""
        return [one for one in self.devices if one.name not in self.lost]


@dataclass(frozen=True, slots=True)
class Failure:
    """What a worker leaves in error.<who>.json when its probe raised: the moment, the cause, where it happened."""

    at: float
    why: str
    trace: str = ""


def start_together(folder: Path, name: str, timeout: float) -> None:
    """Report ready, and wait until the supervisor says go: all devices work at the same time."""
    (folder / f"ready.{name}").touch()
    end = time.monotonic() + timeout
    while not (folder / "go").exists():
        if time.monotonic() > end:
            raise TimeoutError(f"no go within {timeout:g} s")
        time.sleep(0.01)


def run(probe: Probe, device: Any, params: dict[str, Any], out: Path) -> None:
    """Write each thing that the probe yields at once: what was taken survives whatever happens next."""
    with out.open("ab") as file:
        if uuid := getattr(device, "uuid", ""):  # a host has none, nor has a CPU
            file.write(evidence.dump(Fact(evidence.WORKER_UUID, uuid, subject=device.name)))
            file.flush()
        for taken in probe.run(device, **params):
            file.write(evidence.dump(_stamped(taken, device.name)))
            file.flush()
        os.fsync(file.fileno())


def _stamped(taken: Taken, subject: str) -> Taken:
    named: Taken = dataclasses.replace(taken, subject=taken.subject or subject)
    return dataclasses.replace(named, at=named.at or time.time()) if isinstance(named, Reading) else named


def _work(assignment: Assignment, folder: Path, name: str) -> None:
    probe = discover()[assignment.probe]
    scratch = folder / "scratch"
    if assignment.scope == "host":
        host = Host("host", scratch, assignment.devices, assignment.seed, assignment.threads,
                    assignment.seen, assignment.lost, folder / "log")  # fmt: skip
        run(probe, host, assignment.params, folder / "readings.host.jsonl")
        return
    from gpuburn.agent import device as devices

    names = [one.name for one in assignment.left]
    rank = int(os.environ.get("RANK", names.index(name) if name in names else 0))
    me = devices.make(assignment.left[rank], rank, len(names), scratch, assignment.seed)
    if assignment.threads:
        import torch

        torch.set_num_threads(assignment.threads)
    if assignment.scope == "device":
        start_together(folder, me.name, assignment.timeout)
        run(probe, me, assignment.params, folder / f"readings.{me.name}.jsonl")
        return
    import torch.distributed as dist

    dist.init_process_group(me.collectives)
    run(probe, me, assignment.params, folder / f"readings.{me.name}.jsonl")
    dist.destroy_process_group()  # not after an error: the others hear of it when its moment is written, not before


def keep_stacks(folder: Path, who: str) -> None:
    """At its end by SIGTERM, and at a crash, each thread's stack goes to stacks.<who>.txt: where a rank hung.

    The file stays open for as long as the process lives; the handler is C and runs also where Python does not.
    """
    file = os.open(folder / f"stacks.{who}.txt", os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o644)
    faulthandler.register(signal.SIGTERM, file, all_threads=True, chain=True)
    faulthandler.enable(file, all_threads=True)


def _printable(text: str) -> str:
    """Without what strict JSON does not carry: NUL and lone surrogates."""
    return text.replace("\0", "").encode("utf-8", "replace").decode("utf-8")


def main() -> None:
    """worker FOLDER [DEVICE]: FOLDER holds assignment.json. Leaves error.<who>.json if the probe raised."""
    folder, name = Path(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else "host"
    die_with_parent()
    keep_stacks(folder / "log", os.environ.get("RANK", name))
    assignment = strict.build(Assignment, json.loads((folder / "assignment.json").read_bytes()), "assignment.json")
    try:
        _work(assignment, folder, name)
    except BaseException as error:
        # The step's border: whatever ended the probe is recorded with its moment, then ends the process.
        who = os.environ.get("RANK", name)
        why = _printable(f"{type(error).__name__}: {error}")[:1000]
        trace = _printable("".join(traceback.format_tb(error.__traceback__)))[-4000:]  # the whole is in its log
        said = Failure(time.time(), why, trace)
        (folder / f"error.{who}.json").write_bytes(strict.line(said))
        raise


if __name__ == "__main__":
    main()
