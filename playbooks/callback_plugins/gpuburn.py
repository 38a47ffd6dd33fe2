"""What surrounds the plays: the run id, the journal, progress, and the report if they did not come to it."""

from __future__ import annotations

DOCUMENTATION = """
name: gpuburn
type: aggregate
short_description: Run id, journal, progress and report of gpuburn
description:
  - Mints the run id at the first play, or takes the one that comes with C(-e gpuburn_run=).
  - Keeps reports/<run>/journal.jsonl, prints how every host stands, and writes the report if the plays did not.
requirements:
  - enabled in ansible.cfg (callbacks_enabled)
"""

import datetime  # noqa: E402
import json  # noqa: E402
import os  # noqa: E402
import secrets  # noqa: E402
import sys  # noqa: E402
import time  # noqa: E402
from pathlib import Path  # noqa: E402
from typing import Any  # noqa: E402

import yaml  # noqa: E402
from ansible import context  # noqa: E402
from ansible.plugins.callback import CallbackBase  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from gpuburn.controller import report  # noqa: E402
from gpuburn.controller.run import HOST, Run  # noqa: E402
from gpuburn.decision import Decision  # noqa: E402
from gpuburn.strict import Refused  # noqa: E402

# Tasks that are announced when they begin, because they take minutes.
LONG = ("Install torch",)
# After one of these a host is at work, and has to answer for itself.
STARTS = ("Start the unit", "Start the agent detached")
# Tasks by which every host is asked that is not left out: who answers is a witness that the controller's network works.
ASKS = ("Look at the host without changing it", "See how the run stands", "See what is there")
# Tasks that only steer the plays are not announced.
QUIET = ("Validating", "Let time pass", "See how the run stands", "Leave", "Sweep", "Refuse", "Stop", "Note", "Nothing")
VERDICT = "Say the verdict"
# Tasks that refuse the run as a whole.
WHOLE = ("Refuse to run without a run id", "Stop before anything runs")
AGAIN = "Stop a host that cannot be reached"  # says what was noted as unreachable already


class CallbackModule(CallbackBase):  # type: ignore[misc]
    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "aggregate"
    CALLBACK_NAME = "gpuburn"
    CALLBACK_NEEDS_ENABLED = True

    def __init__(self) -> None:
        super().__init__()
        self.run: Run | None = None
        self.check = bool(context.CLIARGS.get("check"))
        self.phases: dict[str, str] = {}
        self.stage = ""
        self.planned: list[str] = []
        self.refused = False
        self.answered: set[str] = set()
        self.silent: set[str] = set()
        self.watched = 0.0
        self.stopped: dict[str, str] = {}
        self.announced = ""

    # -- the run id ---------------------------------------------------------------------------------------------------

    def v2_playbook_on_play_start(self, play: Any) -> None:
        self._round()
        self.stage = play.get_name().strip()
        if self.run is not None:
            return
        given = play.get_variable_manager().extra_vars
        stamp = datetime.datetime.now(datetime.timezone.utc).strftime("%Y%m%dT%H%M%SZ")
        run = str(given.get("gpuburn_run") or f"{stamp}-{secrets.token_hex(2)}")
        reports = given.get("gpuburn_reports_dir") or os.environ.get("GPUBURN_REPORTS") or str(ROOT / "reports")
        os.environ["GPUBURN_RUN"] = ""
        os.environ["GPUBURN_BACK"] = "yes" if given.get("gpuburn_run") else "no"
        os.environ["GPUBURN_REPORTS"] = str(Path(str(reports)).resolve())
        os.environ["GPUBURN_WAIT"] = "yes" if self._waited() else "no"
        os.environ["GPUBURN_INVENTORY"] = ", ".join(_shown(one) for one in context.CLIARGS.get("inventory") or ())
        try:
            self.run = Run.of(Path(os.environ["GPUBURN_REPORTS"]), run)
        except Refused as error:
            os.environ["GPUBURN_REFUSED"] = str(error)  # said by the first task, which stops the play
            return
        os.environ["GPUBURN_RUN"] = run
        self._display.display(f"gpuburn run {run}{' (check: nothing is written or started)' if self.check else ''}")

    # -- the journal --------------------------------------------------------------------------------------------------

    def _note(self, event: str, host: str = "", **details: Any) -> None:
        """Only hosts that the run expects are written about: nothing is kept of a run that was refused as a whole."""
        if self.run is None or self.check or not (self.run.folder / "expected.json").exists():
            return
        if host and not HOST.fullmatch(host):
            return
        self.run.note(time.time(), event, host, **details)

    def v2_runner_on_unreachable(self, result: Any) -> None:
        host, why = result._host.get_name(), str(result._result.get("msg", "")).removeprefix("Task failed: ")
        self.stopped[host] = f"unreachable: {why}"
        self.silent.add(host)
        self._watch(_task(result))
        self.phases.pop(host, None)  # its next answer is news
        self._note("unreachable", host, stage=self.stage, task=_task(result), why=why)
        if _task(result) in STARTS:
            self._note("started", host, why="the answer was lost; it may be at work")

    def v2_runner_on_failed(self, result: Any, ignore_errors: bool = False) -> None:
        if _task(result) in (VERDICT, AGAIN):
            return
        self.refused = self.refused or _task(result) in WHOLE
        if _task(result) in ASKS:  # an answer, if a bad one
            self.answered.add(result._host.get_name())
        said = result._result
        why = said.get("stderr") or said.get("msg") or said.get("module_stderr") or "failed"
        self._note("failed", result._host.get_name(), stage=self.stage, task=_task(result), why=str(why).strip()[-400:])

    def _round(self) -> None:
        """What one round of questions came to is noted where somebody did not answer: who did is a witness."""
        if self.silent:
            self._note("watch", answered=len(self.answered - self.silent), silent=len(self.silent))
        self.answered, self.silent = set(), set()

    def _watch(self, task: str) -> None:
        if task == "See how the run stands":
            self.watched = time.time()

    # -- progress -----------------------------------------------------------------------------------------------------

    def v2_playbook_on_task_start(self, task: Any, is_conditional: bool) -> None:
        name = task.get_name().rpartition(" : ")[2]
        if name in ASKS:
            self._round()
        if name.startswith(LONG):
            self._announce(name)

    def _announce(self, name: str) -> None:
        """One line per task that did something on any host: a skipped one is not news."""
        if name != self.announced and not name.startswith(QUIET):
            self.announced = name
            self._display.display(f"  {self.stage}: {name}", color="dark gray")

    def v2_runner_on_ok(self, result: Any) -> None:
        name = _task(result)
        self._announce(name)
        if name in ASKS:
            self.answered.add(result._host.get_name())
            self._watch(name)
        if name == "See how the run stands":
            self._progress(result._host.get_name(), result._result.get("stdout", ""))
        elif name in STARTS:
            self._note("started", result._host.get_name())
        elif name == "Plan every host that was seen":
            self._plans(result._result.get("stdout", ""))

    def _progress(self, host: str, text: str) -> None:
        one = _object(text)
        phase = str(one.get("phase", "absent"))
        if phase != self.phases.get(host):
            self.phases[host] = phase
            self._note("phase", host, phase=phase, why=one.get("why", ""))
        if phase == "absent":
            return
        if "step" in one:
            step = f"step {one['number']}/{one['of']} {one['step']}" if one["step"] else "starting"
            part = (
                f", this step {one['step_elapsed']:.0f} s of about {one['step_expected']:.0f} s" if one["step"] else ""
            )
            text = f"{step:32} {one['elapsed']:5.0f} s of about {one['expected']:.0f} s{part}"
        else:
            text = str(one.get("why", ""))
        self._display.display(f"  {host:20} {phase:9} {text}".rstrip())

    def _plans(self, text: str) -> None:
        for host, one in _object(text).items():
            if "text" in one:
                self.planned.append(host)
                self._display.display(one["text"])
            else:
                self.stopped[host] = str(one.get("refused", "")).removeprefix(f"{host}: ")

    # -- the report ---------------------------------------------------------------------------------------------------

    def v2_playbook_on_stats(self, stats: Any) -> None:
        if self.run is not None and self.check:
            stopped = "".join(f"\n  {host}: {why}" for host, why in sorted(self.stopped.items()))
            said = f"{len(self.planned)} host(s) would run, {len(self.stopped)} would not{stopped}"
            self._display.display(f"check: {'no host would run; see above' if self.refused else said}")
        if self.run is None or self.check or not (self.run.folder / "expected.json").exists():
            return
        self._round()
        if self.watched:
            self._note("watched", until=self.watched)
        self._note("ended", ok=len(stats.ok), failed=len(stats.failures), unreachable=len(stats.dark))
        if not self._waited():
            again = f"ansible-playbook accept.yml -e gpuburn_run={self.run.id}"
            elsewhere = (
                ""
                if self.run.folder.parent == ROOT / "reports"
                else f" -e gpuburn_reports_dir={self.run.folder.parent}"
            )
            self._display.display(f"started; come back with: {again}{elsewhere} (and the same -i and -l)")
            return
        try:
            accounts, index = report.make(self.run, time.time())
        except (Refused, OSError) as error:
            self._display.error(f"no report could be written: {error}")
            return
        for one in accounts:
            self._display.display(f"{one.expected.host}: {_spoken(one.decision)}; {one.reason}")
        if (state := report.journal_state(self.run)).startswith(report.UNSOUND):
            self._display.error(f"{self.run.journal}: {state}")
        self._display.display(f"report: {index}")

    def _waited(self) -> bool:
        """As YAML reads it, and as the check of all variables does: what is no boolean is refused there."""
        said = _extra().get("gpuburn_wait", True)
        return yaml.safe_load(said) is not False if isinstance(said, str) else said is not False


def _extra() -> dict[str, Any]:
    from ansible.parsing.dataloader import DataLoader
    from ansible.utils.vars import load_extra_vars

    return dict(load_extra_vars(DataLoader()))


def _task(result: Any) -> str:
    return str(result._task.get_name()).rpartition(" : ")[2]


def _object(text: str) -> dict[str, Any]:
    """A host's answer, if it is a JSON object; a host may say anything."""
    try:
        found = json.loads(text)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _spoken(decision: Decision) -> str:
    return str(decision).replace("trial ", "trial: ")


def _shown(path: str) -> str:
    where = Path(path)
    return str(where.relative_to(ROOT)) if where.is_absolute() and where.is_relative_to(ROOT) else path
