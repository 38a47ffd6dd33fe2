"""What the playbooks send on standard input: every host with its variables and what was seen of it."""

from __future__ import annotations

import json
import sys
from typing import Any

from gpuburn.strict import Refused


def hosts() -> dict[str, Any]:
    """{host: {"variables": {...}, "look": {...} or null}}."""
    try:
        document = json.loads(sys.stdin.read() or "{}")
    except (ValueError, RecursionError) as error:
        raise Refused(f"standard input: not JSON: {error}") from None
    if not isinstance(document, dict) or not all(isinstance(one, dict) for one in document.values()):
        raise Refused("standard input: wanted is an object of hosts, each with its variables and look")
    return document
