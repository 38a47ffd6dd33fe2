"""What NVIDIA's management library tells of each GPU: every question asked by itself, every answer or its reason kept.

Reads only; changes nothing on a device. A library or a driver that is not there is a reason, not an error.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

from gpuburn.agent.look import clean
from gpuburn.agent.nvml_health import HEALTH, SHEETS, Value
from gpuburn.plausible import LANE

Question = Callable[[Any, Any], Value]
LANES = {1: 0.25, 2: 0.5, **LANE}  # GB/s of a PCIe lane, one way: 2.5 and 5 GT/s carry 8 bits in 10


@dataclass(frozen=True, slots=True)
class Gpu:
    """One GPU by NVML's index. values by name; missing says why a name is not among them."""

    index: int
    values: dict[str, Value] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Seen:
    """driver: its version, "" where absent. absent: why there is nothing to see; "" where NVML answered."""

    gpus: list[Gpu] = field(default_factory=list)
    driver: str = ""
    absent: str = ""


class Nvml:
    """The library, opened at the first look and kept open: opening it takes longer than all its answers."""

    def __init__(self) -> None:
        self._binding: ModuleType | None = None

    def __enter__(self) -> Nvml:
        return self

    def __exit__(self, *failed: object) -> None:
        self.close()

    def look(self, names: Iterable[str] = ()) -> Seen:
        """Ask for these values of every GPU (none named: who it is). After a failure the next look opens it anew."""
        try:
            import pynvml
        except ImportError as error:
            return Seen(absent=clean(f"no NVML binding: {error}"))
        asked = list(names or QUESTIONS)
        try:
            if self._binding is None:
                pynvml.nvmlInit()
                self._binding = pynvml
            driver, _ = _asked(pynvml, pynvml.nvmlSystemGetDriverVersion)
            gpus = [_gpu(pynvml, index, asked) for index in range(pynvml.nvmlDeviceGetCount())]
            return Seen(gpus, str(driver or ""))
        except pynvml.NVMLError as error:
            self.close()
            return Seen(absent=_why(error))

    def versions(self) -> tuple[str, str]:
        """Of NVML itself ("13.580.95.05") and of CUDA that the driver carries ("13.0"); "" for what is not told."""
        if self._binding is None:
            return "", ""
        library, _ = _asked(self._binding, self._binding.nvmlSystemGetNVMLVersion)
        cuda, _ = _asked(self._binding, self._binding.nvmlSystemGetCudaDriverVersion_v2)
        return clean(library or ""), f"{cuda // 1000}.{cuda % 1000 // 10}" if cuda else ""

    def close(self) -> None:
        """Leave the library, if it was opened; one that refuses to be left is left all the same."""
        binding, self._binding = self._binding, None
        if binding is not None:
            _asked(binding, binding.nvmlShutdown)


def look() -> Seen:
    """Ask NVML for everything once, and leave it closed."""
    with Nvml() as library:
        return library.look()


def _gpu(pynvml: ModuleType, index: int, asked: Iterable[str]) -> Gpu:
    handle, why = _asked(pynvml, pynvml.nvmlDeviceGetHandleByIndex, index)
    if handle is None:
        return Gpu(index, {}, {part: why for name in asked for part in parts(name)})
    gpu = Gpu(index)
    for name in asked:
        names, question = SHEETS.get(name) or ((name,), _alone(ASKABLE[name]))
        answers, why = _asked(pynvml, question, pynvml, handle)
        for part, value in zip(names, answers or [None] * len(names)):
            if isinstance(value, pynvml.NVMLError):
                gpu.missing[part] = _why(value)
            elif value is None or value == "":
                gpu.missing[part] = why or "empty"
            else:
                gpu.values[part] = value
    return gpu


def parts(name: str) -> tuple[str, ...]:
    """The names of the values that a question, or a sheet of several, gives."""
    return SHEETS[name][0] if name in SHEETS else (name,)


def _alone(question: Question) -> Callable[[Any, Any], list[Value]]:
    return lambda nvml, handle: [question(nvml, handle)]


def _asked(pynvml: ModuleType, question: Callable[..., Any], *arguments: Any) -> tuple[Any, str]:
    """The answer, or None and why: an old driver's library lacks functions, some boards do not support all."""
    try:
        return question(*arguments), ""
    except pynvml.NVMLError as error:
        return None, _why(error)
    except AttributeError as error:  # the binding is older than the question
        return None, clean(f"no NVML binding for it: {error}")


def _why(error: Exception) -> str:
    return clean(str(error))


def _address(pci: Any) -> str:
    """As the kernel writes it in /sys/bus/pci/devices; NVML's own text has a longer domain."""
    return f"{pci.domain:04x}:{pci.bus:02x}:{pci.device:02x}.0"


def _clock(nvml: Any, handle: Any) -> float:
    return float(nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_SM))


def _memory_peak(nvml: Any, handle: Any) -> float:
    """GB/s: two transfers a clock over the whole bus, as the NVIDIA samples' deviceQuery reckons it."""
    mhz = float(nvml.nvmlDeviceGetMaxClockInfo(handle, nvml.NVML_CLOCK_MEM))
    return 2 * mhz * 1e6 * float(nvml.nvmlDeviceGetMemoryBusWidth(handle)) / 8 / 1e9


def _pcie_peak(nvml: Any, handle: Any) -> Value:
    """GB/s one way, of the highest generation and width that GPU and slot can hold together."""
    lane = LANES.get(int(nvml.nvmlDeviceGetMaxPcieLinkGeneration(handle)))
    return "" if lane is None else lane * float(nvml.nvmlDeviceGetMaxPcieLinkWidth(handle))


def _temperature(nvml: Any, handle: Any) -> float:
    return float(nvml.nvmlDeviceGetTemperature(handle, nvml.NVML_TEMPERATURE_GPU))


# name: question. Text is cleaned; memory in GiB, temperature in C, powers in W, sm_clock in MHz, memory_peak in GB/s.
QUESTIONS: dict[str, Question] = {
    "uuid": lambda nvml, handle: clean(nvml.nvmlDeviceGetUUID(handle)),
    "serial": lambda nvml, handle: clean(nvml.nvmlDeviceGetSerial(handle)),
    "name": lambda nvml, handle: clean(nvml.nvmlDeviceGetName(handle)),
    "pci": lambda nvml, handle: _address(nvml.nvmlDeviceGetPciInfo(handle)),
    "pci_id": lambda nvml, handle: f"0x{nvml.nvmlDeviceGetPciInfo(handle).pciDeviceId:08x}",
    "vbios": lambda nvml, handle: clean(nvml.nvmlDeviceGetVbiosVersion(handle)),
    "memory": lambda nvml, handle: float(nvml.nvmlDeviceGetMemoryInfo(handle).total) / 2**30,
    "temperature": _temperature,
    "power": lambda nvml, handle: float(nvml.nvmlDeviceGetPowerUsage(handle)) / 1e3,
    "power_limit": lambda nvml, handle: float(nvml.nvmlDeviceGetEnforcedPowerLimit(handle)) / 1e3,
    "memory_peak": _memory_peak,
    "pcie_peak": _pcie_peak,
    "sm_clock": _clock,
}
ASKABLE: Mapping[str, Question] = ChainMap(QUESTIONS, HEALTH)
IDENTITY = ("uuid", "serial", "name", "pci", "vbios")
