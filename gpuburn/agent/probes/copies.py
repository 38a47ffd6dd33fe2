"""Copies between host and device: each direction, both together; one device after the other, and all at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from gpuburn.measurement import Fact, Metric, Observed, Point, Reading, Work
from gpuburn.probe import Taken, probe
from gpuburn.strict import known

if TYPE_CHECKING:
    import torch

    from gpuburn.agent.device import Device

WAYS = ["alone", "together"]
AT = {"mib": "sizes_mib", "way": "ways"}
PATIENCE = 20.0  # seconds beyond the copies that a device may take over its turn


@probe(
    scope="device",
    h2d=Metric("GB/s", doc="host to device, from page-locked memory", at=AT, better="higher"),
    d2h=Metric("GB/s", doc="device to host, into page-locked memory", at=AT, better="higher"),
    both=Metric("GB/s", doc="both directions at the same time: the sum of their bytes", at=AT, better="higher"),
    wrong=Metric("count", "sum", doc="64-bit words that arrived with other bits than were sent", at=AT),
    node=Observed("the memory node whose CPUs the copying process was bound to, or why it was not"),
    work=("iterations", "bytes"),
    smoke={"sizes_mib": [1], "ways": WAYS, "seconds": 0.0},
)
def copies(
    device: Device,
    sizes_mib: list[int] = [512],  # noqa: B006
    ways: list[str] = WAYS,
    seconds: float = 3.0,
) -> Iterator[Taken]:
    """Random words from host to device and back, by the copy engines, while the other devices wait or copy too.

    alone: the devices take turns, as published numbers are measured. together: all begin at one time, as training
    does; devices behind one uplink then share it. seconds: of each direction at each size and way.
    The process is bound to the CPUs of the device's memory node before it allocates anything.

    Exercises: the PCIe link, copy engines, host memory, root ports and switches that devices share.
    Does not exercise: copies between devices, pageable memory, kernels that read host memory.
    """
    from gpuburn.agent import numa
    from gpuburn.agent.turns import Turns

    for way in ways:
        known(way, WAYS, "ways")
    yield Fact("node", numa.bind(device.pci))
    turns = Turns(device.folder, device.rank, device.world, PATIENCE + 10 * seconds)
    for mib in sizes_mib:
        route = Route.of(device, mib * 2**20 // 8)
        for way in ways:
            point, name = Point.of(mib=mib, way=way), f"{mib}.{way}"
            if way == "alone":
                turns.wait(name)
                yield from route.taken(point, seconds)
                turns.done(name)
            else:
                turns.meet(name)
                yield from route.taken(point, seconds)


@dataclass
class Route:
    """Page-locked words of the host (what is sent, what comes back) and two places for them on the device."""

    device: Device
    sent: torch.Tensor
    back: torch.Tensor
    there: torch.Tensor
    other: torch.Tensor

    @classmethod
    def of(cls, device: Device, words: int) -> Route:
        """Every device sends words of its own, so that one device's are not taken for another's."""
        import torch

        generator = torch.Generator().manual_seed(device.seed * 1_000_003 + device.rank)
        sent = device.pinned(words)
        torch.randint(-(2**63), 2**63 - 1, (words,), generator=generator, out=sent)
        there, other = (torch.zeros(words, dtype=torch.int64, device=device.torch) for _ in range(2))
        return cls(device, sent, device.pinned(words).zero_(), there, other)

    def taken(self, point: Point, seconds: float) -> Iterator[Taken]:
        up, over = (partial(place.copy_, self.sent, True) for place in (self.there, self.other))  # True: not waited for
        down = partial(self.back.copy_, self.there, True)
        for name, work, times, into in (
            ("h2d", up, 1, self.there),
            ("d2h", down, 1, self.back),
            ("both", partial(self.device.together, over, down), 2, self.other),
        ):
            yield from self.blocks(name, work, times * self.sent.nbytes, into, point, seconds)

    def blocks(
        self, name: str, work: Callable[[], object], size: int, into: torch.Tensor, point: Point, seconds: float
    ) -> Iterator[Taken]:
        """Blocks of copies of size bytes; what each overwrites is cleared before, and what arrived is compared after.

        Of d2h and both the device holds what h2d brought, which has been compared.
        """
        rounds = self.device.calibrate(work, seconds=min(1.0, seconds)) if seconds else 1
        for _ in self.device.until(seconds):
            into.zero_()
            self.back.zero_()
            elapsed = self.device.timed(work, rounds)
            yield Reading(name, rounds * size / elapsed / 1e9, point)
            yield Reading("wrong", float(self.wrong(name)), point)
            yield Work(iterations=rounds, bytes=rounds * size)

    def wrong(self, name: str) -> int:
        """How many words did not arrive: at the host, and on the device by a copy back."""
        found = 0
        if name != "h2d":
            found += self.differing()
        if name != "d2h":
            self.back.copy_(self.there if name == "h2d" else self.other)
            found += self.differing()
        return found

    def differing(self) -> int:
        import torch

        self.device.synchronize()
        return int(torch.count_nonzero(self.back != self.sent).item())
