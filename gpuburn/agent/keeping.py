"""What the sampler keeps of a long step: each minute in few readings, and every pass at both ends and around events.

A step of up to five minutes keeps every pass, in telemetry.jsonl. Of a longer one a minute becomes what its metrics are
reduced to (telemetry.minutes.jsonl), raw passes stay for the first minute and around events (telemetry.raw.jsonl), and
telemetry.jsonl holds those of the last minutes: it is what guards look at, and what is left if all ends at once.
"""

from __future__ import annotations

import os
import statistics
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from gpuburn import evidence
from gpuburn.measurement import Metric, Reading
from gpuburn.probe import Taken

BLOCK = 60.0  # seconds
WHOLE = 5  # blocks of a step that is kept as it is
ENDS = 2  # blocks at the end of a longer one that stay as they are
RAW = "telemetry.raw.jsonl"
PASSES = "samples"  # the one count that a calm step has
GAP = 5.0  # seconds between two passes that are an event: whatever held the sampler may have held more


@dataclass(eq=False)
class Block:
    """A minute of passes. event: whether something happened in it."""

    passes: list[list[Taken]] = field(default_factory=list)
    event: bool = False


class Keeper:
    """Takes passes in the order of time, and writes them into the step's folder.

    metrics: as the sampler promises them.
    """

    def __init__(self, folder: Path, metrics: dict[str, Metric]) -> None:
        self._folder, self._metrics = folder, metrics
        self._live = (folder / evidence.SAMPLER).open("ab")
        self._blocks = [Block()]  # those that are not settled, the last one still open
        self._settled, self._event_before = 0, False
        self._first = self._at = -1.0

    def add(self, seen: list[Taken], at: float) -> None:
        """One pass, at unix time; it is in the file when this returns."""
        if self._first < 0:
            self._first = at
        if at >= self._end():
            self._turn(at)
        self._blocks[-1].event |= self._eventful(seen, at)
        self._blocks[-1].passes.append(seen)
        self._live.write(_lines(seen))
        self._live.flush()

    def close(self) -> None:
        """The step is over: of a long one the rest becomes minutes too, and its last passes stay as they are."""
        if self._settled:
            ends = self._blocks[-ENDS:]
            while self._blocks:
                self._settle(kept=self._blocks[0] not in ends)
            self._rewrite(ends)
        self._live.close()

    def _end(self) -> float:
        return self._first + BLOCK * (self._settled + len(self._blocks))

    def _turn(self, at: float) -> None:
        """A minute is full. The last two wait: for an event that comes right after them, and for the step's end."""
        while at >= self._end():  # a sampler that was held up skips some
            self._blocks.append(Block())
        if self._settled + len(self._blocks) > WHOLE:
            while len(self._blocks) > ENDS + 1:
                self._settle()
            self._rewrite(self._blocks)

    def _settle(self, kept: bool = True) -> None:
        """The oldest block becomes few readings. kept: whether its passes are, where they are worth it."""
        block = self._blocks.pop(0)
        taken = [one for seen in block.passes for one in seen]
        _append(self._folder / evidence.MINUTES, _lines(thinned(taken, self._metrics)))
        follows = bool(self._blocks) and self._blocks[0].event
        if kept and (not self._settled or self._event_before or block.event or follows):
            _append(self._folder / RAW, _lines(taken))
        self._settled, self._event_before = self._settled + 1, block.event

    def _rewrite(self, blocks: list[Block]) -> None:
        beside = self._folder / f".{evidence.SAMPLER}.tmp"
        beside.write_bytes(b"".join(_lines(seen) for block in blocks for seen in block.passes))
        self._live.close()
        os.replace(beside, self._folder / evidence.SAMPLER)
        self._live = (self._folder / evidence.SAMPLER).open("ab")

    def _eventful(self, seen: Iterable[Taken], at: float) -> bool:
        """Whether something was counted that a calm step has none of, a GPU was silent, or the sampler was held up."""
        late, self._at = self._at >= 0 and at - self._at > GAP, at
        counted = (one for one in seen if isinstance(one, Reading) and one.metric != PASSES and one.value > 0)
        kinds = ((self._metrics[one.metric].unit, self._metrics[one.metric].reduce) for one in counted)
        return late or ("count", "sum") in kinds


def thinned(taken: Iterable[Taken], metrics: dict[str, Metric]) -> Iterator[Taken]:
    """A minute in few readings: what a reduction needs, and of what goes up and down the least, the mean, the most."""
    by: dict[tuple[str, str, str], list[Reading]] = {}
    told: dict[Taken, None] = {}
    for one in taken:
        if isinstance(one, Reading):
            by.setdefault((one.metric, one.subject, str(one.point)), []).append(one)
        else:
            told[one] = None
    yield from told
    for (name, _, _), many in by.items():
        yield from _few(metrics[name].reduce, many)


def _few(how: str, many: list[Reading]) -> Iterator[Reading]:
    first, last = many[0], many[-1]
    if how == "sum":
        yield Reading(last.metric, sum(one.value for one in many), last.point, last.subject, last.at)
    elif how == "last":
        yield last
    elif how in ("delta", "rate"):
        yield from dict.fromkeys((first, last))
    else:
        low, high = (pick(many, key=lambda one: one.value) for pick in (min, max))
        middle = (first.at + last.at) / 2
        mean = Reading(last.metric, statistics.fmean(one.value for one in many), last.point, last.subject, middle)
        yield from [low] if low.value == high.value else sorted({low, mean, high}, key=lambda one: one.at)


def _lines(taken: Iterable[Taken]) -> bytes:
    return b"".join(evidence.dump(one) for one in taken)


def _append(path: Path, data: bytes) -> None:
    with path.open("ab") as file:
        file.write(data)
