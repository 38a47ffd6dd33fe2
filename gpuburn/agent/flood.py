"""A flood of events does not fill the evidence, and hides nothing that says more than it does.

Events are listed up to a bound for each kind, part and Xid, and up to a bound for all of one weight: what fails a host,
what disturbs it and the rest do not take each other's room.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from gpuburn import events, xid
from gpuburn.events import Weight
from gpuburn.identity import Event

Key = tuple[str, str, str]  # code, part, Xid
EACH_XID = 100  # of one number on one GPU: each is a finding of its own, and a hundred are as telling as a million
KEYS = 10_000  # kinds, parts and Xids that are counted apart
WORDS: dict[Weight, str] = {"fail": "hardware that failed", "incomplete": "what disturbed the work"}


class Flood:
    """Counts what happened and says what of it is listed.

    each: events of one kind and part. all: of each weight. more, lost: codes of the events that say what is not
    listed; lost where a kind or a part may be missing altogether that would fail the host or leave it undecided.
    """

    def __init__(self, more: str, lost: str, each: int, all: Mapping[Weight, int]) -> None:
        self._more, self._lost, self._each, self._all = more, lost, each, all
        self._told: Counter[Key] = Counter()
        self._shown: Counter[Key] = Counter()
        self._used: Counter[Weight] = Counter()

    def heard(self, event: Event) -> Iterator[Event]:
        """The event where it is listed; at the first that is not, an event that says so."""
        key, what = self._key(event), events.weight(event)
        each = EACH_XID if key[2] else self._each
        self._told[key] += 1
        if self._told[key] > each:
            if self._told[key] == each + 1 and self._shown[key]:
                text = f"more than {each} of {_words(key)}; the others are not listed"
                yield Event(self._more, event.at, event.code, text)
            return
        self._used[what] += 1
        if self._used[what] <= self._all[what]:
            self._shown[key] += 1
            yield event
        elif self._used[what] == self._all[what] + 1 and what:
            text = f"more than {self._all[what]} events of {WORDS[what]}; the others are not listed"
            yield Event(self._lost, event.at, "host", text)

    def totals(self, now: float) -> Iterator[Event]:
        """How many there were of each kind, part and Xid of which not all are listed."""
        others: Counter[str] = Counter()
        for key, count in sorted(self._told.items()):
            if not self._shown[key]:
                others[key[0]] += count
            elif count > self._shown[key]:
                yield Event(self._more, now, key[0], f"{count} in all of {_words(key)}")
        for code, count in others.items():
            yield Event(self._more, now, code, f"{count} of parts of which none is listed")

    def _key(self, event: Event) -> Key:
        number = xid.number(event.text) if event.code in (events.XID, events.NVML_XID) else None
        key = (event.code, event.about, f"Xid {number[0]}" if number else "")
        return key if key in self._told or len(self._told) < KEYS else (event.code, "other parts", key[2])


def _words(key: Key) -> str:
    return " ".join(part for part in key[1:] if part)
