"""What judges beside the plan: the revision of the way of judging, its constants, and the table of Xids, as one digest.

A plan carries the digest, so that criteria that two parties agreed on cannot change under them with a new version.
"""

from __future__ import annotations

import functools

from gpuburn import comparison, strict, xid

REVISION = 2  # raised when the way of judging changes, as a probe's revision is when its way of measuring does


@functools.cache
def digest() -> str:
    """SHA-256 over revision, constants and Xids of this version."""
    constants = {"tightest": comparison.TIGHTEST, "guard": comparison.GUARD, "slack": comparison.SLACK}
    xids = [xid.load()[number] for number in sorted(xid.load())]
    return strict.digest(strict.encode({"revision": REVISION, "constants": constants, "xids": xids}))
