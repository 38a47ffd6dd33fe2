"""What judges beside the plan: the revision of the way of judging, its constants, and the tables of Xids and of
the kernel's log, as one digest.

A plan carries the digest, so that criteria that two parties agreed on cannot change under them with a new version.
"""

from __future__ import annotations

import functools

from gpuburn import comparison, events, kernel, strict, xid

REVISION = 4  # raised when the way of judging changes, as a probe's revision is when its way of measuring does


@functools.cache
def digest() -> str:
    """SHA-256 over revision, constants, Xids and kinds of event of this version."""
    constants = {"tightest": comparison.TIGHTEST, "guard": comparison.GUARD, "slack": comparison.SLACK,
                 "within": events.WITHIN}  # fmt: skip
    xids = [xid.load()[number] for number in sorted(xid.load())]
    kinds = list(kernel.load().values())  # in their order: the first that fits takes a record
    return strict.digest(strict.encode({"revision": REVISION, "constants": constants, "xids": xids, "kinds": kinds}))
