"""Whatever a BMC puts in any place of any resource, a look ends with what it could read."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from gpuburn import strict
from gpuburn.bmc import Look
from gpuburn.controller.bmc import event_log, parts
from gpuburn.controller.bmc.access import Access
from gpuburn.controller.bmc.session import Absent
from gpuburn.controller.bmc.walk import Walk
from tests.controller.bmc import tree

ODD: list[Any] = [
    None, 5, True, "", "x\x00\x1b[31m", "y" * 5000, [], [[1]], [None], {}, {"@odata.id": [1]}, {"@odata.id": {"a": 1}},
    {"Reading": "hot"}, {"State": ["Absent"]}, {"Members": 5}, [{"@odata.id": "/redfish/v1/Systems"}, 7],
]  # fmt: skip


class Canned:
    """Answers from memory, as a Session answers."""

    def __init__(self, held: dict[str, Any]) -> None:
        self.held = held

    def get(self, where: str) -> dict[str, Any]:
        found = self.held.get(where.removeprefix("/redfish/v1").strip("/"))
        if not isinstance(found, dict):
            raise Absent(f"{where}: status 404")
        return found


def look(held: dict[str, Any]) -> Look:
    walk = Walk(Canned(held), Access("https://b", "ca", "u", "p4ssw0rd"))  # type: ignore[arg-type]
    found = parts.Parts()
    root = walk.read("/redfish/v1/", "bmc")
    for part in (parts.systems, parts.chassis, parts.managers):
        part(walk, root, found)
    log = event_log.read(walk, found.services, "start", None)
    return Look("start", 1.0, "ca", "", None, found.gpus, found.supplies, found.inlet, log, walk.unread)


def places(held: dict[str, Any]) -> Iterator[tuple[dict[str, Any], str]]:
    for one in held.values():
        for key, value in one.items():
            yield one, key
            if isinstance(value, dict):
                yield from ((value, inner) for inner in value)


@pytest.mark.parametrize("odd", ODD, ids=lambda odd: repr(odd)[:30])
def test_an_odd_value_in_any_place_ends_no_look(odd: Any) -> None:
    held = tree.host()
    del held["Systems"]["@odata.id"], held["Chassis"]["@odata.id"]  # nothing reads them
    count = 0
    for one, key in list(places(held)):
        kept, one[key] = one[key], odd
        told = strict.encode(look(held))
        assert b"\\u001b" not in told and b"y" * 300 not in told
        one[key] = kept
        count += 1
    assert count > 150 and look(held).gpus == 8


def test_parts_of_the_same_name_in_two_places_are_two() -> None:
    held = tree.host()
    held["Chassis"] = tree.collection("Chassis", "Chassis_0", "Chassis_1")
    held["Chassis/Chassis_1"] = {"Power": tree.ref("Chassis/Chassis_1/Power")}
    held["Chassis/Chassis_1/Power"] = {"PowerSupplies": [{"MemberId": "PSU0", "Status": tree.OK}]}
    assert [one.name for one in look(held).supplies] == ["PSU0", "PSU1", "PSU0_2"]
