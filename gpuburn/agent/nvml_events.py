"""What NVML tells of itself, beside what it is asked: Xids and double-bit errors, kept as events of the step.

Runs in the sampler's process and never waits. A driver, a function or a right that is not there is an event as well.
Calls (NVML API reference, Event Handling Methods): nvmlEventSetCreate, nvmlDeviceGetSupportedEventTypes,
nvmlDeviceRegisterEvents, nvmlEventSetWait_v2 with no patience, nvmlEventSetFree.
"""

from __future__ import annotations

import contextlib
import ctypes
import time
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType
from typing import Any

from gpuburn import evidence, plan, run_folder, strict
from gpuburn.agent import nvml, sensors
from gpuburn.agent.flood import EACH_XID, Flood
from gpuburn.agent.hardware import clean
from gpuburn.events import NVML_ABSENT, NVML_DBE, NVML_LOST, NVML_MORE, NVML_XID, Weight
from gpuburn.identity import Event

PER_PASS = 64  # events taken in one pass: a GPU in trouble must not hold the sampler
ASKED = ("uuid", "pci")
# Events of one step by weight; with those that say what is not listed below what is read of it (NVML_LISTED).
ALL: dict[Weight, int] = {"fail": 400, "incomplete": 400, "": 150}


class NvmlEvents:
    """Follows the events of the planned GPUs; each look appends what came to the step's file of evidence."""

    def __init__(self, folder: Path, planned: Iterable[plan.Device], library: nvml.Nvml) -> None:
        self._path = folder / evidence.NVML_EVENTS
        self._planned = [one for one in planned if one.gpu]
        self._library = library
        self._binding: ModuleType | None = None
        self._set: Any = None
        self._abouts: dict[int | None, str] = {}
        self._said: set[tuple[str, str, str]] = set()
        self._flood = Flood(NVML_MORE, NVML_LOST, EACH_XID, ALL)

    def __enter__(self) -> NvmlEvents:
        return self

    def __exit__(self, *failed: object) -> None:
        self.close()

    def look(self) -> None:
        """Keep what happened since the last look. Where nothing can be followed yet, try again, and say why once."""
        if self._planned and self._set is None:
            self._begin()
        for _ in range(PER_PASS if self._set is not None else 0):
            if not self._next():
                return

    def close(self) -> None:
        """Leave the library, if it was opened."""
        binding, self._binding = self._binding, None
        events, self._set = self._set, None
        if binding is None:
            return
        with contextlib.suppress(binding.NVMLError):  # a library that refuses to be left is left all the same
            if events is not None:
                binding.nvmlEventSetFree(events)
        with contextlib.suppress(binding.NVMLError):
            binding.nvmlShutdown()

    def _begin(self) -> None:
        seen = self._library.look(ASKED)
        if seen.absent:
            self._once(NVML_ABSENT, "host", f"NVML tells no events: {seen.absent}")
            return
        import pynvml

        try:
            pynvml.nvmlInit()  # counted: the other user's closing does not end this one
            self._binding = pynvml
            self._set = pynvml.nvmlEventSetCreate()
        except pynvml.NVMLError as error:
            self._once(NVML_ABSENT, "host", f"NVML tells no events: {clean(str(error))}")
            self.close()
            return
        for device in self._planned:
            gpu = next((one for one in seen.gpus if sensors.same(device, one)), None)
            about = str(gpu.values.get("pci", "")) if gpu else device.pci
            why = self._register(pynvml, gpu.index, about) if gpu else "NVML does not see it"
            if why:
                self._once(NVML_ABSENT, about or "host", f"NVML tells no events of {device.name}: {why}")

    def _register(self, pynvml: ModuleType, index: int, about: str) -> str:
        """Ask for the events of one GPU; "" or why it gives none."""
        try:
            handle = pynvml.nvmlDeviceGetHandleByIndex(index)
            wanted = pynvml.nvmlEventTypeXidCriticalError | pynvml.nvmlEventTypeDoubleBitEccError
            given = wanted & pynvml.nvmlDeviceGetSupportedEventTypes(handle)
            if not given & pynvml.nvmlEventTypeXidCriticalError:
                return "it supports no event of an Xid"
            pynvml.nvmlDeviceRegisterEvents(handle, given, self._set)
        except pynvml.NVMLError as error:
            return clean(str(error))
        self._abouts[_pointer(handle)] = about
        return ""

    def _next(self) -> bool:
        """Take one event that waits; whether there may be more."""
        pynvml = self._binding
        assert pynvml is not None
        try:
            data = pynvml.nvmlEventSetWait_v2(self._set, 0)
        except pynvml.NVMLError as error:
            if getattr(error, "value", None) != pynvml.NVML_ERROR_TIMEOUT:
                self._once(NVML_LOST, "host", f"NVML stopped telling events: {clean(str(error))}")
            return False
        about = self._abouts.get(_pointer(data.device), "host")
        if data.eventType & pynvml.nvmlEventTypeXidCriticalError:
            self._keep(NVML_XID, about, f"Xid {data.eventData}, told by NVML")
        elif data.eventType & pynvml.nvmlEventTypeDoubleBitEccError:
            self._keep(NVML_DBE, about, "an uncorrected memory error (double bit), told by NVML")
        return True

    def _once(self, code: str, about: str, text: str) -> None:
        if (code, about, text) not in self._said:
            self._said.add((code, about, text))
            self._keep(code, about, text)

    def _keep(self, code: str, about: str, text: str) -> None:
        for one in self._flood.heard(Event(code, time.time(), about, text[: run_folder.NVML_TEXT])):
            with self._path.open("ab") as file:
                file.write(strict.line(one))


def _pointer(handle: Any) -> int | None:
    return ctypes.cast(handle, ctypes.c_void_p).value
