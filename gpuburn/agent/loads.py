"""Loads of the host beside a device's work: processors, memory, a disk, the network stack. Each checks what it did."""

from __future__ import annotations

import contextlib
import os
import random
import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from gpuburn.agent.page_cache import evict

BLOCK = 2**22  # bytes that a disk or a socket is given at a time
WAIT = 10.0  # seconds that a socket of this process may keep the other one waiting


@dataclass
class Tally:
    """What a load has done: units, seconds it has been at it, and results that were not what they had to be."""

    done: float = 0.0
    seconds: float = 0.0
    wrong: int = 0

    @property
    def rate(self) -> float:
        """Units per second; 0 of a load that never came to its first."""
        return self.done / self.seconds if self.seconds else 0.0


Load = Callable[[threading.Event, Tally], None]


@dataclass
class Beside:
    """Loads that run in threads while the block lasts. Their work releases the interpreter: operators and system calls.

    Each comes to a first result, however short the block. An error of a load is raised at the end of the block: what
    was not loaded must not look as if it had been.
    """

    loads: dict[str, Load]
    tallies: dict[str, Tally] = field(default_factory=dict)

    @contextlib.contextmanager
    def running(self) -> Iterator[dict[str, Tally]]:
        stop = threading.Event()
        self.tallies.update({name: Tally() for name in self.loads})
        with ThreadPoolExecutor(len(self.loads)) as pool:
            futures: list[Future[None]] = [
                pool.submit(_timed, load, stop, self.tallies[name]) for name, load in self.loads.items()
            ]
            try:
                yield self.tallies
            finally:
                stop.set()
            for one in futures:
                one.result()


def _timed(load: Load, stop: threading.Event, tally: Tally) -> None:
    began = time.monotonic()
    try:
        load(stop, tally)
    finally:
        tally.seconds = time.monotonic() - began


def processors(threads: int, seed: int, size: int = 512) -> Load:
    """FP32 products on so many threads, each with the same bits; done: operations."""

    def run(stop: threading.Event, tally: Tally) -> None:
        import torch

        torch.set_num_threads(threads)  # of this thread: OpenMP keeps the number per thread that begins work
        draw = torch.Generator().manual_seed(seed)
        a, b = (torch.randn(threads * size, size, generator=draw), torch.randn(size, size, generator=draw))
        first, out = torch.matmul(a, b), torch.empty(threads * size, size)
        while not (tally.done and stop.is_set()):
            torch.matmul(a, b, out=out)
            tally.wrong += int(not torch.equal(out, first))
            tally.done += 2 * a.numel() * size

    return run


def memory(mib: int) -> Load:
    """Triad over three arrays of the host, of integers that are exact; done: bytes read and written."""

    def run(stop: threading.Event, tally: Tally) -> None:
        import torch

        torch.set_num_threads(1)
        b = (torch.arange(mib * 2**18, dtype=torch.int32) % 1021).float()
        c, a = b.flip(0), torch.empty_like(b)
        wanted = b + 3 * c
        while not (tally.done and stop.is_set()):
            torch.add(b, c, alpha=3, out=a)
            tally.wrong += int(not torch.equal(a, wanted))
            tally.done += 5 * a.nbytes  # the triad's three, and two of the comparison

    return run


def disk(path: Path, mib: int, seed: int) -> Load:
    """A file written once with fsync, then read from storage again and again: reading wears nothing; done: bytes."""

    def run(stop: threading.Event, tally: Tally) -> None:
        blocks = [random.Random(seed + number).randbytes(BLOCK) for number in range(2)]
        count, buffer = max(2, mib * 2**20 // BLOCK), bytearray(BLOCK)
        own = path.open("xb", buffering=0)  # a file that is there already is somebody else's, and an error
        try:
            with own as file:
                for number in range(count):
                    tally.done += file.write(blocks[number % 2])
                os.fsync(file.fileno())
            passes = 0
            while not (passes and stop.is_set()):
                evict(path)
                passes += 1
                with path.open("rb", buffering=0) as file:
                    for number in range(count):
                        tally.done += file.readinto(buffer) or 0
                        tally.wrong += buffer != blocks[number % 2]
        finally:
            path.unlink(missing_ok=True)

    return run


def network(seed: int) -> Load:
    """A stream between two sockets of this process over TCP on 127.0.0.1; done: bytes that arrived."""

    def run(stop: threading.Event, tally: Tally) -> None:
        block = random.Random(seed).randbytes(BLOCK)
        with socket.create_server(("127.0.0.1", 0)) as server, ThreadPoolExecutor(1) as pool:
            server.settimeout(WAIT)
            sending = pool.submit(_sent, server.getsockname(), block, stop)
            with server.accept()[0] as incoming:
                incoming.settimeout(WAIT)
                _received(incoming, block, tally)
            sending.result()

    return run


def _sent(address: tuple[str, int], block: bytes, stop: threading.Event) -> None:
    with socket.create_connection(address, timeout=WAIT) as outgoing:
        outgoing.sendall(block)
        while not stop.is_set():
            outgoing.sendall(block)


def _received(incoming: socket.socket, block: bytes, tally: Tally) -> None:
    """Read whole blocks until the sender has gone."""
    buffer, place = bytearray(len(block)), 0
    while size := incoming.recv_into(memoryview(buffer)[place:]):
        tally.done += size
        place += size
        if place == len(block):
            tally.wrong += buffer != block
            place = 0
