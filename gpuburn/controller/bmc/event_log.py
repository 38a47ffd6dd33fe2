"""The event logs of a BMC: what they gained since an earlier look, told by the lines themselves, not by any clock.

A BMC's clock may be years off; a line that was not there at the start came during the run.
"""

from __future__ import annotations

import re
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
TELLING = ("Severity", "MessageSeverity", "EntryCode", "MessageId")  # of a LogEntry, the best first (DSP0268)
WORDS = {**{one.lower(): one for one in SEVERITIES}, "informational": "OK"}
QUIET = ("transition to ok", "limit not exceeded", "state deasserted", "predictive failure deasserted")  # of EntryCode
GRAVE = re.compile(r"(?<!non-)critical|non-recoverable", re.IGNORECASE)
TROUBLE = re.compile(r"non-critical|fail|fault|error|lost|exceeded|removed|degraded|absent|predictive", re.IGNORECASE)

NO_LOG = "it has no event log that is read"
GONE = "lines known from the start are gone, and others may have come and gone with them (cleared, or wrapped round)"
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
    counts = dict(Counter(one.severity if one.severity in SEVERITIES else "" for one in fresh))
    gone = [name for name in before.logs if name not in whole]
    holed = [name for name, lines in found if name in whole and _holed(name, before.keys, lines)]
    if late or gone:
        missing = f"not read at both ends of the run: {', '.join([*late, *gone][:5])}"
    elif holed:
        missing = f"{GONE}: {', '.join(holed[:5])}"
    return Log(whole, [], sorted(fresh, key=_rank)[:KEPT], counts, missing)


def _holed(name: str, before: list[str], lines: list[Line]) -> bool:
    """Whether a log lost lines that it had, so that others may have come and gone.

    A full log drops its oldest lines, which stand at one end: then it is as long as before, and holds the newer ones.
    """
    known = [key for key in before if key.startswith(_log_key(name))]
    here = set(map(_key, lines))
    kept = [at for at, key in enumerate(known) if key in here]
    if len(kept) == len(known):
        return False
    if not kept or len(lines) < len(known) or kept[-1] - kept[0] + 1 != len(kept):
        return True
    oldest_first = _key(lines[0]) in known  # else new lines stand before those that are known
    return kept[-1] != len(known) - 1 if oldest_first else kept[0] != 0


def _rank(line: Line) -> int:
    """The gravest first; what has no severity that Redfish knows before what is OK."""
    return {"Critical": 0, "Warning": 1, "OK": 3}.get(line.severity, 2)


def _key(line: Line) -> str:
    """What tells a line from another; it begins as those of all lines of its log do."""
    return _log_key(line.log) + strict.digest(f"{line.id}\n{line.created}\n{line.text}".encode())[:16]


def _log_key(name: str) -> str:
    return f"{strict.digest(name.encode())[:6]}-"


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
        severity = _severity(*(walk.text(entry.get(key)) for key in TELLING))
        words = walk.text(entry.get("Message")) or walk.text(entry.get("MessageId"))
        found.append(
            Line(about, walk.text(entry.get("Id"))[:40], walk.text(entry.get("Created"))[:40], severity, words)
        )
    return about, found


def _severity(*told: str) -> str:
    """Redfish's word, however it is written; without one what the line's type says of it, else what the BMC said."""
    severity, newer, code, message = told
    for said in (severity, newer):
        if found := WORDS.get(said.lower()):
            return found
    if code.lower() in QUIET:
        return "OK"
    kind = f"{code} {message.rpartition('.')[2]}"
    grade = "Critical" if GRAVE.search(kind) else "Warning" if TROUBLE.search(kind) else ""
    return grade or (severity or newer)[:20]
