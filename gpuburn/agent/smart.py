"""What disks tell of their own health: by smartctl, else by nvme (NVMe only). Needs root.

JSON of smartmontools 7 (smartctl.8, --json) and of nvme-cli (nvme-smart-log.1). Fields of NVMe's SMART / Health
Information log: NVM Express Base Specification 2.0, figure 207; attributes 5, 197 and 198 of ATA disks as smartmontools
names them; grown defects of SCSI (SPC, log page and defect list).
"""

from __future__ import annotations

import re
import time
from typing import Any

from gpuburn import strict
from gpuburn.agent import command, disks
from gpuburn.agent.look import Look, clean
from gpuburn.strict import Refused

DEADLINE = 15.0  # seconds for all disks together; one answers in some 50 ms
MOST = 128  # disks
NVME = "nvme_smart_health_information_log"
# ours: (smartctl's name, nvme's name). warning: a set of bits, 0 where all is well; used, spare: per cent.
LOG = {
    "warning": ("critical_warning", "critical_warning"), "media_errors": ("media_errors", "media_errors"),
    "used": ("percentage_used", "percent_used"), "spare": ("available_spare", "avail_spare"),
    "hours": ("power_on_hours", "power_on_hours"),
}  # fmt: skip
REALLOCATED, PENDING, UNCORRECTABLE = 5, 197, 198
COUNT = re.compile(r"[0-9]{1,19}")

Health = dict[str, Any]


def read(seen: Look) -> dict[str, Health]:
    """By disk: warning, media_errors, used, spare, hours, reallocated (those that it tells); unknown or none: why."""
    end, found = time.monotonic() + DEADLINE, {}
    for name in _worth(seen)[:MOST]:
        try:
            found[name] = _asked(name, max(0.0, end - time.monotonic()))
        except (command.SilentError, Refused) as error:
            found[name] = {"unknown": clean(str(error))}
    return found


def _worth(seen: Look) -> list[str]:
    """Disks with a size that belong to the machine: a BMC's virtual media has none, or comes over USB."""
    disks.tell(seen, "")
    mine = ((name, seen.sources.get(f"disk.{name}", {})) for name in disks.disks(seen))
    return [name for name, told in mine if told.get("sectors") and told.get("transport") != "usb"]


def _asked(name: str, seconds: float) -> Health:
    if tool := command.found("smartctl"):
        return parse(command.answer([tool, "--json=c", "-a", f"/dev/{name}"], seconds))
    tool = command.found("nvme")
    if tool and name.startswith("nvme"):
        return parse_nvme(command.answer([tool, "smart-log", "-o", "json", f"/dev/{name}"], seconds))
    raise command.SilentError("smartctl is not installed" + (", nor is nvme" if name.startswith("nvme") else ""))


def parse(text: bytes) -> Health:
    """smartctl's answer. Raises Refused for one that says nothing of the disk's health.

    A SCSI disk without the informational exceptions mode page does not assess itself; what it counts is its word.
    """
    said, counted = _object(strict.loads(text, "smartctl")), False
    if NVME in said:
        health = _picked(_object(said[NVME]), 0)
    else:
        health = _ata(said) if "ata_smart_attributes" in said else _scsi(said)
        counted = bool(health) and "ata_smart_attributes" not in said
        health |= _used(said)
        health |= _some("hours", _object(said.get("power_on_time", {})).get("hours"))
    passed = _object(said.get("smart_status", {})).get("passed")
    if passed is False and not health.get("warning"):
        health["warning"] = 1
    elif passed is True:
        health.setdefault("warning", 0)
    if "warning" not in health and not counted:
        if _object(said.get("smart_support", {})).get("available") is False:
            return {"none": "it has no SMART"}  # as a RAID controller's virtual disk says
        raise Refused(f"it tells nothing of its health: {_messages(said)}")
    return health


def parse_nvme(text: bytes) -> Health:
    """nvme's answer; newer ones write the warning as an object with its value."""
    health = _picked(_object(strict.loads(text, "nvme")), 1)
    if "warning" not in health:
        raise Refused("it tells nothing of its health: nvme smart-log without critical_warning")
    return health


def _ata(said: Health) -> Health:
    table = _object(said["ata_smart_attributes"]).get("table")
    rows = [one for one in table if isinstance(one, dict)] if isinstance(table, list) else []
    raw = {one.get("id"): _object(one.get("raw", {})) for one in rows}
    lost = [_number(raw.get(key, {}).get("value")) for key in (PENDING, UNCORRECTABLE)]
    known = [one for one in lost if one is not None]
    # One sector may be counted by both: a pending one that an offline scan could not read. The larger is the least.
    media = _some("media_errors", max(known) if known else None)
    return {**_some("reallocated", _replaced(raw.get(REALLOCATED, {}))), **media}


def _replaced(raw: Health) -> int | None:
    """Attribute 5: smartmontools prints raw16(raw16), "8 (1)"; its value is all 48 bits, the low 16 are the count."""
    string = COUNT.match(str(raw.get("string", "")))
    value = _number(raw.get("value"))
    return int(string[0]) if string else None if value is None else value & 0xFFFF


def _used(said: Health) -> Health:
    """Wear of a SAS disk, else as newer versions tell it of any."""
    current = _object(said.get("endurance_used", {})).get("current_percent")
    return _some("used", current) | _some("used", said.get("scsi_percentage_used_endurance_indicator"))


def _scsi(said: Health) -> Health:
    log = _object(said.get("scsi_error_counter_log", {}))
    lost = [_number(_object(log.get(way, {})).get("total_uncorrected_errors")) for way in ("read", "write", "verify")]
    known = [one for one in lost if one is not None]
    media = _some("media_errors", sum(known) if known else None)
    return {**_some("reallocated", said.get("scsi_grown_defect_list")), **media}


def _picked(log: Health, column: int) -> Health:
    found: Health = {}
    for name, names in LOG.items():
        value = log.get(names[column])
        found |= _some(name, value.get("value") if isinstance(value, dict) else value)
    return found


def _some(name: str, value: Any) -> Health:
    number = _number(value)
    return {} if number is None else {name: number}


def _number(value: Any) -> int | None:
    """A count that is not negative; some versions write numbers as text, or with a point and a nought."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 20:
        return int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**63 else None


def _object(value: Any) -> Health:
    return value if isinstance(value, dict) else {}


def _messages(said: Health) -> str:
    told = _object(said.get("smartctl", {})).get("messages")
    first = next((_object(one).get("string", "") for one in told), "") if isinstance(told, list) else ""
    return clean(str(first)) or "it gave no reason"
