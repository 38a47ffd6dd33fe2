"""The processes of one step: started together, watched without ever blocking, ended for good."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from types import MappingProxyType
from typing import IO

from gpuburn import strict
from gpuburn.agent import privileged, processes
from gpuburn.agent.cgroup import Group
from gpuburn.agent.first import first as first_of
from gpuburn.agent.host import torchrun
from gpuburn.agent.lifeline import tie
from gpuburn.agent.room import tail
from gpuburn.agent.user import Account
from gpuburn.agent.worker import Assignment, Failure
from gpuburn.lost import given_none
from gpuburn.outcome import Status, SubjectOutcome
from gpuburn.plan import HOST, Plan, Step
from gpuburn.probe import discover

PATIENCE = 10.0  # seconds from SIGTERM to SIGKILL, and from SIGKILL to "unkillable"
BLIND = 15.0  # seconds without a line of the sampler, which writes one a second
FIRST = 5.0  # seconds that a step which is over waits for the sampler's first pass
WHY = 1000  # characters
WORKER = "gpuburn.agent.worker"
# Variables that change speed or bits. Others are left out of the outcome, for some hold secrets.
Pids = Callable[[], list[int]]
SHAPING = ("CUBLAS_", "CUDA_", "GLOO_", "MKL_", "NCCL_", "NVIDIA_", "OMP_", "PYTORCH_", "TORCH_", "UCX_")


class Processes:
    """One step's workers and its sampler. beside: children of the supervisor that belong to no step.

    gone: devices that no work is given to, and why.
    """

    def __init__(
        self, plan: Plan, step: Step, folder: Path, account: Account, beside: Pids = list,
        gone: Mapping[str, str] = MappingProxyType({}),
    ) -> None:  # fmt: skip
        self._beside, self._gone = beside, gone
        self.left = [name for name in plan.device_names() if name not in gone]
        self.plan, self.step, self.folder, self.account = plan, step, folder, account
        # With the pid: two supervisors of one run on one machine must not end each other's workers.
        self.group = Group(f"{plan.run}-{step.name}-{os.getpid()}")
        self.workers: dict[str, subprocess.Popen[bytes]] = {}
        self.sampler: subprocess.Popen[bytes] | None = None
        self._seen: list[processes.Process] = []
        self._size, self._grown, self._over = 0, time.monotonic(), 0.0
        self._before = processes.tree([os.getpid()])

    def start(self) -> None:
        """Write the assignment and start sampler and workers; they wait for each other where the scope says so."""
        step, folder = self.step, self.folder
        (folder / "log").mkdir()
        (folder / "scratch").mkdir()
        assignment = Assignment(
            step.probe, step.scope, step.params, self.plan.devices, self.plan.seed, step.threads, step.timeout,
            step.env, privileged.read(discover()[step.probe].reads), sorted(self._gone),
        )  # fmt: skip
        (folder / "assignment.json").write_bytes(strict.encode(assignment))
        commands = self._commands()
        with ExitStack() as stack:
            # All logs are opened before the folder is given away, so that no worker can put a link in their place.
            logs = {name: stack.enter_context(self._log_file(name).open("xb")) for name in ("sampler", *commands)}
            for path in (folder, folder / "log", folder / "scratch"):
                self.account.give(path)
            telemetry = [sys.executable, "-m", "gpuburn.agent.telemetry", str(folder)]
            self.sampler = self._spawn(telemetry, logs["sampler"])
            for name, command in commands.items():
                self.workers[name] = self._spawn(command, logs[name])
        self._grown = time.monotonic()

    def _commands(self) -> dict[str, list[str]]:
        if self.step.scope == "device":
            return {name: [sys.executable, "-m", WORKER, str(self.folder), name] for name in self.left}
        if self.step.scope == "ranks":
            return {"ranks": torchrun(WORKER, [str(self.folder)], len(self.left), self.folder / "log")}
        return {HOST: [sys.executable, "-m", WORKER, str(self.folder), HOST]}

    @property
    def environment(self) -> dict[str, str]:
        """What shapes the numbers in a worker's environment, as it was given to them."""
        given = self._given()
        return {name: given[name] for name in sorted(given) if name in self.step.env or name.startswith(SHAPING)}

    def _given(self) -> dict[str, str]:
        threads = {"OMP_NUM_THREADS": str(self.step.threads)} if self.step.threads else {}
        home = {"HOME": self.account.home} if self.account.uid is not None else {}
        fixed = {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "PYTHONUNBUFFERED": "1"}
        given = {**os.environ, **fixed, **threads, **home, **self.step.env}
        if self.step.scope == "ranks" and len(self.plan.devices) > 1:
            given.setdefault("OMP_NUM_THREADS", "1")  # torchrun would do it, and tell nobody
        return given

    def _spawn(self, command: list[str], log: IO[bytes]) -> subprocess.Popen[bytes]:
        supervisor = os.getpid()

        def enter() -> None:
            self.group.join()
            self.account.assume()
            tie(supervisor)  # after the change of user, which would undo it

        # preexec_fn is safe here, for the supervisor has one thread; the group is joined before the user changes.
        return subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, cwd=self.folder, env=self._given(),
            start_new_session=True, preexec_fn=enter,
        )  # fmt: skip

    def advance(self) -> bool:
        """Say go once all that still run are ready. Returns whether every worker has ended."""
        running = [name for name, one in self.workers.items() if one.poll() is None]
        go = self.folder / "go"
        waiting = self.step.scope == "device" and running and not os.path.lexists(go)
        if waiting and all((self.folder / f"ready.{name}").exists() for name in running):
            os.close(os.open(go, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o644))
        return not running and self._watched()

    def _watched(self) -> bool:
        """Whether the sampler has seen anything of a step that is over, or need not: a short step waits for it."""
        self._over = self._over or time.monotonic()
        failed = any(one.poll() for one in self.workers.values())
        late = time.monotonic() - self._over > FIRST
        return failed or late or not self.sampler or _size(self.folder / "telemetry.jsonl") > 0

    def blind(self) -> str:
        """Why the sampler no longer sees; "" while it runs and writes."""
        status = self.sampler.poll() if self.sampler else None
        if status is not None:
            return f"the sampler ended by itself with status {status}: {self._log('sampler')}"
        size, now = _size(self.folder / "telemetry.jsonl"), time.monotonic()
        if size != self._size:
            self._size, self._grown = size, now
        silent = self.sampler is not None and now - self._grown > BLIND
        return f"the sampler is blind: it has written nothing for {BLIND:g} s" if silent else ""

    def stop_sampler(self) -> None:
        if self.sampler and self.sampler.poll() is None:
            self.sampler.terminate()
            try:
                self.sampler.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                self.sampler.kill()  # it hangs in a driver, perhaps for good; what it wrote is kept
                processes.wait_gone(processes.tree([self.sampler.pid]), PATIENCE, self.sampler.poll)

    def end(self) -> list[int]:
        """End all that still run: SIGTERM, SIGKILL. Returns the pids that survived both.

        torchrun is held meanwhile: it would signal its ranks a second time while they write down where they are.
        """
        own = [one.pid for one in self.workers.values()]
        self._seen = processes.tree([pid for pid in own if processes.start_time(pid) is not None])
        held = [one for one in self._seen if self.step.scope == "ranks" and one[0] in own]
        processes.send(held, signal.SIGSTOP)
        processes.send([one for one in self._seen if one not in held], signal.SIGTERM)
        left = processes.wait_gone([one for one in self._seen if one not in held], PATIENCE, self._reap)
        processes.send(held, signal.SIGTERM)
        processes.send(held, signal.SIGCONT)
        left += processes.wait_gone(held, 0.0 if left else PATIENCE, self._reap)
        if left or self.group.pids():
            self.group.kill()
            processes.send(left, signal.SIGKILL)
            left = processes.wait_gone(left, PATIENCE, self._reap)
        return [pid for pid, _ in left]

    def close(self) -> None:
        """Leave nothing behind: the sampler, workers after an error of ours, stray children, the group itself."""
        self.stop_sampler()
        if self.group.pids():
            self.group.kill()
            members = [(pid, at) for pid in self.group.pids() if (at := processes.start_time(pid)) is not None]
            processes.wait_gone(members, PATIENCE, self._reap)
        self._end_strays()
        self.group.remove()

    def _end_strays(self) -> None:
        """End what still descends from us and is not beside: also those that slipped away (lifeline.adopt)."""
        spared = [*self._before, *processes.tree(self._beside())]
        strays = [one for one in processes.tree([os.getpid()]) if one not in spared]
        processes.send(strays, signal.SIGKILL)
        processes.wait_gone(strays, PATIENCE, self._reap)
        for pid, _ in strays:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)

    def _reap(self) -> None:
        for one in self.workers.values():
            one.poll()

    def subjects(self, cut: Status | None, why: str) -> list[SubjectOutcome]:
        """How each subject fared. cut: what ended those that had not ended by themselves."""
        errors = self._errors()
        together = self.step.scope == "ranks"  # they end together, be it by a cut or by the first that failed
        first, cause = self._first(errors) if together and not cut else ("", "")
        after = f"ended after {first} failed: {cause[: WHY // 2]}"
        found = []
        for index, subject in enumerate(self.left if self.step.scope != "host" else [HOST]):
            worker = self.workers.get(subject) or self.workers.get("ranks") or self.workers[HOST]
            who = str(index) if together else subject
            if who in errors:
                before = f"{after}; then " if first not in ("", subject) else ""
                status = (together and cut) or Status.ERRORED
                found.append(SubjectOutcome(subject, status, f"{before}{errors[who].why}"[:WHY]))
            elif worker.returncode == 0:
                found.append(SubjectOutcome(subject, Status.COMPLETED))
            elif cut:
                found.append(SubjectOutcome(subject, cut, why))
            else:
                ended = self._end(subject, worker) if not first else cause if subject == first else after
                found.append(SubjectOutcome(subject, Status.ERRORED, ended))
        return found if self.step.scope == "host" else [*found, *given_none(self._gone)]

    def _first(self, errors: dict[str, Failure]) -> tuple[str, str]:
        """The device whose rank failed first, and why; ("", "") where nothing tells."""
        names, path = self.left, self._log_file("ranks")
        log = tail(path, 4000).decode("utf-8", "replace") if path.is_file() else ""
        rank, why = first_of(errors, log)
        return (names[int(rank)], why) if rank and int(rank) < len(names) else ("", "")

    def _end(self, subject: str, worker: subprocess.Popen[bytes]) -> str:
        """What the process's end tells, when it said nothing."""
        name = "ranks" if self.step.scope == "ranks" else subject
        status = worker.returncode
        how = f"signal {-status}" if status and status < 0 else f"exit status {status}"
        return f"ended with {how}: {self._log(name)}"

    def _errors(self) -> dict[str, Failure]:
        """What workers wrote of their own failure; such a file is as little trusted as any other of theirs."""
        names = self.left if self.step.scope != "host" else [HOST]
        allowed = [str(rank) for rank in range(len(names))] if self.step.scope == "ranks" else names
        found = {}
        for path in sorted(self.folder.glob("error.*.json")):
            who = path.name[len("error.") : -len(".json")]
            strict.known(who, allowed, path.name)
            found[who] = strict.build(Failure, strict.loads(strict.load_file(path), path.name), path.name)
        return found

    def _log_file(self, name: str) -> Path:
        return self.folder / "log" / f"{name}.log"

    def _log(self, name: str) -> str:
        path = self._log_file(name)
        text = tail(path, 2000).decode("utf-8", "replace") if path.is_file() else ""
        return " ".join(text.split())[-300:] or "it said nothing"


def _size(path: Path) -> int:
    try:
        return path.lstat().st_size
    except OSError:
        return 0


def overall(subjects: list[SubjectOutcome]) -> tuple[Status, str]:
    """The step as a whole: completed if any subject completed and none was cut, else the first that did not."""
    bad = [one for one in subjects if one.status is not Status.COMPLETED]
    for status in (Status.UNKILLABLE, Status.ABORTED, Status.TIMED_OUT):
        for one in bad:
            if one.status is status:
                return status, one.why
    if not bad:
        return Status.COMPLETED, ""
    return Status.ERRORED, f"{bad[0].subject}: {bad[0].why}"
