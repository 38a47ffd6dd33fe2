"""Every ordered pair of devices: random words from one to the other, compared on arrival; and a small message."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from gpuburn.measurement import Fact, Metric, Observed, Point, Reading, Work
from gpuburn.plan import pair
from gpuburn.probe import Taken, probe

if TYPE_CHECKING:
    import torch

    from gpuburn.agent.device import Device

AT = {"mib": "sizes_mib"}
BLOCKS = 3  # timed blocks of each pair and size: the median of three
TRIPS = 20  # of the small message in a block


@probe(
    scope="ranks",
    bandwidth=Metric("GB/s", doc="from the first device to the second, over the receiver's time", per="pair", at=AT,
                     better="higher", unless="path"),
    asymmetry=Metric("1", "last", "how far the slower direction is behind the faster, of the best blocks, as a share",
                     per="pair", at=AT, unless="path"),
    latency=Metric("ms", doc="half of a round trip of 8 bytes", per="pair", better="lower"),
    wrong=Metric("count", "sum", "64-bit words that arrived with other bits than were sent", per="pair", at=AT),
    direct=Metric("count", "last", "1 where the second device may access the first's memory directly, by CUDA's word",
                  per="pair", kinds=("hardware",)),
    path=Observed("how the words go from one to the other, or 'none: ' and why there is no direct way", per="pair"),
    work=("iterations", "bytes"),
    smoke={"sizes_mib": [1], "rounds": 1},
    least_devices=2,
)  # fmt: skip
def pairs(device: Device, sizes_mib: list[int] = [512], rounds: int = 16) -> Iterator[Taken]:  # noqa: B006
    """Each ordered pair in turn, alone: the others wait. rounds: messages of a timed block.

    The words come from a seed that both ends know, so the receiver makes them anew and compares every one. It runs on
    ranks and not as one process with all devices, because that is how training talks: send and receive of the
    collectives library between two processes, and the same on a CPU. Where CUDA says that one device cannot access the
    other's memory the words go through the host: they are compared, and their speed is not demanded.

    Exercises: NVLink, NVSwitch or PCIe peer traffic of each pair in both directions, the order of devices.
    Does not exercise: pairs at the same time, copy engines between devices, the fabric between hosts.
    """
    import torch.distributed as dist

    peers: list[Peer] = [Peer("", 0)] * dist.get_world_size()
    dist.all_gather_object(peers, Peer(device.name, device.place))
    found: dict[tuple[int, int, int], float] = {}
    for source in range(len(peers)):
        for target in range(len(peers)):
            if source != target:
                lane = Lane(device, peers, source, target, dist.get_rank())
                yield from lane.taken(sizes_mib, rounds, found)
    yield from symmetry(peers, found)


@dataclass(frozen=True)
class Peer:
    """A rank's device: its name, and its number among those that CUDA shows."""

    name: str
    place: int


@dataclass(frozen=True)
class Lane:
    """One ordered pair as one rank sees it: it sends, receives, or waits."""

    device: Device
    peers: list[Peer]
    source: int
    target: int
    rank: int

    @property
    def subject(self) -> str:
        return pair(self.peers[self.source].name, self.peers[self.target].name)

    def taken(self, sizes_mib: list[int], rounds: int, found: dict[tuple[int, int, int], float]) -> Iterator[Taken]:
        import torch.distributed as dist

        dist.barrier()
        if self.rank not in (self.source, self.target):
            return
        direct = self.device.reaches(self.peers[self.source].place) if self.rank == self.target else None
        if self.rank == self.target:
            yield from self.told(direct)
        for mib in sizes_mib:
            for one in self.sweep(mib, rounds):
                if isinstance(one, Reading) and one.metric == "bandwidth":
                    if direct is False:
                        continue
                    key = (self.source, self.target, mib)
                    found[key] = max(found.get(key, 0.0), one.value)
                yield one
        yield from self.latency()

    def told(self, direct: bool | None) -> Iterator[Taken]:
        """What CUDA says of the way; on a CPU there is no device to ask."""
        if direct is None:
            yield Fact("path", "between processes of the host", subject=self.subject)
            return
        yield Reading("direct", float(direct), subject=self.subject)
        why = "none: CUDA says that the one device cannot access the other's memory"
        yield Fact("path", "direct" if direct else why, subject=self.subject)

    def sweep(self, mib: int, rounds: int) -> Iterator[Taken]:
        """Blocks of one size. The receiver tells what arrived, and how fast; both that they worked."""
        import torch

        words = mib * 2**20 // 8
        sent = self.words(words)
        into = torch.zeros_like(sent)
        self.message(sent, into)  # warms up: the first one sets the way up
        for _ in range(BLOCKS):
            into.zero_()
            elapsed = self.device.timed(partial(self.message, sent, into), rounds)
            yield Work(iterations=rounds, bytes=rounds * sent.nbytes)
            if self.rank == self.target:
                point = Point.of(mib=mib)
                yield Reading("bandwidth", rounds * sent.nbytes / elapsed / 1e9, point, self.subject)
                yield Reading("wrong", float(torch.count_nonzero(into != sent).item()), point, self.subject)

    def words(self, count: int) -> torch.Tensor:
        """The random words of this pair: both ends make the same."""
        import torch

        seed = (self.device.seed * 1009 + self.source) * 1009 + self.target
        generator = torch.Generator(self.device.torch).manual_seed(seed)
        return torch.randint(-(2**63), 2**63 - 1, (count,), generator=generator, device=self.device.torch)

    def message(self, sent: torch.Tensor, into: torch.Tensor) -> None:
        """One message from the source to the target."""
        transfer(self.rank == self.source, sent if self.rank == self.source else into, self.other)

    @property
    def other(self) -> int:
        return self.target if self.rank == self.source else self.source

    def latency(self) -> Iterator[Taken]:
        """There and back, again and again; the receiver of the pair tells it."""
        import torch

        word = torch.zeros(1, dtype=torch.int64, device=self.device.torch)

        def trip() -> None:
            transfer(self.rank == self.source, word, self.other)
            transfer(self.rank == self.target, word, self.other)

        self.device.timed(trip, TRIPS)
        for _ in range(BLOCKS):
            elapsed = self.device.timed(trip, TRIPS)
            if self.rank == self.target:
                yield Reading("latency", elapsed / TRIPS / 2 * 1e3, subject=self.subject)


def transfer(send: bool, tensor: torch.Tensor, other: int) -> None:
    """Send or receive, over the group's own connections; on a GPU it is queued, and later work waits for it."""
    import torch.distributed as dist

    work = dist.isend if send else dist.irecv
    for request in dist.batch_isend_irecv([dist.P2POp(work, tensor, other)]):
        request.wait()


def symmetry(peers: list[Peer], mine: dict[tuple[int, int, int], float]) -> Iterator[Reading]:
    """Of what this rank received, how it compares with the opposite direction, which the other rank has seen."""
    import torch.distributed as dist

    everyone: list[dict[tuple[int, int, int], float]] = [{}] * len(peers)
    dist.all_gather_object(everyone, mine)
    whole = {key: value for one in everyone for key, value in one.items()}
    for (source, target, mib), value in mine.items():
        opposite = whole.get((target, source, mib))
        if opposite is not None:
            subject = pair(peers[source].name, peers[target].name)
            yield Reading("asymmetry", abs(value - opposite) / max(value, opposite), Point.of(mib=mib), subject)
