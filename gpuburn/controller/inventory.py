"""The parts beside the GPUs as the fleet compares them: numbers that no two hosts may share, firmware that all should.

Firmware is compared between parts of one model alone: two models never run the same.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from gpuburn import parts
from gpuburn.identity import Identity

UNIQUE = {"disk": "disk", "nic": "mac", "dimm": "dimm"}  # kind of part: what its number is called
FIRMWARE = {"disk.": ("disk_firmware", "model"), "nic.": ("nic_firmware", "board")}


def numbers(looks: list[Identity]) -> Iterator[tuple[str, str, str]]:
    """(subject, kind, value) of every part that any look saw, each number once: a disk may be renamed at a boot."""
    seen: dict[tuple[str, str], str] = {}
    for look in looks:
        for part in parts.parts(look):
            if part.kind in UNIQUE and (part.kind != "nic" or parts.universal(part.number)):
                seen.setdefault((UNIQUE[part.kind], part.number), part.source)
    yield from ((source, kind, number) for (kind, number), source in seen.items())


def firmware(look: Identity) -> Iterator[tuple[str, str, str]]:
    """(about, subject, value) of every disk and adapter that tells both its model and its firmware."""
    for source in sorted(look.sources):
        for start, (about, key) in FIRMWARE.items():
            model, value = look.value(f"{source}.{key}"), look.value(f"{source}.firmware")
            if source.startswith(start) and model and value:
                yield f"{about}.{re.sub(r'[^A-Za-z0-9-]+', '_', model)}", source, value
