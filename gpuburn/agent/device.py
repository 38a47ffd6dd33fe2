"""The only file that knows cpu from cuda. A probe sees a Device (or the Host) and nothing else of the hardware."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from gpuburn import plan

if TYPE_CHECKING:
    import torch


class Device(Protocol):
    """One device and this process's place among its peers.

    name: as planned. uuid: the GPU's by CUDA, "" of a CPU. torch: where tensors go.
    collectives: the torch.distributed backend. memory: total bytes.
    rank, world: this process among those of the step. folder: scratch that is removed after the step.
    seed: shared by all devices and hosts, so that their bits can be compared.
    """

    name: str
    uuid: str
    torch: torch.device
    collectives: str
    memory: int
    rank: int
    world: int
    folder: Path
    seed: int

    def synchronize(self) -> None: ...
    def timed(self, work: Callable[[], object], rounds: int = 1) -> float: ...
    def until(self, seconds: float) -> Iterator[int]: ...
    def calibrate(self, work: Callable[[], object], seconds: float) -> int: ...
    def versions(self) -> dict[str, str]: ...
    def free(self) -> int: ...
    def metered(self) -> AbstractContextManager[Callable[[], int]]: ...


class Missing(RuntimeError):
    """A planned device is not there. Never replaced by another one."""


class _Timed:
    """What both kinds of device do alike."""

    uuid = ""

    def __init__(self, planned: plan.Device, rank: int, world: int, folder: Path, seed: int) -> None:
        self.name, self.rank, self.world, self.folder, self.seed = planned.name, rank, world, folder, seed

    def timed(self, work: Callable[[], object], rounds: int = 1) -> float:
        raise Missing(f"{self.name}: no clock")

    def until(self, seconds: float) -> Iterator[int]:
        """Count rounds until the time is up; always at least one."""
        end = time.monotonic() + seconds
        count = 0
        while count == 0 or time.monotonic() < end:
            yield count
            count += 1

    def calibrate(self, work: Callable[[], object], seconds: float) -> int:
        """How many rounds of work fill the given time. Warms up first."""
        self.timed(work, 2)
        return max(1, round(seconds / max(self.timed(work), 1e-9)))


class Cpu(_Timed):
    """One process of a rehearsal. memory: its share of the host's."""

    collectives = "gloo"

    def __init__(self, planned: plan.Device, rank: int, world: int, folder: Path, seed: int) -> None:
        import torch

        super().__init__(planned, rank, world, folder, seed)
        self.torch = torch.device("cpu")
        self.memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // max(world, 1)

    def synchronize(self) -> None:
        """Nothing is queued on a CPU."""

    def timed(self, work: Callable[[], object], rounds: int = 1) -> float:
        """Seconds that the rounds took."""
        start = time.perf_counter()
        for _ in range(rounds):
            work()
        return time.perf_counter() - start

    def versions(self) -> dict[str, str]:
        import torch

        return {"torch": torch.__version__, "device": "cpu"}

    def free(self) -> int:
        """Bytes that could be taken now: this process's share of what the host has available."""
        lines = dict(line.split(":", 1) for line in Path("/proc/meminfo").read_text().splitlines())
        return int(lines["MemAvailable"].split()[0]) * 1024 // max(self.world, 1)

    @contextmanager
    def metered(self) -> Iterator[Callable[[], int]]:
        """Count tensors while entered; the function tells the most bytes that existed at once. Slows each operator."""
        from gpuburn.agent.inference.accounting import Account

        with Account() as account:
            yield lambda: account.peak


class Cuda(_Timed):
    """One GPU, found by its PCI address or UUID, never by its index alone."""

    collectives = "nccl"

    def __init__(self, planned: plan.Device, rank: int, world: int, folder: Path, seed: int) -> None:
        import torch

        super().__init__(planned, rank, world, folder, seed)
        index = _cuda_index(planned)
        torch.cuda.set_device(index)
        self.torch = torch.device("cuda", index)
        properties: Any = torch.cuda.get_device_properties(index)
        self.memory = int(properties.total_memory)
        told = getattr(properties, "uuid", None)  # torch has it from 2.5 on
        self.uuid = f"GPU-{told}" if told else ""
        self._start, self._stop = (_event() for _ in range(2))

    def synchronize(self) -> None:
        import torch

        torch.cuda.synchronize(self.torch)

    def timed(self, work: Callable[[], object], rounds: int = 1) -> float:
        """Seconds that the device took for the rounds, by its own events."""
        self._start.record()
        for _ in range(rounds):
            work()
        self._stop.record()
        self._stop.synchronize()
        return float(self._start.elapsed_time(self._stop)) / 1e3

    def versions(self) -> dict[str, str]:
        import torch

        properties: Any = torch.cuda.get_device_properties(self.torch)
        return {
            "torch": torch.__version__,
            "cuda": str(torch.version.cuda),
            "device": properties.name,
            "uuid": self.uuid,
        }

    def free(self) -> int:
        """Bytes that could be taken now, by the driver's count."""
        import torch

        return int(torch.cuda.mem_get_info(self.torch)[0])

    @contextmanager
    def metered(self) -> Iterator[Callable[[], int]]:
        """The function tells the most bytes that tensors took at once since entering, by torch's allocator."""
        import torch

        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats(self.torch)
        before = torch.cuda.memory_allocated(self.torch)
        yield lambda: int(torch.cuda.max_memory_allocated(self.torch)) - before


def _event() -> Any:
    import torch

    return torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]


def _cuda_index(planned: plan.Device) -> int:
    import torch

    if not torch.cuda.is_available():
        raise Missing(f"{planned.name} is planned on CUDA, and torch {torch.__version__} finds no CUDA device")
    found: list[Any] = [torch.cuda.get_device_properties(index) for index in range(torch.cuda.device_count())]
    for index, one in enumerate(found):
        address = f"{one.pci_domain_id:04x}:{one.pci_bus_id:02x}:{one.pci_device_id:02x}.0"
        if planned.uuid and f"GPU-{one.uuid}" == planned.uuid:
            return index
        if not planned.uuid and planned.pci and planned.pci.lower().endswith(address):
            return index
    raise Missing(f"{planned.name} ({planned.uuid or planned.pci or 'no address'}) is not among {len(found)} devices")


def make(planned: plan.Device, rank: int, world: int, folder: Path, seed: int) -> Device:
    """The device that the plan names; CUDA planned and missing is an error, never a CPU."""
    if planned.kind == "cuda":
        return Cuda(planned, rank, world, folder, seed)
    return Cpu(planned, rank, world, folder, seed)
