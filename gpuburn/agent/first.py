"""Which rank of a step failed first. The others usually die of its death, and complain louder than it did."""

from __future__ import annotations

import re
import signal
from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gpuburn.agent.worker import Failure

# torch.distributed.elastic prints it when it gives up; ranks that it ended itself have SIGTERM (exit code -15).
SEEN = re.compile(
    r"Root Cause \(first observed failure\):\n\[\d{1,4}\]:\n(?:  .*\n){0,4}?"
    r"  rank +: (\d{1,4}) .*\n(?:  .*\n){0,2}?  exitcode +: -(\d{1,2}) "
)
ENDED = signal.SIGTERM


def first(errors: Mapping[str, Failure], log: str) -> tuple[str, str]:
    """(rank, why); ("", "") where nothing tells. errors: {rank: what it said of its failure}; log: torchrun's.

    A rank that died of a signal said nothing: the launcher saw it. Else the earliest of those that spoke. One that
    spoke and then died died of what it said; and an abort is how libraries end a process whose partner is gone.
    """
    who = min(errors, key=lambda one: errors[one].at, default="")
    seen = SEEN.search(log)
    if seen and int(seen[2]) != ENDED and seen[1] not in errors and not (who and int(seen[2]) == signal.SIGABRT):
        return seen[1], f"ended with signal {seen[2]}"
    return who, errors[who].why if who else ""
