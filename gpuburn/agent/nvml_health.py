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
LINKS, USUAL = 36, 18  # of a GPU at most, up to NVLink 6 (NVML_NVLINK_MAX_LINKS), and up to NVLink 5
LINK_COUNT = 91  # NVML_FI_DEV_NVLINK_LINK_COUNT
NVLINK_4, NVLINK_5 = 6, 7  # as nvmlDeviceGetNvLinkVersion counts
# Recovered or repeated transfers, and checksum errors: fields by link of NVLink 4 (161 replay, 162 recovery, 163 CRC)
# and 5 (213 and 214 link recoveries that succeeded and failed, 219 effective errors), counters of older ones.
BY_VERSION: dict[int, tuple[tuple[int, ...], tuple[int, ...]]] = {
    NVLINK_4: ((161, 162), (163,)), NVLINK_5: ((213, 214), (219,))
}  # fmt: skip
LEGACY = ((0, 1), (2,))  # NVML_NVLINK_ERROR_DL_REPLAY, _RECOVERY; _CRC_FLIT
TYPES = ("dVal", "uiVal", "ulVal", "ullVal", "sllVal", "siVal", "usVal")  # of a field, by its valueType
_plain = ctypes.Structure.__getattribute__
FABRIC = {1: "not started", 2: "in progress", 3: "completed"}
SUMMARY = {1: "healthy", 2: "unhealthy", 3: "limited capacity"}
VIRTUAL = {0: "off", 1: "off", 2: "on: a vGPU inside a guest", 3: "on: host of vGPUs", 4: "on: host of vSGAs"}
# Faults in the mask of struct v2, which has no summary: two bits each, 1 where it is so (nvml.h,
# NVML_GPU_FABRIC_HEALTH_MASK_SHIFT_DEGRADED_BW, _ROUTE_UNHEALTHY); four bits of the configuration, above 1 where wrong.
MASK = {"degraded bandwidth": 0, "unhealthy route": 4}
CONFIGURATION = 8
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
    """A number, or the error in its place. Read past the binding, which looks at each name to decode its text."""
    if code := _plain(one, "nvmlReturn"):
        return nvml.NVMLError(code)
    return float(getattr(_plain(one, "value"), TYPES[_plain(one, "valueType")]))


def _counters(nvml: Any, handle: Any) -> Sequence[Any]:
    values = nvml.nvmlDeviceGetFieldValues(handle, [field for field, _ in FIELDS.values()])
    found = [_answer(nvml, one) for one in values]
    return [one * scale if isinstance(one, float) else one for one, (_, scale) in zip(found, FIELDS.values())]


def _links(nvml: Any, handle: Any) -> int:
    """How many links the GPU has; where it does not say, the most: one that it lacks answers with an error."""
    try:
        return _count(_answer(nvml, nvml.nvmlDeviceGetFieldValues(handle, [LINK_COUNT])[0]))
    except nvml.NVMLError:
        return LINKS


def _count(answer: Any) -> int:
    return min(int(answer), LINKS) if isinstance(answer, float) and answer else LINKS


def _link_errors(nvml: Any, handle: Any) -> Sequence[Any]:
    """Transfers repeated or recovered, and checksum errors, over all links; by the way of this NVLink's version. Each
    with how many counters it is the sum of.

    This is asked every second: how many links there are in one call with the usual ones, those above in a second.
    """
    version = nvml.nvmlDeviceGetNvLinkVersion(handle, 0)
    if version < NVLINK_4:
        return [one for kinds in LEGACY for one in _total(nvml, _old(nvml, handle, kinds))]
    wanted = BY_VERSION[min(version, NVLINK_5)]
    fields = [field for one in wanted for field in one]
    asked: list[Any] = [LINK_COUNT, *((field, link) for link in range(USUAL) for field in fields)]
    count, *answers = [_answer(nvml, one) for one in nvml.nvmlDeviceGetFieldValues(handle, asked)]
    if more := [(field, link) for link in range(USUAL, _count(count)) for field in fields]:
        answers += [_answer(nvml, one) for one in nvml.nvmlDeviceGetFieldValues(handle, more)]
    groups = [[one for at, one in enumerate(answers) if fields[at % len(fields)] in group] for group in wanted]
    return [one for group in groups for one in _total(nvml, group)]


def _old(nvml: Any, handle: Any, kinds: Iterable[int]) -> list[Any]:
    found: list[Any] = []
    for kind in kinds:
        for link in range(USUAL):
            try:
                found.append(float(nvml.nvmlDeviceGetNvLinkErrorCounter(handle, link, kind)))
            except nvml.NVMLError as error:
                found.append(error)
    return found


def _total(nvml: Any, answers: list[Any]) -> list[Any]:
    """The sum of what answered, and how many did; the first error where nothing did, or where one failed to answer.

    An index past the board's last link is not supported, or no argument: that is no failure.
    """
    told = [one for one in answers if isinstance(one, float)]
    none = (nvml.NVMLError_NotSupported, nvml.NVMLError_InvalidArgument)
    failed = next((one for one in answers if not isinstance(one, (float, *none))), None)
    if failed or not told:
        return [failed or answers[0]] * 2
    return [sum(told), float(len(told))]


def _links_up(nvml: Any, handle: Any) -> Value:
    """Links that are active. A GPU without NVLink, or an index past its last link, has none there."""
    up = 0
    for link in range(_links(nvml, handle)):
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
    """State of the registration with the NVLink fabric, and the fabric's health by its own summary (struct v3).

    An older driver knows struct v2 alone: it tells of faults, and of health nothing.
    """
    info = nvml.c_nvmlGpuFabricInfo_v3_t()
    try:
        nvml.nvmlDeviceGetGpuFabricInfoV(handle, ctypes.byref(info))
    except nvml.NVMLError_ArgumentVersionMismatch:
        info = nvml.c_nvmlGpuFabricInfo_v2_t()
        nvml.nvmlDeviceGetGpuFabricInfoV(handle, ctypes.byref(info))
    untold = nvml.NVMLError(nvml.NVML_ERROR_NOT_SUPPORTED)
    if info.state == 0:
        return [untold] * 2
    state = FABRIC.get(info.state, f"state {info.state}")
    state = state if not info.status else f"{state}, status {info.status}"
    health = SUMMARY.get(info.healthSummary) if hasattr(info, "healthSummary") else _faults(info.healthMask)
    return [state, health or untold]


def _faults(mask: int) -> str:
    """In words; "" where the mask tells of none."""
    found = [name for name, shift in MASK.items() if mask >> shift & 3 == 1]
    wrong = mask >> CONFIGURATION & 15
    found += [f"incorrect configuration {wrong}"] if wrong > 1 else []
    return f"unhealthy: {', '.join(found)}" if found else ""


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


def graphics(nvml: Any, handle: Any) -> Value:
    """The same of those that draw on it; a board or a mode without graphics has none."""
    try:
        found = sorted(one.pid for one in nvml.nvmlDeviceGetGraphicsRunningProcesses(handle))
    except (nvml.NVMLError_NotSupported, nvml.NVMLError_FunctionNotFound):
        return "none"
    return " ".join(map(str, found)) or "none"


# Temperatures in C, powers in W, memory in GiB, the rest counts; 1 is yes.
HEALTH: dict[str, Callable[[Any, Any], Value]] = {
    "power_now": lambda nvml, handle: (
        _field(nvml, nvml.nvmlDeviceGetFieldValues(handle, [nvml.NVML_FI_DEV_POWER_INSTANT]), 0) * MILLI
    ),
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
    "part": lambda nvml, handle: clean(nvml.nvmlDeviceGetBoardPartNumber(handle)),
    "inforom": lambda nvml, handle: clean(nvml.nvmlDeviceGetInforomImageVersion(handle)),
    "inforom_state": _inforom,
    "recovery": _recovery,
    "processes": processes,
    "graphics": graphics,
}
SHEETS: dict[str, Sheet] = {
    "counters": (tuple(FIELDS), _counters),
    "links": (("link_errors", "link_errors_of", "link_crc", "link_crc_of"), _link_errors),
    "remapped": (
        ("remapped_corrected", "remapped_uncorrected", "remap_pending", "remap_failure"),
        lambda nvml, handle: [float(one) for one in nvml.nvmlDeviceGetRemappedRows(handle)],
    ),
    "fabric": (("fabric", "fabric_health"), _fabric),
    "ecc": (("ecc_enabled",), _ecc),
}
