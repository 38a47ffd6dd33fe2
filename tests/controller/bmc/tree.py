"""The resources of a host with an HGX board of 8 GPUs and 2 power supplies, in the form of DMTF's DSP2043 mockups."""

from __future__ import annotations

import uuid
from typing import Any

V1 = "/redfish/v1"
UUID = "4c4c4544-0051-3610-8052-b4c04f4e3132"
SERIAL = "J1050ABC"
GPUS = 8
OK = {"State": "Enabled", "Health": "OK"}


def gpu_serial(index: int) -> str:
    return f"165502301562{index}"


def gpu_uuid(index: int) -> str:
    return str(uuid.UUID(int=0xBEEA_0000_0000_4000_8000_0000_0000_0001 + index))


def ref(path: str) -> dict[str, str]:
    return {"@odata.id": f"{V1}/{path}"}


def collection(path: str, *names: str) -> dict[str, Any]:
    members = [ref(f"{path}/{name}") for name in names]
    return {**ref(path), "Members@odata.count": len(members), "Members": members}


def entry(number: int, severity: str, message: str) -> dict[str, Any]:
    place = f"Systems/System_0/LogServices/SEL/Entries/{number}"
    created = "2026-11-30T08:00:11Z"
    return {**ref(place), "Id": str(number), "Created": created, "Severity": severity, "Message": message}


def host() -> dict[str, Any]:
    """{path below /redfish/v1/: resource}."""
    tree: dict[str, Any] = {
        "": {
            **{name: ref(name) for name in ("Systems", "Chassis", "Managers", "SessionService")},
            "Links": {"Sessions": ref("SessionService/Sessions")},
            "RedfishVersion": "1.15.0",
        },
        "Systems": collection("Systems", "System_0", "HGX_Baseboard_0"),
        "Systems/System_0": {
            **ref("Systems/System_0"), "SerialNumber": SERIAL, "UUID": UUID, "SKU": "XE9680", "Model": "XE9680",
            "BiosVersion": "2.1.3", "MemorySummary": {"TotalSystemMemoryGiB": 2048},
            "Processors": ref("Systems/System_0/Processors"), "LogServices": ref("Systems/System_0/LogServices"),
            "Status": OK,
        },
        "Systems/System_0/Processors": collection("Systems/System_0/Processors", "CPU_0"),
        "Systems/System_0/Processors/CPU_0": {"ProcessorType": "CPU", "Status": OK},
        "Systems/System_0/LogServices": collection("Systems/System_0/LogServices", "SEL", "PostCodes"),
        "Systems/System_0/LogServices/SEL": {"Id": "SEL", "Entries": ref("Systems/System_0/LogServices/SEL/Entries")},
        "Systems/System_0/LogServices/SEL/Entries": {
            "Members": [entry(1, "OK", "Power on"), entry(2, "Critical", "Old")]
        },
        "Systems/System_0/LogServices/PostCodes": {"Id": "PostCodes", "Entries": ref("nowhere")},
        "Systems/HGX_Baseboard_0": {
            "SerialNumber": "1333023000042", "UUID": "00000000-0000-0000-0000-000000000000", "Status": OK,
            "Processors": ref("Systems/HGX_Baseboard_0/Processors"),
        },
        "Systems/HGX_Baseboard_0/Processors": collection(
            "Systems/HGX_Baseboard_0/Processors", *(f"GPU_SXM_{one}" for one in range(1, GPUS + 1))
        ),
        "Chassis": collection(
            "Chassis", "Chassis_0", "HGX_Chassis_0", *(f"HGX_GPU_SXM_{one}" for one in range(1, GPUS + 1))
        ),
        "Chassis/Chassis_0": {
            "ChassisType": "RackMount", "SerialNumber": "C-77", "PartNumber": "0XY", "Status": OK,
            "PowerSubsystem": ref("Chassis/Chassis_0/PowerSubsystem"),
            "ThermalSubsystem": ref("Chassis/Chassis_0/ThermalSubsystem"),
        },
        "Chassis/Chassis_0/PowerSubsystem": {"PowerSupplies": ref("Chassis/Chassis_0/PowerSubsystem/PowerSupplies")},
        "Chassis/Chassis_0/PowerSubsystem/PowerSupplies": collection(
            "Chassis/Chassis_0/PowerSubsystem/PowerSupplies", "PSU0", "PSU1"
        ),
        "Chassis/Chassis_0/ThermalSubsystem": {"ThermalMetrics": ref("Chassis/Chassis_0/ThermalSubsystem/Metrics")},
        "Chassis/Chassis_0/ThermalSubsystem/Metrics": {"TemperatureSummaryCelsius": {"Intake": {"Reading": 23.5}}},
        "Chassis/HGX_Chassis_0": {"SerialNumber": "1333023000042", "Status": OK},
        "Managers": collection("Managers", "BMC"),
        "Managers/BMC": {"FirmwareVersion": "7.10.30", "EthernetInterfaces": ref("Managers/BMC/EthernetInterfaces")},
        "Managers/BMC/EthernetInterfaces": collection("Managers/BMC/EthernetInterfaces", "eth0"),
        "Managers/BMC/EthernetInterfaces/eth0": {"MACAddress": "5c:ff:35:00:11:22"},
    }  # fmt: skip
    for one in range(2):
        place = f"Chassis/Chassis_0/PowerSubsystem/PowerSupplies/PSU{one}"
        tree[place] = {"SerialNumber": f"PSU-{one}-9931", "Status": OK, "Metrics": ref(f"{place}/Metrics")}
        tree[f"{place}/Metrics"] = {"InputPowerWatts": {"Reading": 1500.0 + one}}
    for one in range(GPUS):
        name = f"GPU_SXM_{one + 1}"
        tree[f"Systems/HGX_Baseboard_0/Processors/{name}"] = {
            "ProcessorType": "GPU", "SerialNumber": gpu_serial(one), "UUID": gpu_uuid(one),
            "FirmwareVersion": "96.00.74.00.0D", "Model": "H200", "Status": OK,
        }  # fmt: skip
        tree[f"Chassis/HGX_{name}"] = {"SerialNumber": gpu_serial(one), "Status": OK}
    return tree
