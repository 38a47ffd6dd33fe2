"""What a host's verified evidence names: numbers of its parts, versions of what it runs, facts with their subjects.

Reads alone: who shares a number or differs in a version is for the fleet to say.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from gpuburn.controller import inventory
from gpuburn.controller.collect import Collected
from gpuburn.identity import Identity
from gpuburn.measurement import UNTOLD
from gpuburn.plan import HOST, Plan

PARTS = {"identity.gpu_uuid": "uuid", "identity.gpu_serial": "serial"}
SERIALS = {"dmi.product_serial": "serial", "dmi.board_serial": "board", "dmi.chassis_serial": "chassis"}
ITSELF = ("dmi.product_serial", "dmi.board_serial", "dmi.chassis_serial", "dmi.product_uuid")
VERSIONS = {"identity.driver": "driver", "identity.gpu_vbios": "vbios", "identity.torch": "torch",
            "identity.kernel": "kernel", "identity.os": "os"}  # fmt: skip
LINKS = {"host_health.ib_active": "infiniband links", "host_health.nics_up": "network links"}
FIRMWARE = {"dmi.bios_version": "bios", "cpu.microcode": "microcode"}


@dataclass(frozen=True, slots=True)
class Part:
    """A number that one part of the host says of itself.

    kind: uuid, serial, board, chassis, boot; on bare metal also disk, mac, dimm (parts.py).
    """

    subject: str
    kind: str
    value: str


@dataclass(frozen=True, slots=True)
class Said:
    """One string about one subject: a fact that a cohort must share, or the version of something."""

    about: str
    subject: str
    value: str
    step: str = ""
    point: str = ""
    profiles: list[str] = field(default_factory=list)


def parts(collected: Collected, looks: list[Identity]) -> Iterator[Part]:
    """Every number of a part that the host tells of, of all its looks at itself."""
    yield from _serials(looks)
    yield from _boots(collected)
    yield from _parts(collected)
    yield from _inventory(collected.plan, looks)


def versions(collected: Collected, looks: list[Identity]) -> Iterator[Said]:
    """Of what runs on the host and of its firmware, and how its links came up; firmware as at the end of the run."""
    yield from _versions(collected)
    yield from _firmware(looks)
    yield from _links(collected)


def itself(collected: Collected, looks: list[Identity]) -> dict[str, str]:
    """As it was at the end of the run; a number is there only if the host told it."""
    found = {name: looks[-1].value(name) for name in ITSELF} if looks else {}
    for outcome in collected.outcomes:
        for m in (m for m in outcome.measurements if m.name == "identity.gpus"):
            found["gpus"] = f"{m.value:g}"
    return {name: value for name, value in found.items() if value}


def _serials(looks: list[Identity]) -> Iterator[Part]:
    for name, kind in SERIALS.items():
        for value in sorted({look.value(name) for look in looks} - {""}):
            yield Part(HOST, kind, value)


def _boots(collected: Collected) -> Iterator[Part]:
    """A boot's id is of one boot of one machine: two hosts with the same one are one machine."""
    for boot in collected.result.record.boots if collected.result else []:
        yield Part(HOST, "boot", boot.boot_id)


def _inventory(plan: Plan, looks: list[Identity]) -> Iterator[Part]:
    """Only of bare metal: a hypervisor gives the same serial to the disks of every guest."""
    if plan.environment == "bare_metal":
        yield from (Part(*one) for one in inventory.numbers(looks))


def _parts(collected: Collected) -> Iterator[Part]:
    for fact in facts(collected, PARTS):
        if not fact.value.startswith(UNTOLD):
            yield Part(fact.subject, PARTS[fact.about], fact.value)


def _versions(collected: Collected) -> Iterator[Said]:
    for fact in facts(collected, VERSIONS):
        yield Said(VERSIONS[fact.about], fact.subject, fact.value)


def _links(collected: Collected) -> Iterator[Said]:
    """Which links are up and how fast: a host unlike the others of its model may lack a cable or hold a slower one."""
    for fact in facts(collected, LINKS):
        if not fact.value.startswith(UNTOLD[0]):
            yield Said(LINKS[fact.about], fact.subject, fact.value)


def _firmware(looks: list[Identity]) -> Iterator[Said]:
    for name, about in FIRMWARE.items():
        if looks and (value := looks[-1].value(name)):
            yield Said(about, HOST, value)
    for look in looks[-1:]:
        yield from (Said(*one) for one in inventory.firmware(look))


def facts(collected: Collected, names: Iterable[str]) -> Iterator[Said]:
    """The facts of these names, each with the step that saw it and the profiles which that step serves."""
    wanted = set(names)
    for outcome in collected.outcomes:
        for fact in outcome.facts:
            if fact.name in wanted:
                step = collected.plan.step(outcome.step)
                served = list(step.profiles) if step else []
                yield Said(fact.name, fact.subject, fact.value, outcome.step, str(fact.point), served)
