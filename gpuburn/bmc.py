"""What a host's BMC told at one moment, and how its numbers compare with those that the host says of itself. Pure.

A BMC that names no number of the host (some have no DMI serial anywhere in Redfish) is not comparable: that is neither
agreement nor contradiction. Where a part sits is no identity: only its own serial number or UUID is.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Literal

from gpuburn.identity import Identity, is_junk

Moment = Literal["start", "finding", "end"]
MOMENTS: dict[Moment, str] = {
    "start": "the start of the run", "finding": "the first hardware finding", "end": "the end of the run",
}  # fmt: skip
Verified = Literal["ca", "fingerprint", "unverified"]
Outcome = Literal["agrees", "differs", "not comparable"]
UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
SEVERITIES = ("OK", "Warning", "Critical")  # Redfish Health and LogEntry.Severity (DSP0268)
RUNNING = ("", "Enabled", "StandbySpare", "StandbyOffline")  # Redfish Status.State of a part that is as it should be


@dataclass(frozen=True, slots=True)
class Supply:
    """A power supply that is there. state, health, line (its feed): Redfish's words, "" where it tells none.

    watts: W taken in.
    """

    name: str
    state: str = ""
    health: str = ""
    serial: str = ""
    watts: float | None = None
    line: str = ""

    @property
    def told(self) -> bool:
        return bool(self.state or self.health)

    @property
    def ok(self) -> bool:
        return self.health in ("", "OK") and self.state in RUNNING and self.line in ("", "Normal")

    def words(self) -> str:
        feed = f", line input {self.line}" if self.line else ""
        return f"state {self.state or 'not told'}, health {self.health or 'not told'}{feed}"


@dataclass(frozen=True, slots=True)
class Line:
    """One line of an event log that was not there at the start. created: the BMC's own clock, as it wrote it."""

    log: str
    id: str
    created: str
    severity: str
    text: str


@dataclass(frozen=True, slots=True)
class Log:
    """The event logs at one moment. logs: those that were read whole; keys: what tells a line from another; lines (not
    all), counts (by severity, "" for none that is known): what came since the start. missing: why that cannot be said;
    "" where it can."""

    logs: list[str] = field(default_factory=list)
    keys: list[str] = field(default_factory=list)
    lines: list[Line] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)
    missing: str = ""


@dataclass(frozen=True, slots=True)
class Look:
    """One look at a BMC. at: unix seconds of the controller; silent: why nothing was heard, "" where it answered.

    gpus: how many it counts, None where it lists none. inlet: C. health: {part: Redfish's word} of those that tell it.
    unread: {what: why} of what it has and did not give.
    """

    moment: Moment
    at: float
    verified: Verified
    silent: str = ""
    identity: Identity | None = None
    gpus: int | None = None
    supplies: list[Supply] = field(default_factory=list)
    inlet: float | None = None
    log: Log = field(default_factory=Log)
    health: dict[str, str] = field(default_factory=dict)
    unread: dict[str, str] = field(default_factory=dict)

    def values(self, sources: str, key: str) -> list[str]:
        """The values of a key over all sources whose name begins so; filler is absent."""
        if self.identity is None:
            return []
        found = (self.identity.value(f"{one}.{key}") for one in self.identity.sources if one.startswith(sources))
        return [value for value in found if value]


@dataclass(frozen=True, slots=True)
class Inband:
    """What the host says of itself. system: its serial numbers (product first); gpus: {device: (serial, uuid)}."""

    system: list[str] = field(default_factory=list)
    uuid: str = ""
    gpus: dict[str, tuple[str, str]] = field(default_factory=dict)
    count: int | None = None


@dataclass(frozen=True, slots=True)
class Compared:
    """One number of the host against its BMC."""

    about: str
    subject: str
    outcome: Outcome
    why: str


def serial(value: str) -> str:
    """A serial number as two sources write it alike; "" for filler."""
    value = value.strip().upper()
    return "" if is_junk(value) else value


def uuid(value: str) -> str:
    """A UUID as two sources write it alike (NVML puts GPU- before it); "" for what is none and for filler, which may
    have its bytes in either order."""
    value = value.strip().lower().removeprefix("gpu-")
    return value if UUID.fullmatch(value) and not (is_junk(value) or is_junk(swapped(value))) else ""


def swapped(value: str) -> str:
    """The UUID with its first three fields in the other byte order: SMBIOS before 2.6 left the order open."""
    head, rest = value[:18], value[18:]
    return "-".join(bytes.fromhex(part)[::-1].hex() for part in head.split("-")) + rest


def compare(inband: Inband, look: Look) -> list[Compared]:
    """Every number that the host says of itself, against its BMC: serial, UUID, then each GPU."""
    gpus = _gpus(inband, look)
    same = any(one.outcome == "agrees" for one in gpus)
    by_uuid = _uuid(inband, look)
    return [_serial(inband, look, same or by_uuid.outcome == "agrees"), by_uuid, *gpus]


def _serial(inband: Inband, look: Look, same: bool) -> Compared:
    """same: whether another number shows that it is this machine: then the BMC merely counts by other numbers."""
    mine = [one for one in map(serial, inband.system) if one]
    system = _all(serial, look.values("bmc.system", "serial"))
    theirs = [*system, *_all(serial, look.values("bmc.chassis", "serial"))]
    found = next((one for one in mine if one in theirs), "")
    if found:
        outcome: Outcome = "agrees"
        why = found
    elif not mine or not system:
        outcome, why = "not comparable", "the host tells no serial number" if not mine else "the BMC tells none"
    elif same:
        outcome = "not comparable"
        why = f"the BMC counts by other numbers ({system[0]}); another number shows that it is this machine"
    else:
        outcome, why = "differs", f"the host says {mine[0]}, its BMC {', '.join(system[:3])}"
    return Compared("bmc.serial", "host", outcome, why)


def _uuid(inband: Inband, look: Look) -> Compared:
    mine, theirs = uuid(inband.uuid), _all(uuid, look.values("bmc.system", "uuid"))
    if not mine or not theirs:
        why = "the host tells no UUID" if not mine else "the BMC tells none"
        return Compared("bmc.uuid", "host", "not comparable", why)
    if mine in theirs:
        return Compared("bmc.uuid", "host", "agrees", mine)
    if swapped(mine) in theirs:
        return Compared("bmc.uuid", "host", "not comparable", f"{mine}: the BMC has its bytes in the other order")
    return Compared("bmc.uuid", "host", "differs", f"the host says {mine}, its BMC {', '.join(theirs[:3])}")


def _gpus(inband: Inband, look: Look) -> list[Compared]:
    serials = _all(serial, look.values("bmc.gpu.", "serial"))
    uuids = _all(uuid, look.values("bmc.gpu.", "uuid"))
    mine = {name: (serial(number), uuid(one)) for name, (number, one) in inband.gpus.items()}
    numbers = [number for number, _ in mine.values()]
    same_kind = any(number in serials for number in numbers)
    known = any(one in uuids for _, one in mine.values())
    comparable = serials if same_kind or (_alike(numbers, serials) and not known) else []
    return [_gpu(name, *both, comparable, uuids, look.gpus or 0) for name, both in mine.items()]


def _gpu(name: str, number: str, own: str, serials: list[str], uuids: list[str], count: int) -> Compared:
    """One GPU: by serial number, else by UUID. A list that is shorter than the BMC's count may leave out just this."""
    for value, theirs in ((number, serials), (own, uuids)):
        if value and value in theirs:
            return Compared("bmc.gpu", name, "agrees", value)
        if value and theirs and len(set(theirs)) >= count:
            return Compared("bmc.gpu", name, "differs", f"the host says {value}, which its BMC does not list")
    told = number or own
    why = "the BMC tells no such number of each of its GPUs" if told else "the host tells neither serial nor UUID"
    return Compared("bmc.gpu", name, "not comparable", why)


def _alike(mine: Iterable[str], theirs: list[str]) -> bool:
    """Whether two lists look like the same kind of number: sticker, NVML and BMC may count by different ones."""
    shape = {(len(one), one.isdigit()) for one in mine if one}
    return bool(shape) and {(len(one), one.isdigit()) for one in theirs} <= shape


def _all(form: Callable[[str], str], values: Iterable[str]) -> list[str]:
    return [told for told in map(form, values) if told]
