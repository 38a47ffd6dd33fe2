"""What NVML tells of a GPU's wear, faults and modes: questions of one value, and sheets of several from one call.

Names, units and field numbers as in nvml.h (read from nvidia-ml-py 13.615). A field of nvmlDeviceGetFieldValues has an
error of its own, and 0 is never "no errors" where the call was not supported.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from gpuburn.agent.hardware import clean

Value = str | float
Sheet = tuple[tuple[str, ...], Callable[[Any, Any], Sequence[Any]]]
NS, MILLI, GIB = 1e-9, 1e-3, 2**30
# name: field of nvmlDeviceGetFieldValues and its factor. Seconds of NVML's own counters, which miss no moment.
FIELDS = {
    "memory_temperature": (82, 1.0), "energy": (83, MILLI), "replays": (94, 1.0), "capped": (74, NS),
    "sync_boost": (76, NS), "sw_thermal": (269, NS), "hw_thermal": (270, NS), "power_brake": (271, NS),
}  # fmt: skip
LINKS = 18  # of a GPU at most, up to NVLink 5 (NVML_NVLINK_MAX_LINKS)
NVLINK_4, NVLINK_5 = 6, 7  # as nvmlDeviceGetNvLinkVersion counts
# Recovered or repeated transfers, and checksum errors: fields by link of NVLink 4 (161 replay, 162 recovery, 163 CRC)
# and 5 (213 and 214 link recoveries that succeeded and failed, 219 effective errors), counters of older ones.
BY_VERSION: dict[int, tuple[tuple[int, ...], tuple[int, ...]]] = {
    NVLINK_4: ((161, 162), (163,)), NVLINK_5: ((213, 214), (219,))
}  # fmt: skip
LEGACY = ((0, 1), (2,))  # NVML_NVLINK_ERROR_DL_REPLAY, _RECOVERY; _CRC_FLIT
TYPES = ("dVal", "uiVal", "ulVal", "ullVal", "sllVal", "siVal", "usVal")  # of a field, by its valueType
FABRIC = {1: "not started", 2: "in progress", 3: "completed"}
SUMMARY = {1: "healthy", 2: "unhealthy", 3: "limited capacity"}
VIRTUAL = {0: "off", 1: "off", 2: "on: a vGPU inside a guest", 3: "on: host of vGPUs", 4: "on: host of vSGAs"}
RECOVERY = (
    "none", "GPU reset", "node reboot", "drain P2P", "drain and reset", "recover IMEX domain", "bus reset",
    "system reboot",
)  # fmt: skip


def _number(call: str, *arguments: Any, scale: float = 1.0) -> Callable[[Any, Any], Value]:
    return lambda nvml, handle: float(getattr(nvml, call)(handle, *arguments)) * scale


def _field(nvml: Any, values: Any, index: int) -> float:
    """One answer of a batch; raises its own error."""
    found = _answer(nvml, values[index])
    if isinstance(found, float):
        return found
    raise found


def _answer(nvml: Any, one: Any) -> Any:
    """A number, or the error in its place."""
    return nvml.NVMLError(one.nvmlReturn) if one.nvmlReturn else float(getattr(one.value, TYPES[one.valueType]))


def _counters(nvml: Any, handle: Any) -> Sequence[Any]:
    values = nvml.nvmlDeviceGetFieldValues(handle, [field for field, _ in FIELDS.values()])
    found = [_answer(nvml, one) for one in values]
    return [one * scale if isinstance(one, float) else one for one, (_, scale) in zip(found, FIELDS.values())]


def _link_errors(nvml: Any, handle: Any) -> Sequence[Any]:
    """Transfers repeated or recovered, and checksum errors, over all links; by the way of this NVLink's version."""
    version = nvml.nvmlDeviceGetNvLinkVersion(handle, 0)
    if version < NVLINK_4:
        return [_total(_old(nvml, handle, kinds)) for kinds in LEGACY]
    wanted = BY_VERSION[min(version, NVLINK_5)]
    asked = [(field, link) for fields in wanted for field in fields for link in range(LINKS)]
    answers = [_answer(nvml, one) for one in nvml.nvmlDeviceGetFieldValues(handle, asked)]
    first = len(wanted[0]) * LINKS
    return [_total(answers[:first]), _total(answers[first:])]


def _old(nvml: Any, handle: Any, kinds: Iterable[int]) -> list[Any]:
    found: list[Any] = []
    for kind in kinds:
        for link in range(LINKS):
            try:
                found.append(float(nvml.nvmlDeviceGetNvLinkErrorCounter(handle, link, kind)))
            except nvml.NVMLError as error:
                found.append(error)
    return found


def _total(answers: list[Any]) -> Any:
    """The sum of what answered; where nothing did, the first error."""
    told = [one for one in answers if isinstance(one, float)]
    return sum(told) if told else answers[0]


def _links_up(nvml: Any, handle: Any) -> Value:
    """Links that are active. A GPU without NVLink, or an index past its last link, has none there."""
    up = 0
    for link in range(LINKS):
        try:
            up += int(nvml.nvmlDeviceGetNvLinkState(handle, link) == 1)
        except (nvml.NVMLError_NotSupported, nvml.NVMLError_InvalidArgument):
            break
    return float(up)


def _sram(nvml: Any, handle: Any) -> Value:
    status = nvml.c_nvmlEccSramErrorStatus_v1_t()
    nvml.nvmlDeviceGetSramEccErrorStatus(handle, ctypes.byref(status))
    return float(status.bThresholdExceeded)


def _retired(cause: int) -> Callable[[Any, Any], Value]:
    return lambda nvml, handle: float(len(nvml.nvmlDeviceGetRetiredPages_v2(handle, cause)))


def _reasons(nvml: Any, handle: Any) -> Value:
    """The bit mask of why the clocks are held; older drivers know it by its older name."""
    try:
        return float(nvml.nvmlDeviceGetCurrentClocksEventReasons(handle))
    except nvml.NVMLError_FunctionNotFound:
        return float(nvml.nvmlDeviceGetCurrentClocksThrottleReasons(handle))


def _fabric(nvml: Any, handle: Any) -> Sequence[Any]:
    """State of the registration with the NVLink fabric, and the fabric's health by its own summary (struct v3)."""
    info = nvml.c_nvmlGpuFabricInfo_v3_t()
    nvml.nvmlDeviceGetGpuFabricInfoV(handle, ctypes.byref(info))
    if info.state == 0:
        return [nvml.NVMLError(nvml.NVML_ERROR_NOT_SUPPORTED)] * 2
    state = FABRIC.get(info.state, f"state {info.state}")
    state = state if not info.status else f"{state}, status {info.status}"
    untold = nvml.NVMLError(nvml.NVML_ERROR_NOT_SUPPORTED)
    return [state, SUMMARY.get(info.healthSummary, untold)]


def _fan(nvml: Any, handle: Any) -> Value:
    fans = nvml.nvmlDeviceGetNumFans(handle)
    if not fans:
        raise nvml.NVMLError(nvml.NVML_ERROR_NOT_SUPPORTED)
    return float(max(nvml.nvmlDeviceGetFanSpeed_v2(handle, fan) for fan in range(fans)))


def _ecc(nvml: Any, handle: Any) -> Sequence[Any]:
    now, pending = nvml.nvmlDeviceGetEccMode(handle)
    return [float(now == 1 == pending)]


def _mig(nvml: Any, handle: Any) -> Value:
    now, pending = nvml.nvmlDeviceGetMigMode(handle)
    return "on" if now else "off" if not pending else "off, on after a reset"


def _inforom(nvml: Any, handle: Any) -> Value:
    try:
        nvml.nvmlDeviceValidateInforom(handle)
    except nvml.NVMLError_CorruptedInforom as error:
        return f"corrupt: {error}"
    return "valid"


def _recovery(nvml: Any, handle: Any) -> Value:
    code = int(_field(nvml, nvml.nvmlDeviceGetFieldValues(handle, [nvml.NVML_FI_DEV_GET_GPU_RECOVERY_ACTION]), 0))
    return RECOVERY[code] if code < len(RECOVERY) else f"action {code}"


def processes(nvml: Any, handle: Any) -> Value:
    """The process ids that compute on the GPU, in words: "12 345"; "none"."""
    found = sorted(one.pid for one in nvml.nvmlDeviceGetComputeRunningProcesses(handle))
    return " ".join(map(str, found)) or "none"


# Temperatures in C, powers in W, memory in GiB, the rest counts; 1 is yes.
HEALTH: dict[str, Callable[[Any, Any], Value]] = {
    "ecc_corrected": _number("nvmlDeviceGetTotalEccErrors", 0, 0),
    "ecc_uncorrected": _number("nvmlDeviceGetTotalEccErrors", 1, 0),
    "ecc_corrected_total": _number("nvmlDeviceGetTotalEccErrors", 0, 1),
    "ecc_uncorrected_total": _number("nvmlDeviceGetTotalEccErrors", 1, 1),
    "sram_exceeded": _sram,
    "retired_single": _retired(0),
    "retired_double": _retired(1),
    "retire_pending": _number("nvmlDeviceGetRetiredPagesPendingStatus"),
    "pcie_gen": _number("nvmlDeviceGetCurrPcieLinkGeneration"),
    "pcie_width": _number("nvmlDeviceGetCurrPcieLinkWidth"),
    "pcie_gen_max": _number("nvmlDeviceGetMaxPcieLinkGeneration"),
    "pcie_width_max": _number("nvmlDeviceGetMaxPcieLinkWidth"),
    "nvlink_links": _links_up,
    "reasons": _reasons,
    "power_default": _number("nvmlDeviceGetPowerManagementDefaultLimit", scale=MILLI),
    "power_min": lambda nvml, handle: nvml.nvmlDeviceGetPowerManagementLimitConstraints(handle)[0] * MILLI,
    "power_max": lambda nvml, handle: nvml.nvmlDeviceGetPowerManagementLimitConstraints(handle)[1] * MILLI,
    "shutdown_at": _number("nvmlDeviceGetTemperatureThreshold", 0),
    "slowdown_at": _number("nvmlDeviceGetTemperatureThreshold", 1),
    "memory_max_at": _number("nvmlDeviceGetTemperatureThreshold", 2),
    "gpu_max_at": _number("nvmlDeviceGetTemperatureThreshold", 3),
    "margin": _number("nvmlDeviceGetMarginTemperature"),
    "fan": _fan,
    "persistence": _number("nvmlDeviceGetPersistenceMode"),
    "memory_total": lambda nvml, handle: nvml.nvmlDeviceGetMemoryInfo(handle).total / GIB,
    "memory_used": lambda nvml, handle: nvml.nvmlDeviceGetMemoryInfo(handle).used / GIB,
    "mig": _mig,
    "vgpu": lambda nvml, handle: VIRTUAL.get(nvml.nvmlDeviceGetVirtualizationMode(handle), "unknown: a new mode"),
    "inforom": lambda nvml, handle: clean(nvml.nvmlDeviceGetInforomImageVersion(handle)),
    "inforom_state": _inforom,
    "recovery": _recovery,
    "processes": processes,
}
SHEETS: dict[str, Sheet] = {
    "counters": (tuple(FIELDS), _counters),
    "links": (("link_errors", "link_crc"), _link_errors),
    "remapped": (
        ("remapped_corrected", "remapped_uncorrected", "remap_pending", "remap_failure"),
        lambda nvml, handle: [float(one) for one in nvml.nvmlDeviceGetRemappedRows(handle)],
    ),
    "fabric": (("fabric", "fabric_health"), _fabric),
    "ecc": (("ecc_enabled",), _ecc),
}
