"""Every ordered pair of devices: random words from one to the other, compared on arrival; alone, and all at once."""

from __future__ import annotations

import statistics
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
MOST = 16  # messages in a block of all at once or by copy engine: where words go through the host they take long
PATIENCE = 300.0  # seconds that one device's copies from all others may take
Found = dict[tuple[int, int, int], float]  # (source, target, MiB): GB/s of the best block


@probe(
    scope="ranks",
    bandwidth=Metric("GB/s", doc="from the first device to the second, over the receiver's time", per="pair", at=AT,
                     better="higher", unless="path"),
    asymmetry=Metric("1", "last", "how far the slower direction is behind the faster, of the best blocks, as a share",
                     per="pair", at=AT, unless="path"),
    behind=Metric("1", "last", "how far it is behind the median of all pairs, of the best blocks; below 0: ahead",
                  per="pair", at=AT, unless="path"),
    latency=Metric("ms", doc="half of a round trip of 8 bytes", per="pair", better="lower"),
    together=Metric("GB/s", doc="the same while every device sends to one and receives from one", per="pair", at=AT,
                    better="higher", unless="path"),
    kept=Metric("1", "last", "share of its bandwidth alone that it has while all send and receive, of the best blocks",
                per="pair", at=AT, unless="path"),
    together_wrong=Metric("count", "sum", "64-bit words that arrived wrong while all sent and received", per="pair",
                          at=AT),
    engine=Metric("GB/s", doc="by copy engine, from one process that drives both devices", per="pair", at=AT,
                  kinds=("hardware",), better="higher", unless="path"),
    engine_wrong=Metric("count", "sum", "64-bit words that a copy engine brought wrong", per="pair", at=AT,
                        kinds=("hardware",)),
    wrong=Metric("count", "sum", "64-bit words that arrived with other bits than were sent", per="pair", at=AT),
    direct=Metric("count", "last", "1 where the second device may access the first's memory directly, by CUDA's word",
                  per="pair", kinds=("hardware",)),
    path=Observed("how the words go from one to the other, or 'none: ' and why there is no direct way", per="pair"),
    work=("iterations", "bytes"),
    smoke={"sizes_mib": [1], "rounds": 1},
    least_devices=2,
)  # fmt: skip
def pairs(device: Device, sizes_mib: list[int] = [512], rounds: int = 16) -> Iterator[Taken]:  # noqa: B006
    """Each ordered pair in turn, alone; then all at once; then by copy engine. rounds: messages of a timed block.

    The words come from a seed that both ends know, so the receiver makes them anew and compares every one. It runs on
    ranks and not as one process with all devices, because that is how training talks: send and receive of the
    collectives library between two processes, and the same on a CPU. All at once: each device sends to the one so many
    places on, at every distance, so that each ordered pair has its turn in a ring over all devices; a ring is as fast
    as its slowest pair. By copy engine: the receiver's process copies, where it can drive both devices. Where CUDA says
    that one device cannot access the other's memory the words go through the host: they are compared, and their speed
    is not demanded.

    Exercises: NVLink, NVSwitch or PCIe peer traffic of each pair in both directions, the order of devices; switches
    under the traffic of all devices; copy engines between devices.
    Does not exercise: the fabric between hosts, several messages from one device at the same time.
    """
    import torch.distributed as dist

    peers: list[Peer] = [Peer("", 0)] * dist.get_world_size()
    dist.all_gather_object(peers, Peer(device.name, device.place))
    lanes = Lanes(device, peers, dist.get_rank())
    found: Found = {}
    for source in range(len(peers)):
        for target in range(len(peers)):
            if source != target:
                yield from lanes.lane(source, target).taken(sizes_mib, rounds, found)
    yield from compared(peers, found)
    yield from lanes.together(sizes_mib, min(rounds, MOST), found)
    yield from lanes.engines(sizes_mib, min(rounds, MOST))


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

    def taken(self, sizes_mib: list[int], rounds: int, found: Found) -> Iterator[Taken]:
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
        sent = self.words(words, self.device.torch)
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

    def words(self, count: int, where: torch.device) -> torch.Tensor:
        """The random words of this pair, made on that device: both ends make the same."""
        import torch

        seed = (self.device.seed * 1009 + self.source) * 1009 + self.target
        generator = torch.Generator(where).manual_seed(seed)
        return torch.randint(-(2**63), 2**63 - 1, (count,), generator=generator, device=where)

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


@dataclass(frozen=True)
class Lanes:
    """All ordered pairs as one rank sees them, and what this rank receives while others are at work too."""

    device: Device
    peers: list[Peer]
    rank: int

    def lane(self, source: int, target: int) -> Lane:
        return Lane(self.device, self.peers, source, target, self.rank)

    def together(self, sizes_mib: list[int], rounds: int, alone: Found) -> Iterator[Taken]:
        """Every device sends to the one `distance` places on, and receives from the one as many places back."""
        world = len(self.peers)
        for distance in range(1, world):
            to, origin = (self.rank + distance) % world, (self.rank - distance) % world
            for mib in sizes_mib:
                yield from self.ring(self.lane(self.rank, to), self.lane(origin, self.rank), mib, rounds, alone)

    def ring(self, out: Lane, back: Lane, mib: int, rounds: int, alone: Found) -> Iterator[Taken]:
        """Blocks of one size over one ring, and how the best of them compares with the same pair alone."""
        import torch
        import torch.distributed as dist

        count, point = mib * 2**20 // 8, Point.of(mib=mib)
        given, due = (lane.words(count, self.device.torch) for lane in (out, back))
        into, speeds = torch.zeros_like(due), list[float]()
        work = partial(swap, given, out.target, into, back.source)
        work()  # warms up
        for _ in range(BLOCKS):
            into.zero_()
            dist.barrier()
            speeds.append(rounds * due.nbytes / self.device.timed(work, rounds) / 1e9)
            yield Work(iterations=rounds, bytes=rounds * due.nbytes)
            yield Reading("together_wrong", float(torch.count_nonzero(into != due).item()), point, back.subject)
        best = alone.get((back.source, back.target, mib))
        if best is not None:  # else there is no direct way, and no speed is demanded of it
            yield from (Reading("together", speed, point, back.subject) for speed in speeds)
            yield Reading("kept", max(speeds) / best, point, back.subject)

    def engines(self, sizes_mib: list[int], rounds: int) -> Iterator[Taken]:
        """From every other device into this one, one receiver after the other; they wait without touching a device."""
        from gpuburn.agent.turns import Turns

        turns = Turns(self.device.folder, self.rank, len(self.peers), PATIENCE)
        turns.wait("engines")
        for source, peer in enumerate(self.peers):
            there = self.device.neighbour(peer.place)
            if there is not None and source != self.rank:
                for mib in sizes_mib:
                    yield from self.engine(self.lane(source, self.rank), there, mib, rounds)
        turns.done("engines")

    def engine(self, lane: Lane, there: torch.device, mib: int, rounds: int) -> Iterator[Taken]:
        """Blocks of copies of one size. Each end makes the words for itself."""
        import torch

        count, point = mib * 2**20 // 8, Point.of(mib=mib)
        given, due = lane.words(count, there), lane.words(count, self.device.torch)
        into = torch.zeros_like(due)
        copy(into, given)  # warms up
        for _ in range(BLOCKS):
            into.zero_()
            elapsed = self.device.timed(partial(copy, into, given), rounds)
            yield Work(iterations=rounds, bytes=rounds * due.nbytes)
            yield Reading("engine_wrong", float(torch.count_nonzero(into != due).item()), point, lane.subject)
            if self.device.reaches(self.peers[lane.source].place) is not False:
                yield Reading("engine", rounds * due.nbytes / elapsed / 1e9, point, lane.subject)


def copy(into: torch.Tensor, given: torch.Tensor) -> None:
    """Queue a copy between two devices; later work on the receiving one waits for it."""
    into.copy_(given, non_blocking=True)


def swap(given: torch.Tensor, to: int, into: torch.Tensor, origin: int) -> None:
    """Send and receive at one time; on a GPU both are queued, and later work waits for them."""
    import torch.distributed as dist

    sides = [dist.P2POp(dist.isend, given, to), dist.P2POp(dist.irecv, into, origin)]
    for request in dist.batch_isend_irecv(sides):
        request.wait()


def transfer(send: bool, tensor: torch.Tensor, other: int) -> None:
    """Send or receive, over the group's own connections; on a GPU it is queued, and later work waits for it."""
    import torch.distributed as dist

    work = dist.isend if send else dist.irecv
    for request in dist.batch_isend_irecv([dist.P2POp(work, tensor, other)]):
        request.wait()


def compared(peers: list[Peer], mine: Found) -> Iterator[Reading]:
    """How what this rank received compares with the opposite direction and with all pairs, as others saw them."""
    import torch.distributed as dist

    everyone: list[Found] = [{}] * len(peers)
    dist.all_gather_object(everyone, mine)
    whole = {key: value for one in everyone for key, value in one.items()}
    for (source, target, mib), value in mine.items():
        subject, point = pair(peers[source].name, peers[target].name), Point.of(mib=mib)
        middle = statistics.median(other for (_, _, size), other in whole.items() if size == mib)
        yield Reading("behind", 1 - value / middle, point, subject)
        opposite = whole.get((target, source, mib))
        if opposite is not None:
            yield Reading("asymmetry", abs(value - opposite) / max(value, opposite), point, subject)
