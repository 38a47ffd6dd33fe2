"""gpuburn-agent: carry out plan.json on this host, tell how it stands, stop it; or look at the host by hand."""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from pathlib import Path

from gpuburn import __version__
from gpuburn.agent import status as stands
from gpuburn.outcome import Status
from gpuburn.strict import Refused

BY_HAND = ("identity", "health")  # what tells a person, with exit statuses of its own
USAGE = 3


def main(arguments: list[str] | None = None) -> int:
    """0: there is a result (whether the hardware is good is its business), 1: there is none, 2: refused input.

    identity, health: 0 nothing outside, 1 something outside its limit, 2 something demanded cannot be read, 3 usage.
    """
    parser = _parser()
    known, rest = parser.parse_known_args(arguments)
    if rest and known.command in BY_HAND:
        print(f"gpuburn-agent: {known.command}: unknown argument {rest[0]!r}", file=sys.stderr)
        return USAGE
    if rest and known.command != "probe":
        parser.error(f"unknown argument {rest[0]!r}")
    try:
        if known.command == "run":
            return _run(known.folder, known.detach)
        if known.command == "status":
            return _status(known.folder, known.json)
        if known.command == "stop":
            print(stands.stop(known.folder))
            return 0
        if known.command == "seal":
            return _seal(known.folder)
        if known.command in BY_HAND:
            return _by_hand(known.command, known.environment, known.json)
        return _probe(known.name, known.cpu, rest)
    except (Refused, FileNotFoundError, NotADirectoryError, IsADirectoryError, PermissionError) as error:
        print(f"gpuburn-agent: {error}", file=sys.stderr)
        return USAGE if known.command in BY_HAND else 2
    except BrokenPipeError:  # the reader of our output has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="gpuburn-agent", description=__doc__)
    parser.add_argument("--version", action="version", version=f"gpuburn {__version__}")
    commands = parser.add_subparsers(dest="command", required=True)
    run = commands.add_parser("run", help="carry out DIR/plan.json and write DIR/result.json")
    run.add_argument("folder", type=Path, metavar="DIR")
    run.add_argument("--detach", action="store_true", help="go on in the background (hosts without systemd)")
    status = commands.add_parser("status", help="how the run in DIR stands")
    status.add_argument("folder", type=Path, metavar="DIR")
    status.add_argument("--json", action="store_true", help="for machines")
    stop = commands.add_parser("stop", help="end the run in DIR; it still writes its result")
    stop.add_argument("folder", type=Path, metavar="DIR")
    seal = commands.add_parser("seal", help="seal what a run in DIR left that ended without a result")
    seal.add_argument("folder", type=Path, metavar="DIR")
    probe = commands.add_parser("probe", help="run one probe by hand: gpuburn-agent probe NAME [--param value ...]")
    probe.add_argument("name", metavar="NAME")
    probe.add_argument("--cpu", type=int, default=0, metavar="N", help="on the CPU in N processes, also where GPUs are")
    for name, does in (
        ("identity", "what every source says of this host: 0 known, 2 something demanded cannot be read, 3 usage"),
        ("health", "what it counted against itself: 0 nothing outside, 1 something outside, 2 not readable, 3 usage"),
    ):
        look = commands.add_parser(name, help=does, description=does)
        look.add_argument("--json", action="store_true", help="for machines")
        look.add_argument("--environment", default="bare_metal", metavar="WHERE", help="bare_metal, vm or container")
    return parser


def _by_hand(command: str, environment: str, as_json: bool) -> int:
    from gpuburn.agent import health_table, identity_table

    told = identity_table.told if command == "identity" else health_table.told
    text, status = told(environment, as_json)
    print(text)
    return status


def _run(folder: Path, detach: bool) -> int:
    from gpuburn.agent.run import run
    from gpuburn.plan import decode

    if not folder.is_dir():
        raise Refused(f"{folder}: not a run folder")
    if detach:
        decode((folder / "plan.json").read_bytes())  # refused here and now, not in a log that nobody reads
        if not _detached(folder):
            return 0
    if not run(folder):
        print(f"gpuburn-agent: another process is carrying out {folder}", file=sys.stderr)
        return 1
    return 0


def _detached(folder: Path) -> bool:
    """Fork twice, so that no terminal, session or parent can end the run. True in the process that goes on."""
    if os.fork():
        os.wait()
        return False
    os.setsid()
    if os.fork():
        os._exit(0)
    (folder / "pid").write_text(f"{os.getpid()}\n")
    log = os.open(folder / "agent.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.dup2(log, 1)
    os.dup2(log, 2)
    return True


def _seal(folder: Path) -> int:
    """What a run that ended without a result still shows is evidence: it may fail the host."""
    from gpuburn.agent.seal import seal

    if stands.held(folder):
        raise Refused(f"{folder}: a run is at work here")
    if not (folder / "plan.json").exists():
        raise Refused(f"{folder}: no plan.json")
    print(seal(folder))
    return 0


def _status(folder: Path, as_json: bool) -> int:
    if not folder.is_dir():
        raise Refused(f"{folder}: not a run folder")
    one = stands.status(folder, time.time())
    print(json.dumps(one) if as_json else stands.line(one))
    return 0


def _probe(name: str, cpu: int, words: list[str]) -> int:
    from gpuburn.agent import by_hand

    outcome = by_hand.carry_out_one(name, by_hand.parameters(words, name), cpu)
    print(by_hand.table(outcome))
    return 0 if outcome.status is Status.COMPLETED else 1


if __name__ == "__main__":
    sys.exit(main())
