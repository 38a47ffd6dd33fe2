"""Systems, chassis and managers of a BMC: who they are, their GPUs, power supplies and inlet temperature.

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
    services: list[Any] = field(default_factory=list)

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
        memory = one.get("MemorySummary")
        total = number(memory.get("TotalSystemMemoryGiB")) if isinstance(memory, dict) else None
        if total is not None:
            walk.sources.setdefault(source, {})["memory_gib"] = f"{total:g}"
        parts.services.append(linked(one.get("LogServices")))
        if linked(one.get("Processors")):
            for place, processor in walk.members(linked(one.get("Processors")), f"{source}.processors"):
                if there(processor) and processor.get("ProcessorType") == "GPU":
                    parts.processors.append(place)
                    walk.keep(walk.name("bmc.gpu", place), processor, GPU)


def chassis(walk: Walk, root: Resource, parts: Parts) -> None:
    for where, one in walk.members(linked(root.get("Chassis")), "bmc.chassis"):
        name = last(where)
        if not there(one):
            continue
        if name.startswith(HGX_GPU):
            parts.carriers.append(where)
            walk.keep(walk.name("bmc.gpu", where), one, {key: GPU[key] for key in ("serial", "part", "model")})
            continue
        source = walk.name("bmc.chassis", where)
        walk.keep(source, one, CHASSIS)
        parts.services.append(linked(one.get("LogServices")))
        if not name.startswith(BOARD):
            for supply in _supplies(walk, one, source):
                parts.supplies.append(supply)
            inlet = _inlet(walk, one, source)
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
    )


def _inlet(walk: Walk, one: Resource, source: str) -> float | None:
    """C at the air's way in (Redfish: Intake). Absent stays absent."""
    if subsystem := linked(one.get("ThermalSubsystem")):
        link = linked(walk.read(subsystem, f"{source}.thermal", needed=False).get("ThermalMetrics"))
        summary = walk.read(link, f"{source}.inlet", needed=False).get("TemperatureSummaryCelsius")
        return number(summary.get("Intake")) if isinstance(summary, dict) else None
    if thermal := linked(one.get("Thermal")):
        listed = walk.read(thermal, f"{source}.thermal", needed=False).get("Temperatures", [])
        for sensor in listed if isinstance(listed, list) else []:
            if isinstance(sensor, dict) and sensor.get("PhysicalContext") == "Intake" and there(sensor):
                return number(sensor.get("ReadingCelsius"))
    return None
