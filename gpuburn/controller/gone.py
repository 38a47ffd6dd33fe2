"""Whether a host went away under load, by what the journal shows. Silence that nobody listened to is no evidence."""

from __future__ import annotations

from collections.abc import Iterable

from gpuburn.journal import Entry

ALIVE = ("starting", "running", "judging", "finished", "stalled", "restarting", "vanished")
WATCH = "watch"  # a round in which some host did not answer; answered, silent: how many did and did not
WATCHED = "watched"  # until: when the last round of a wait was over, in unix seconds
UNWATCHED = "nobody watched it until its deadline, so that nothing is known of what became of it"


def started(entries: Iterable[Entry]) -> bool:
    """Whether the host is known to have been at work; a start whose answer was lost may never have come to it."""
    return any(
        (entry.event == "phase" and entry.details.get("phase") in ALIVE)
        or (entry.event == "started" and not entry.details.get("why"))
        for entry in entries
    )  # fmt: skip


def excuse(entries: list[Entry], watch: list[Entry], deadline: float) -> str:
    """Why a host that was at work and is over its deadline cannot be said to have gone away; "" if it did.

    entries: of the host; watch: of the run as a whole.
    """
    seen = max((entry.at for entry in entries if entry.event in ("phase", "started")), default=0.0)
    silent = [entry.at for entry in entries if entry.event == "unreachable" and entry.at >= seen]
    watched = any(_number(entry, "until") >= deadline for entry in watch if entry.event == WATCHED)
    if not watched and not (any(at <= deadline for at in silent) and any(at >= deadline for at in silent)):
        return UNWATCHED
    if not silent:
        return ""
    rounds = [entry for entry in watch if entry.event == WATCH and entry.at >= silent[0]]
    crowd = max((int(_number(one, "answered") + _number(one, "silent")) for one in rounds), default=0)
    # Who answered in the round of the loss may have done so before the controller lost its way.
    if crowd < 2 or any(_number(one, "answered") for one in rounds[1:]):
        return ""
    return f"none of the {crowd} hosts that were watched has answered since: that is no evidence against any of them"


def _number(entry: Entry, name: str) -> float:
    try:
        return float(entry.details.get(name, 0))
    except ValueError:
        return 0.0
