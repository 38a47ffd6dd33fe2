"""The lab's network: one bridge with a subnet of its own, no route to anywhere else, and cables that can be pulled."""

from __future__ import annotations

import ipaddress
import json

from .command import CommandFailed, run
from .packages import Unavailable
from .waiting import until

FIRST_HOST = 10  # .1 is the bridge; a lab gives each address once, so that nothing stale ever answers for a new host


class Bridge:
    """Number N stands for the bridge gpublabN and 10.77.N.0/24."""

    def __init__(self, number: int) -> None:
        self.number, self.name = number, f"gpublab{number}"
        self.subnet = ipaddress.ip_network(f"10.77.{number}.0/24")

    @property
    def is_free(self) -> bool:
        """No interface of that name, and no near route in the subnet; a far one, as wide as a /8, gives way to it."""
        links = {link["ifname"] for link in json.loads(run("ip", "-j", "link").stdout or "[]")}
        routes = json.loads(run("ip", "-j", "-4", "route", "show", "table", "all").stdout or "[]")
        taken = [ipaddress.ip_network(route["dst"]) for route in routes if route["dst"] != "default"]
        near = [network for network in taken if network.prefixlen >= 16]
        return self.name not in links and not any(self.subnet.overlaps(network) for network in near)

    def up(self) -> None:
        try:
            run("ip", "link", "add", self.name, "type", "bridge", "forward_delay", "0", "mcast_snooping", "0")
            run("ip", "address", "add", f"{self.subnet[1]}/24", "dev", self.name)
            run("ip", "link", "set", self.name, "up")
        except CommandFailed as error:
            raise Unavailable(f"this machine gives the lab no bridge: {error}") from error

    def address(self, index: int) -> str:
        if FIRST_HOST + index > 254:
            raise RuntimeError(f"{self.subnet} is used up: one lab run gives {255 - FIRST_HOST} hosts an address")
        return str(self.subnet[FIRST_HOST + index])


def cable(machine: str, plugged: bool) -> None:
    """Set the bridge's end of a host's link; systemd-nspawn makes it anew at each boot, so it may be a moment away."""
    end = f"vb-{machine}"
    until(lambda: _has(end), f"the link {end}", timeout=10)
    run("ip", "link", "set", end, "up" if plugged else "down")


def remove_bridge(name: str) -> None:
    if _has(name):
        run("ip", "link", "delete", name)


def _has(link: str) -> bool:
    return run("ip", "link", "show", link, check=False).returncode == 0
