"""Systems, chassis and managers of a BMC: who they are, how they are, their GPUs, supplies, fans and inlet temperature.

The resources are those of DMTF's DSP2046; both forms of power and thermal are read, the one before 2020.4 (Power,
Thermal) and the one after (PowerSubsystem, ThermalSubsystem). A host with an HGX board has several systems.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from gpuburn.bmc import Supply
from gpuburn.controller.bmc.walk import Resource, Walk, last, linked, number, status, there

SYSTEM = {"serial": "SerialNumber", "uuid": "UUID", "sku": "SKU", "model": "Model", "bios": "BiosVersion"}
CHASSIS = {"serial": "SerialNumber", "part": "PartNumber", "model": "Model"}
GPU = {"serial": "SerialNumber", "uuid": "UUID", "part": "PartNumber", "model": "Model", "firmware": "FirmwareVersion"}
SUPPLY = {"serial": "SerialNumber", "part": "PartNumber", "model": "Model", "firmware": "FirmwareVersion"}
HGX_GPU = "HGX_GPU_"  # what NVIDIA's boards call the chassis of a GPU
BOARD = "HGX_"  # the board's own parts have no power supplies and no inlet


@dataclass(slots=True)
class Parts:
    """What was found. gpus: paths of GPU processors and of GPU chassis, of which the longer list counts."""

    processors: list[str] = field(default_factory=list)
    carriers: list[str] = field(default_factory=list)
    supplies: list[Supply] = field(default_factory=list)
    inlet: float | None = None
    health: dict[str, str] = field(default_factory=dict)
    services: list[Any] = field(default_factory=list)

    def feel(self, walk: Walk, name: str, one: Resource) -> None:
        """Keep what a part says of its own health; one that says nothing is not OK, it is silent."""
        if health := walk.text(status(one, "Health")):
            self.health[name] = health

    @property
    def gpus(self) -> int | None:
        """Either list may leave some out, and both name the same GPUs."""
        return max(len(self.processors), len(self.carriers)) or None


def systems(walk: Walk, root: Resource, parts: Parts) -> None:
    for where, one in walk.members(linked(root.get("Systems")), "bmc.systems"):
        if not there(one):
            continue
        source = walk.name("bmc.system", where)
        walk.keep(source, one, SYSTEM)
        parts.feel(walk, source, one)
        memory = one.get("MemorySummary")
        memory = memory if isinstance(memory, dict) else {}
        parts.feel(walk, f"{source}.memory", memory)
        total = number(memory.get("TotalSystemMemoryGiB"))
        if total is not None:
            walk.sources.setdefault(source, {})["memory_gib"] = f"{total:g}"
        parts.services.append(linked(one.get("LogServices")))
        if linked(one.get("Processors")):
            for place, processor in walk.members(linked(one.get("Processors")), f"{source}.processors"):
                if not there(processor):
                    continue
                gpu = processor.get("ProcessorType") == "GPU"
                name = walk.name("bmc.gpu" if gpu else "bmc.processor", place)
                parts.feel(walk, name, processor)
                if gpu:
                    parts.processors.append(place)
                    walk.keep(name, processor, GPU)


def chassis(walk: Walk, root: Resource, parts: Parts) -> None:
    for where, one in walk.members(linked(root.get("Chassis")), "bmc.chassis"):
        name = last(where)
        if not there(one):
            continue
        if name.startswith(HGX_GPU):
            parts.carriers.append(where)
            carrier = walk.name("bmc.gpu", where)
            parts.feel(walk, carrier, one)
            walk.keep(carrier, one, {key: GPU[key] for key in ("serial", "part", "model")})
            continue
        source = walk.name("bmc.chassis", where)
        walk.keep(source, one, CHASSIS)
        parts.feel(walk, source, one)
        parts.services.append(linked(one.get("LogServices")))
        if not name.startswith(BOARD):
            for supply in _supplies(walk, one, source):
                parts.supplies.append(supply)
            air = linked(one.get("ThermalSubsystem")) or linked(one.get("Thermal"))
            thermal = walk.read(air, f"{source}.thermal", needed=False) if air else {}
            for place, fan in _fans(walk, thermal, str(air), source):
                parts.feel(walk, walk.name("bmc.fan", place), fan)
            inlet = _inlet(walk, thermal, source)
            parts.inlet = inlet if parts.inlet is None else parts.inlet


def managers(walk: Walk, root: Resource, parts: Parts) -> None:
    for where, one in walk.members(linked(root.get("Managers")), "bmc.managers"):
        source = f"bmc.manager.{last(where)}"
        walk.keep(source, one, {"firmware": "FirmwareVersion", "model": "Model", "uuid": "UUID", "clock": "DateTime"})
        parts.services.append(linked(one.get("LogServices")))
        ports = linked(one.get("EthernetInterfaces"))
        for place, port in walk.members(ports, f"{source}.ports", needed=False) if ports else ():
            walk.keep(f"{source}.{last(place)}", port, {"mac": "MACAddress"})


def _supplies(walk: Walk, one: Resource, source: str) -> Iterator[Supply]:
    """The newer form where there is one: a chassis with both lists the same supplies twice."""
    if subsystem := linked(one.get("PowerSubsystem")):
        held = linked(walk.read(subsystem, f"{source}.power").get("PowerSupplies"))
        for where, supply in walk.members(held, f"{source}.supplies") if held else ():
            metrics = walk.read(linked(supply.get("Metrics")), f"bmc.psu.{last(where)}.metrics", needed=False)
            yield from _supply(walk, where, supply, number(metrics.get("InputPowerWatts")))
    elif power := linked(one.get("Power")):
        listed = walk.read(power, f"{source}.power").get("PowerSupplies", [])
        for index, supply in enumerate(listed[:64] if isinstance(listed, list) else []):
            if isinstance(supply, dict):
                place = f"{power}/{last(supply.get('MemberId') or supply.get('Name') or index)}"
                yield from _supply(walk, place, supply, number(supply.get("PowerInputWatts")))


def _supply(walk: Walk, place: str, supply: Resource, watts: float | None) -> Iterator[Supply]:
    if not there(supply):
        return
    source = walk.name("bmc.psu", place)
    walk.keep(source, supply, SUPPLY)
    serial = walk.sources.get(source, {}).get("serial", "")
    yield Supply(
        source.removeprefix("bmc.psu."),
        walk.text(status(supply, "State")),
        walk.text(status(supply, "Health")),
        serial,
        watts,
        walk.text(supply.get("LineInputStatus"))[:40],
    )


def _fans(walk: Walk, thermal: Resource, air: str, source: str) -> Iterator[tuple[str, Resource]]:
    """(place, fan) of those that are there: a collection in the newer form, a list in the older."""
    held = thermal.get("Fans")
    if link := linked(held):
        fans = list(walk.members(link, f"{source}.fans", needed=False))
    else:
        some = [one for one in (held[:64] if isinstance(held, list) else []) if isinstance(one, dict)]
        fans = [(f"{air}/{last(one.get('MemberId') or one.get('Name') or at)}", one) for at, one in enumerate(some)]
    yield from ((place, one) for place, one in fans if there(one))


def _inlet(walk: Walk, thermal: Resource, source: str) -> float | None:
    """C at the air's way in (Redfish: Intake). Absent stays absent."""
    if link := linked(thermal.get("ThermalMetrics")):
        summary = walk.read(link, f"{source}.inlet", needed=False).get("TemperatureSummaryCelsius")
        return number(summary.get("Intake")) if isinstance(summary, dict) else None
    listed = thermal.get("Temperatures", [])
    for sensor in listed if isinstance(listed, list) else []:
        if isinstance(sensor, dict) and sensor.get("PhysicalContext") == "Intake" and there(sensor):
            return number(sensor.get("ReadingCelsius"))
    return None
