"""What the controller needs to ask the BMCs, the password too: only a task with no_log may have it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

ADDRESS = "gpuburn_bmc_address"
ASKED = "gpuburn_bmc_"


def said(hostvars: Mapping[str, Mapping[str, Any]], hosts: Iterable[str]) -> str:
    """{host: {"variables": {gpuburn_bmc_*: value}}} of the hosts that have a BMC, as JSON."""
    return json.dumps({str(host): {"variables": _bmc(hostvars[host])} for host in hosts if _has(hostvars[host])})


def _has(mine: Mapping[str, Any]) -> bool:
    return bool(mine.get(ADDRESS))


def _bmc(mine: Mapping[str, Any]) -> dict[str, Any]:
    values = {str(name): mine[name] for name in sorted(mine) if str(name).startswith(ASKED)}
    return {name: one if isinstance(one, bool) else str(one) for name, one in values.items()}


class FilterModule:
    """Named after the role, as its variables are."""

    def filters(self) -> dict[str, Any]:
        return {"bmc_said": said}
