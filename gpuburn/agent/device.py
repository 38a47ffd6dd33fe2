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

    name: as planned. uuid: the GPU's by CUDA, "" of a CPU. pci: its address as CUDA says it, "" of a CPU.
    torch: where tensors go. place: its number among the GPUs that CUDA shows, the same to all ranks; the rank of a CPU.
    collectives: the torch.distributed backend. memory: total bytes.
    rank, world: this process among those of the step. folder: scratch that is removed after the step.
    seed: shared by all devices and hosts, so that their bits can be compared.
    """

    name: str
    uuid: str
    pci: str
    place: int
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
    def pinned(self, words: int) -> Any: ...
    def together(self, *works: Callable[[], object]) -> None: ...
    def reaches(self, place: int) -> bool | None: ...
    def neighbour(self, place: int) -> Any: ...
    def arithmetic(self, tf32: bool) -> None: ...


class Missing(RuntimeError):
    """A planned device is not there. Never replaced by another one."""


class _Timed:
    """What both kinds of device do alike."""

    uuid = ""
    pci = ""

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
        self.place = rank
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

    def pinned(self, words: int) -> torch.Tensor:
        """64-bit words of the host: a CPU's copies need no more."""
        import torch

        return torch.empty(words, dtype=torch.int64)

    def together(self, *works: Callable[[], object]) -> None:
        """One after the other: a rehearsal's process has one thread."""
        for work in works:
            work()

    def reaches(self, place: int) -> bool | None:
        """None: no device, and no way of its own to another."""
        return None

    def neighbour(self, place: int) -> torch.device | None:
        """None: a CPU has no copy engine to another process's memory."""
        return None

    def arithmetic(self, tf32: bool) -> None:
        """A CPU computes FP32 in FP32."""
        import torch

        if tf32:
            raise Missing(f"{self.name}: a CPU has no TF32")
        torch.set_float32_matmul_precision("highest")


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
        self.place, self.pci = index, _address(properties)
        self._sides: list[Any] = []
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

    def pinned(self, words: int) -> torch.Tensor:
        """64-bit words of the host that stay where they are, so that the device copies by itself; near the caller."""
        import torch

        return torch.empty(words, dtype=torch.int64, pin_memory=True)

    def together(self, *works: Callable[[], object]) -> None:
        """Queue works side by side, each on a stream of its own; what is queued next waits for them all."""
        import torch

        self._sides += [torch.cuda.Stream(self.torch) for _ in works[len(self._sides) :]]  # type: ignore[no-untyped-call]
        here = torch.cuda.current_stream(self.torch)
        for work, side in zip(works, self._sides):
            side.wait_stream(here)
            with torch.cuda.stream(side):
                work()
        for side in self._sides[: len(works)]:
            here.wait_stream(side)

    def reaches(self, place: int) -> bool | None:
        """Whether this GPU may access the memory of another one directly, by CUDA's word."""
        import torch

        return bool(torch.cuda.can_device_access_peer(self.torch, place))

    def neighbour(self, place: int) -> torch.device | None:
        """Another GPU, which this process drives as well."""
        import torch

        return torch.device("cuda", place)

    def arithmetic(self, tf32: bool) -> None:
        """From now on in this process: whether FP32 products may run as TF32; sums of 16-bit ones stay FP32 throughout,
        so that a product has one value, however the library splits it."""
        import torch

        torch.backends.cuda.matmul.allow_tf32 = tf32
        torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction = False
        torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction = False


def _address(properties: Any) -> str:
    """As the kernel writes it in /sys/bus/pci/devices."""
    return f"{properties.pci_domain_id:04x}:{properties.pci_bus_id:02x}:{properties.pci_device_id:02x}.0"


def _event() -> Any:
    import torch

    return torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]


def _cuda_index(planned: plan.Device) -> int:
    import torch

    if not torch.cuda.is_available():
        raise Missing(f"{planned.name} is planned on CUDA, and torch {torch.__version__} finds no CUDA device")
    found: list[Any] = [torch.cuda.get_device_properties(index) for index in range(torch.cuda.device_count())]
    for index, one in enumerate(found):
        if planned.uuid and f"GPU-{one.uuid}" == planned.uuid:
            return index
        if not planned.uuid and planned.pci and planned.pci.lower().endswith(_address(one)):
            return index
    raise Missing(f"{planned.name} ({planned.uuid or planned.pci or 'no address'}) is not among {len(found)} devices")


def make(planned: plan.Device, rank: int, world: int, folder: Path, seed: int) -> Device:
    """The device that the plan names; CUDA planned and missing is an error, never a CPU."""
    if planned.kind == "cuda":
        return Cuda(planned, rank, world, folder, seed)
    return Cpu(planned, rank, world, folder, seed)
