"""The processes of one step: started together, watched without ever blocking, ended for good."""

from __future__ import annotations

import os
import pwd
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from gpuburn import strict
from gpuburn.agent import processes
from gpuburn.agent.cgroup import Group
from gpuburn.agent.host import torchrun
from gpuburn.agent.lifeline import tie
from gpuburn.agent.worker import Assignment
from gpuburn.outcome import Status, SubjectOutcome
from gpuburn.plan import HOST, Plan, Step

PATIENCE = 10.0  # seconds from SIGTERM to SIGKILL, and from SIGKILL to "unkillable"
WORKER = "gpuburn.agent.worker"


@dataclass(frozen=True, slots=True)
class Account:
    """Who the workers are: None is the supervisor's own user."""

    uid: int | None = None
    gid: int = 0
    home: str = "/"

    @classmethod
    def named(cls, name: str) -> Account:
        """The account of that name; "" or one's own is no change. Raises KeyError for an unknown one."""
        if not name or os.geteuid() != 0:
            return cls()
        entry = pwd.getpwnam(name)
        return cls(entry.pw_uid, entry.pw_gid, entry.pw_dir)

    def assume(self) -> None:
        """Become this user for good (in a child, before exec)."""
        if self.uid is not None:
            os.setgroups([])
            os.setgid(self.gid)
            os.setuid(self.uid)

    def give(self, path: Path) -> None:
        if self.uid is not None:
            os.lchown(path, self.uid, self.gid)


class Processes:
    """One step's workers and its sampler."""

    def __init__(self, plan: Plan, step: Step, folder: Path, account: Account) -> None:
        self.plan, self.step, self.folder, self.account = plan, step, folder, account
        self.group = Group(f"{plan.run}-{step.name}")
        self.workers: dict[str, subprocess.Popen[bytes]] = {}
        self.sampler: subprocess.Popen[bytes] | None = None
        self._seen: list[processes.Process] = []

    def start(self) -> None:
        """Write the assignment and start sampler and workers; they wait for each other where the scope says so."""
        step, folder = self.step, self.folder
        (folder / "log").mkdir()
        (folder / "scratch").mkdir()
        assignment = Assignment(
            step.probe, step.scope, step.params, self.plan.devices, self.plan.seed, step.threads, step.timeout, step.env
        )
        (folder / "assignment.json").write_bytes(strict.encode(assignment))
        for path in (folder, folder / "log", folder / "scratch"):
            self.account.give(path)
        self.sampler = self._spawn("sampler", [sys.executable, "-m", "gpuburn.agent.telemetry", str(folder)])
        for name, command in self._commands().items():
            self.workers[name] = self._spawn(name, command)

    def _commands(self) -> dict[str, list[str]]:
        if self.step.scope == "device":
            return {name: [sys.executable, "-m", WORKER, str(self.folder), name] for name in self.plan.device_names()}
        if self.step.scope == "ranks":
            world = len(self.plan.devices)
            return {"ranks": torchrun(WORKER, [str(self.folder)], world, self.folder / "log")}
        return {HOST: [sys.executable, "-m", WORKER, str(self.folder), HOST]}

    def _spawn(self, name: str, command: list[str]) -> subprocess.Popen[bytes]:
        threads = {"OMP_NUM_THREADS": str(self.step.threads)} if self.step.threads else {}
        home = {"HOME": self.account.home} if self.account.uid is not None else {}
        fixed = {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "PYTHONUNBUFFERED": "1"}
        env = {**os.environ, **fixed, **threads, **home, **self.step.env}

        supervisor = os.getpid()

        def enter() -> None:
            self.group.join()
            self.account.assume()
            tie(supervisor)  # after the change of user, which would undo it

        with (self.folder / "log" / f"{name}.log").open("wb") as log:
            # preexec_fn is safe here, for the supervisor has one thread; the group is joined before the user changes.
            return subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, cwd=self.folder, env=env,
                start_new_session=True, preexec_fn=enter,
            )  # fmt: skip

    def advance(self) -> bool:
        """Say go once all that still run are ready. Returns whether every worker has ended."""
        running = [name for name, one in self.workers.items() if one.poll() is None]
        go = self.folder / "go"
        waiting = self.step.scope == "device" and running and not go.exists()
        if waiting and all((self.folder / f"ready.{name}").exists() for name in running):
            go.touch()
        return not running

    def blind(self) -> str:
        """Why the sampler no longer sees; "" while it runs."""
        status = self.sampler.poll() if self.sampler else None
        return "" if status is None else f"the sampler ended by itself with status {status}: {self._log('sampler')}"

    def stop_sampler(self) -> None:
        if self.sampler and self.sampler.poll() is None:
            self.sampler.terminate()
            try:
                self.sampler.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                self.sampler.kill()  # it hangs in a driver; what it wrote is kept

    def end(self) -> list[int]:
        """End all that still run: SIGTERM, SIGKILL. Returns the pids that survived both."""
        own = [one.pid for one in self.workers.values()]
        self._seen = processes.tree([pid for pid in own if processes.start_time(pid) is not None])
        processes.send(self._seen, signal.SIGTERM)
        left = processes.wait_gone(self._seen, PATIENCE, self._reap)
        if left or self.group.pids():
            self.group.kill()
            processes.send(left, signal.SIGKILL)
            left = processes.wait_gone(left, PATIENCE, self._reap)
        return [pid for pid, _ in left]

    def close(self) -> None:
        """Leave nothing behind: the sampler, stray children, the group itself."""
        self.stop_sampler()
        if self.group.pids():
            self.group.kill()
            members = [(pid, at) for pid in self.group.pids() if (at := processes.start_time(pid)) is not None]
            processes.wait_gone(members, PATIENCE, self._reap)
        self.group.remove()

    def _reap(self) -> None:
        for one in self.workers.values():
            one.poll()

    def subjects(self, cut: Status | None, why: str) -> list[SubjectOutcome]:
        """How each subject fared. cut: what ended those that had not ended by themselves."""
        errors = self._errors()
        found = []
        for index, subject in enumerate(self.plan.device_names() if self.step.scope != "host" else [HOST]):
            worker = self.workers.get(subject) or self.workers.get("ranks") or self.workers[HOST]
            said = errors.get(str(index) if self.step.scope == "ranks" else subject)
            if said:
                together = cut if cut and self.step.scope == "ranks" else Status.ERRORED
                found.append(SubjectOutcome(subject, together, said[1]))
            elif worker.returncode == 0:
                found.append(SubjectOutcome(subject, Status.COMPLETED))
            elif cut:
                found.append(SubjectOutcome(subject, cut, why))
            else:
                found.append(SubjectOutcome(subject, Status.ERRORED, self._cause(errors, subject, worker)))
        return found

    def _cause(self, errors: dict[str, tuple[float, str]], subject: str, worker: subprocess.Popen[bytes]) -> str:
        """The first failure by its own clock, or what the process's end tells: the others usually die of its death."""
        if self.step.scope == "ranks" and errors:
            rank = min(errors, key=lambda who: errors[who][0])
            return f"ended after {self.plan.device_names()[int(rank)]} failed: {errors[rank][1]}"
        name = "ranks" if self.step.scope == "ranks" else subject
        status = worker.returncode
        how = f"signal {-status}" if status and status < 0 else f"exit status {status}"
        return f"ended with {how}: {self._log(name)}"

    def _errors(self) -> dict[str, tuple[float, str]]:
        """What workers wrote of their own failure; such a file is as little trusted as any other of theirs."""
        found = {}
        for path in self.folder.glob("error.*.json"):
            document = strict.loads(strict.load_file(path), path.name)
            found[path.name.split(".")[1]] = (float(document["at"]), str(document["why"])[:1000])
        return found

    def _log(self, name: str) -> str:
        path = self.folder / "log" / f"{name}.log"
        text = path.read_bytes()[-2000:].decode("utf-8", "replace") if path.exists() else ""
        return " ".join(text.split())[-300:] or "it said nothing"


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
