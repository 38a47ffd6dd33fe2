"""The event logs of a BMC: what they gained since an earlier look, told by the lines themselves, not by any clock.

A BMC's clock may be years off; a line that was not there at the start came during the run.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from gpuburn import strict
from gpuburn.bmc import SEVERITIES, Line, Log, Moment
from gpuburn.controller.bmc.walk import Walk, last, linked

ENTRIES = 2000  # of one log: the event logs of large vendors hold 512 to 1,024 before they wrap
KEPT = 200  # lines that are kept word by word
# Logs of other things than the host's events: each login, each byte of a boot, dumps of memory.
OTHERS = ("dump", "postcode", "journal", "hostlogger", "audit", "fdr", "lclog", "security", "debug", "diag", "access")


NO_LOG = "it has no event log that is read"
NOTHING_BEFORE = "nothing to compare the event logs with: they were not read at the start of the run"


def read(walk: Walk, services: list[Any], moment: Moment, before: Log | None) -> Log:
    """before: the logs as they were at the start of the run. A log that was not read then tells nothing of the run."""
    found = [
        (name, lines) for place, service in _logs(walk, services) for name, lines in [_lines(walk, place, service)]
    ]
    whole = [name for name, _ in found if not any(about.startswith(name) for about in walk.unread)]
    missing = "" if found else NO_LOG
    if moment == "start":
        return Log(whole, [_key(line) for _, lines in found for line in lines], missing=missing)
    if before is None or before.missing:
        return Log(whole, missing=missing or NOTHING_BEFORE)
    late = [name for name, _ in found if name not in before.logs]
    known = set(before.keys)
    fresh = [line for name, lines in found if name not in late for line in lines if _key(line) not in known]
    counts = {name: count for name, count in Counter(one.severity for one in fresh).items() if name in SEVERITIES}
    gone = [name for name in before.logs if name not in whole]
    if late or gone:
        missing = f"not read at both ends of the run: {', '.join([*late, *gone][:5])}"
    return Log(whole, [], sorted(fresh, key=_rank)[:KEPT], counts, missing)


def _rank(line: Line) -> int:
    """The gravest first; what has no severity that Redfish knows before what is OK."""
    return {"Critical": 0, "Warning": 1, "OK": 3}.get(line.severity, 2)


def _key(line: Line) -> str:
    return strict.digest(f"{line.log}\n{line.id}\n{line.created}\n{line.text}".encode())[:16]


def _logs(walk: Walk, services: list[Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for where in dict.fromkeys(one for one in services if isinstance(one, str)):
        for place, service in walk.members(where, "bmc.logs"):
            other = any(word in last(place).lower() for word in OTHERS)
            if not other and service and service.get("ServiceEnabled") is not False:
                yield place, service


def _lines(walk: Walk, place: str, service: dict[str, Any]) -> tuple[str, list[Line]]:
    about = f"bmc.log.{'.'.join(place.strip('/').split('/')[2:])}"[:120]
    found = []
    for _, entry in walk.members(linked(service.get("Entries")), about, most=ENTRIES):
        severity = walk.text(entry.get("Severity"))[:20]
        words = walk.text(entry.get("Message")) or walk.text(entry.get("MessageId"))
        found.append(
            Line(about, walk.text(entry.get("Id"))[:40], walk.text(entry.get("Created"))[:40], severity, words)
        )
    return about, found
