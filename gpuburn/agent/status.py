"""How a run on this host stands, from its files alone: quick, without torch, safe to ask at any time."""

from __future__ import annotations

import fcntl
import os
import signal
import time
from pathlib import Path
from typing import Any

from gpuburn.agent import state
from gpuburn.agent.state import REPORT, State
from gpuburn.strict import Refused

STALLED = 300.0  # seconds without a sign of life from a supervisor that still holds its lock
RETURN = 180.0  # seconds in which a supervisor that is gone may come back: its unit restarts it, also after a boot


def status(folder: Path, now: float, uptime: float | None = None) -> dict[str, Any]:
    """phase: absent, starting, running, judging, finished, stalled, restarting or vanished; times in seconds.

    uptime: seconds since the host booted; None asks the host.
    """
    try:
        known = state.load(folder)
    except Refused as error:
        return {"phase": "vanished", "why": str(error)}
    if (folder / "result.json").exists() and (folder / "sealed.tar.gz").exists():
        return {"phase": "finished", **_progress(folder, known, now)} if known else {"phase": "finished"}
    if known is None:
        return {"phase": "starting" if held(folder) else "absent"}
    if not held(folder):
        gone = min(now - known.updated, _uptime() if uptime is None else uptime)
        phase, why = ("restarting", "may come back") if gone <= RETURN else ("vanished", "left no result")
        return {"phase": phase, "why": f"the supervisor is gone and {why}", **_progress(folder, known, now)}
    if now - known.updated > STALLED:
        why = f"no sign of life for {now - known.updated:.0f} s"
        return {"phase": "stalled", "why": why, **_progress(folder, known, now)}
    return {"phase": known.phase, **_progress(folder, known, now)}


def _uptime() -> float:
    return float(Path("/proc/uptime").read_text().split()[0])


def _progress(folder: Path, known: State, now: float) -> dict[str, Any]:
    """reported: whether there was a hardware finding, for which a bug report was begun."""
    return {
        "run": known.run, "step": known.step, "number": known.number, "of": known.of,
        "elapsed": round(now - known.started, 1), "expected": known.expected,
        "step_elapsed": round(now - known.step_started, 1) if known.step else 0.0, "step_expected": known.step_expected,
        "deadline": known.deadline, "reported": (folder / REPORT).is_dir(),
    }  # fmt: skip


def line(one: dict[str, Any]) -> str:
    """One sentence for a person."""
    if "step" not in one:
        return f"{one['phase']} {one.get('why', '')}".strip()
    where = f"step {one['number']} of {one['of']}, {one['step']}" if one["step"] else "before the first step"
    why = f": {one['why']}" if one.get("why") else ""
    return f"{one['phase']}{why}; {where}; {one['elapsed']:.0f} s of about {one['expected']:.0f} s"


def held(folder: Path) -> bool:
    """Whether a supervisor holds the run's lock."""
    try:
        descriptor = os.open(folder / "lock", os.O_RDONLY)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    else:
        return False
    finally:
        os.close(descriptor)


def stop(folder: Path) -> str:
    """Ask the run to end; it still writes its result. Signals only a process that holds this folder's lock."""
    known = state.load(folder)
    if known is None:
        raise Refused(f"{folder}: no run has started here")
    if not held(folder):
        return f"{status(folder, time.time())['phase']}; nothing to stop"
    (folder / "stop").touch()
    os.kill(known.pid, signal.SIGTERM)
    return "asked to stop; the result follows"
