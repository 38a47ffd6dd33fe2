"""A run's looks at a host's BMC: hosts/<host>/bmc.json, one look per moment, its digest in the run's journal."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from gpuburn import strict
from gpuburn.bmc import MOMENTS, Inband, Look
from gpuburn.controller.judged import Judged
from gpuburn.controller.run import Run
from gpuburn.journal import Entry
from gpuburn.strict import Refused

FILE = "bmc.json"
EVENT = "bmc.look"
LIMIT = 4 * strict.MEBIBYTE  # bytes: 2,000 keys of log lines, 200 lines and a few hundred sources are below 1


def path(run: Run, host: str) -> Path:
    return run.host(host) / FILE


def looks(run: Run, host: str, entries: Iterable[Entry]) -> list[Look]:
    """The looks that were taken, the start first. Refused where they are not what the journal vouches for."""
    noted = [entry for entry in entries if entry.event == EVENT]
    file = path(run, host)
    if not file.exists() and not file.is_symlink():
        if noted:
            raise Refused(f"{FILE} is missing, and the journal says that a look was taken")
        return []
    data = strict.load_file(file, LIMIT)
    if not noted or noted[-1].details.get("sha256") != strict.digest(data):
        raise Refused(f"{FILE}: is not what the journal vouches for")
    return strict.build(list[Look], strict.loads(data, FILE, LIMIT), FILE)


def keep(run: Run, host: str, before: list[Look], one: Look) -> None:
    """Put a look in the place of an earlier one of the same moment; written as a whole, then noted."""
    found = sorted(
        [*(look for look in before if look.moment != one.moment), one], key=lambda look: [*MOMENTS].index(look.moment)
    )
    data = strict.encode(found)
    file = path(run, host)
    file.parent.mkdir(parents=True, exist_ok=True)
    new = file.with_name(f".{FILE}.new")
    new.unlink(missing_ok=True)
    new.write_bytes(data)
    new.replace(file)
    run.note(
        one.at, EVENT, host, moment=one.moment, sha256=strict.digest(data), verified=one.verified, silent=one.silent
    )


def inband(judged: Judged) -> Inband:
    """What the host says of itself, as it was verified."""
    gpus: dict[str, dict[str, str]] = {}
    for part in judged.parts:
        if part.kind in ("uuid", "serial") and part.subject != "host":
            gpus.setdefault(part.subject, {})[part.kind] = part.value
    said = judged.itself
    system = [said[name] for name in ("dmi.product_serial", "dmi.board_serial", "dmi.chassis_serial") if name in said]
    count = int(float(said["gpus"])) if "gpus" in said else None
    numbers = {name: (one.get("serial", ""), one.get("uuid", "")) for name, one in sorted(gpus.items())}
    return Inband(system, said.get("dmi.product_uuid", ""), numbers, count)
