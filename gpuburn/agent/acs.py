"""Access control services of PCI bridges: where they redirect, devices cannot talk to each other directly.

Capability 000Dh in the extended configuration space, control register at offset 6 (PCI Express Base Specification 5.0,
7.7.7; header of extended capabilities: 7.6.3). Bits that send peer traffic up to the root: P2P request redirect (2),
P2P completion redirect (3), upstream forwarding (4). Beyond the first 64 bytes only root may read.
"""

from __future__ import annotations

from typing import Any

from gpuburn.agent.look import Look
from gpuburn.agent.pci import DEVICES

BRIDGE = "0x0604"
START, SIZE = 0x100, 4096
CAPABILITY, CONTROL = 0x000D, 6
REDIRECTS = 0b11100


def control(config: bytes) -> int | None:
    """The control register; None where the device has no such capability, or its space could not be read so far."""
    at, seen = START, set()
    while START <= at <= len(config) - 8 and at not in seen:
        seen.add(at)
        header = int.from_bytes(config[at : at + 4], "little")
        if header & 0xFFFF == CAPABILITY:
            return int.from_bytes(config[at + CONTROL : at + CONTROL + 2], "little")
        at = header >> 20
    return None


def read(seen: Look) -> dict[str, Any]:
    """bridges: that have the capability; redirecting: those that send peer traffic up to the root."""
    found: dict[str, int] = {}
    for address in seen.within(DEVICES):
        if seen.word(f"{DEVICES}/{address}/class").startswith(BRIDGE):
            try:
                register = control(seen.raw(f"{DEVICES}/{address}/config", SIZE))
            except OSError:
                continue
            if register is not None:
                found[address] = register
    if not found:
        return {"unknown": "no bridge shows access control services"}
    return {"bridges": len(found), "redirecting": sorted(one for one, bits in found.items() if bits & REDIRECTS)}
