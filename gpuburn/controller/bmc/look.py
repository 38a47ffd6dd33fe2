"""One look at one BMC, from log-in to log-out. Never raises for what a BMC does: silence is told as such."""

from __future__ import annotations

import time

from gpuburn.bmc import Log, Look, Moment
from gpuburn.controller.bmc import event_log, parts
from gpuburn.controller.bmc.access import Access
from gpuburn.controller.bmc.session import BODY, REQUEST, Session
from gpuburn.controller.bmc.walk import RESOURCES, Walk
from gpuburn.identity import Identity
from gpuburn.strict import Refused

LOOK = 240.0  # seconds of one look: 250 resources of a slow BMC at under a second each


def take(
    access: Access, moment: Moment, at: float, before: Log | None = None, seconds: float = LOOK,
    request: float = REQUEST, body: int = BODY, resources: int = RESOURCES,
) -> Look:  # fmt: skip
    """at: unix seconds. before: the log as it was at the start. seconds, request: of the whole look, of one request.

    body: bytes of one answer; resources: how many are read.
    """
    try:
        with Session(access, time.monotonic() + seconds, request, body) as session:
            walk, found = Walk(session, access, resources), parts.Parts()
            root = walk.read("/redfish/v1/", "bmc")
            parts.systems(walk, root, found)
            parts.chassis(walk, root, found)
            parts.managers(walk, root, found)
            log = event_log.read(walk, found.services, moment, before)
    except Refused as error:
        return Look(moment, at, access.verified, silent=str(error))
    identity = Identity(at, "", walk.sources, walk.missing)
    return Look(moment, at, access.verified, "", identity, found.gpus, found.supplies, found.inlet, log,
                found.health, walk.unread)  # fmt: skip
