"""Walk over a BMC's resources: a bounded number of them, each at most once, and a reason for whatever is not there."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import Any

from gpuburn import strict
from gpuburn.controller.bmc.access import Access
from gpuburn.controller.bmc.session import Absent, Session, path
from gpuburn.identity import is_junk
from gpuburn.strict import Refused

RESOURCES = 600  # of one look: a host with 8 GPUs, their switches and retimers has about 250 that are read
MEMBERS = 200  # of one collection that is no log
LENGTH = 200  # characters of a value
PLAIN = re.compile(r"[^A-Za-z0-9_-]")
CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]+")

Resource = dict[str, Any]


class Walk:
    """What one look finds. sources, missing: as in an Identity; unread: what the BMC has and did not give."""

    def __init__(self, session: Session, access: Access, resources: int = RESOURCES) -> None:
        self._session, self._access, self._left = session, access, resources
        self.sources: dict[str, dict[str, str]] = {}
        self.missing: dict[str, str] = {}
        self.unread: dict[str, str] = {}
        self._named: dict[str, str] = {}

    def name(self, kind: str, place: str) -> str:
        """The source of a part: its place's last name, with a number where another part has that already."""
        number, found = 1, f"{kind}.{last(place)}"
        while self._named.setdefault(found, place) != place:
            number += 1
            found = f"{kind}.{last(place)}_{number}"
        return found

    def read(self, where: Any, about: str, needed: bool = True) -> Resource:
        """A resource, empty where it cannot be had. needed: then trouble with it leaves something unproven."""
        try:
            if where is None:
                raise Absent("it has none")
            if self._left <= 0:
                raise Refused("it has more resources than are read of one BMC")
            self._left -= 1
            return self._session.get(path(where))
        except Absent as error:
            self.missing.setdefault(about, self.text(str(error)))
        except Refused as error:
            (self.unread if needed else self.missing).setdefault(about, self.text(str(error)))
        return {}

    def members(
        self, where: Any, about: str, needed: bool = True, most: int = MEMBERS
    ) -> Iterator[tuple[str, Resource]]:
        """(path, resource) of a collection's members, page after page; one that does not end is cut off, and named.

        A member that came whole with the collection is not asked for again.
        """
        seen: set[str] = set()
        count = 0
        while where is not None and where not in seen:
            seen.add(where)
            page = self.read(where, about, needed)
            listed = page.get("Members", [])
            for one in listed if isinstance(listed, list) else []:
                count += 1
                if count > most:
                    self.unread.setdefault(about, f"it lists more than {most}; the first {most} were read")
                    return
                link = linked(one)
                whole = isinstance(one, dict) and len(one) > 1
                yield str(link), one if whole else self.read(link, f"{about}.{last(link)}", needed)
            where = page.get("Members@odata.nextLink", page.get("@odata.nextLink"))
            if not isinstance(where, str | None):
                where = None
        if where is not None:
            self.unread.setdefault(about, "its pages lead back to one that was read")

    def text(self, value: Any) -> str:
        """One clean bounded line; "" for what is no text."""
        return CONTROL.sub(" ", self._access.hide(value)).strip()[:LENGTH].strip() if isinstance(value, str) else ""

    def keep(self, source: str, resource: Resource, names: dict[str, str]) -> None:
        """Values of a resource under a source. names: {our key: Redfish's}; filler and what is not told is missing."""
        for key, name in names.items():
            value = self.text(resource.get(name))
            if value and not is_junk(value):
                self.sources.setdefault(source, {})[key] = value
            else:
                self.missing[f"{source}.{key}"] = f"filler: {value}" if value else f"{name} is not told"


def linked(value: Any) -> str | None:
    """The path that a reference {"@odata.id": path} leads to; None where it is none. Odd ones lead nowhere."""
    found = value.get("@odata.id") if isinstance(value, dict) else None
    return found if found is None or isinstance(found, str) else strict.short(found)


def last(where: Any) -> str:
    """The last part of a path, as a name of ours."""
    return PLAIN.sub("_", str(where).rstrip("/").rpartition("/")[2])[:60]


def status(resource: Resource, key: str) -> str:
    """Status.State or Status.Health; "" where it is not told."""
    held = resource.get("Status")
    value = held.get(key) if isinstance(held, dict) else None
    return value[:40] if isinstance(value, str) else ""


def there(resource: Resource) -> bool:
    """Whether a resource is a part that is there: an empty slot has one too, with State Absent."""
    return bool(resource) and status(resource, "State") != "Absent"


def number(value: Any) -> float | None:
    """A finite number, bare or as a sensor's excerpt {"Reading": number}."""
    value = value.get("Reading") if isinstance(value, dict) else value
    plain = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    return float(value) if plain else None
