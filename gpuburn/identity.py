"""Which machine this is, and what it went through: every source side by side, never merged.

A value that a board vendor left as filler is absent, not equal to another filler.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

JUNK = re.compile(
    r"((to be )?filled( by o\.?e\.?m\.?)?|default( string)?"
    r"|(type\d+ - )?((system|chassis|base ?board|board) )?serial number"
    r"|not ?(specified|available|settable|applicable|present)|invalid|none|empty|tbd|o\.?e\.?m\.?"
    r"|\[?(n/?a|unknown( error)?)\]?"
    r"|0?12345678(90?)?|(0x|gpu-)?[0\s:-]+|\.+|(0x)?[f\s:-]+|x+"
    r"|03000200-0400-0500-0006-000700080009)?",  # the UUID that AMI's firmware ships for a vendor to replace
    re.IGNORECASE,
)

# What every host must tell of itself. The second set needs root and bare metal (DMI tables).
REQUIRED = ("os.kernel", "os.release", "cpu.model", "memory.total")
NEEDS_ROOT = ("dmi.product_serial", "dmi.board_serial")
# What stays as it is while a run lasts; not every host tells it.
FIXED = ("cpu.microcode", "cpu.count", "dmi.product_uuid", "dmi.chassis_serial", "dmi.bios_version")


@dataclass(frozen=True, slots=True)
class Identity:
    """What one look at the host found. sources: {source: {key: value}}; missing: {source.key: why}."""

    taken: float
    boot_id: str
    sources: dict[str, dict[str, str]] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)

    def value(self, name: str) -> str:
        """The value of "source.key", or "" where it is absent; a vendor's filler is absent, whoever sent it."""
        source, _, key = name.rpartition(".")
        value = self.sources.get(source, {}).get(key, "")
        return "" if is_junk(value) else value


@dataclass(frozen=True, slots=True)
class Boot:
    """One boot of the host that the supervisor saw, at unix time."""

    boot_id: str
    seen: float


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened beside the work: code such as kernel.xid, when, about which part, in what words."""

    code: str
    at: float
    about: str
    text: str


@dataclass(frozen=True, slots=True)
class HostRecord:
    """What is known of the host over the run. kernel_log: "read", or why it could not be."""

    boots: list[Boot] = field(default_factory=list)
    identities: list[Identity] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    kernel_log: str = "not read"


def is_junk(value: str) -> bool:
    """Whether a vendor's field holds filler instead of a value."""
    return JUNK.fullmatch(value.strip()) is not None
