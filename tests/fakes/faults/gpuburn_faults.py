"""Faults that tests put into a worker's Python before it runs a probe; nothing of this is in the product.

On this machine through sitecustomize.py and GPUBURN_FAULTS, on a lab host through a .pth file in the agent's venv.
A fault is written probe:fault or probe:fault:device.
"""

from __future__ import annotations

import ctypes
import dataclasses
import errno
import functools
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

Run = Callable[..., Iterator[Any]]


def crash(run: Run, device: Any, **params: Any) -> Iterator[Any]:
    """Raise after the first thing was yielded."""
    yield next(run(device, **params))
    raise RuntimeError("injected crash")


def segfault(run: Run, device: Any, **params: Any) -> Iterator[Any]:
    yield next(run(device, **params))
    ctypes.string_at(0)


def killed(run: Run, device: Any, **params: Any) -> Iterator[Any]:
    """End as the kernel ends who takes too much memory."""
    yield next(run(device, **params))
    os.kill(os.getpid(), signal.SIGKILL)


def full(run: Run, device: Any, **params: Any) -> Iterator[Any]:
    """Meet a full disk."""
    yield next(run(device, **params))
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(device.folder / "data"))


def gone(run: Run, device: Any, **params: Any) -> Iterator[Any]:
    """Be told by CUDA, in the middle of the work, that there is no such device."""
    from gpuburn.agent.device import Missing

    yield next(run(device, **params))
    raise Missing(f"{device.name} (0000:3b:00.0) is not among 2 devices")


def hang(run: Run, device: Any, **params: Any) -> Iterator[Any]:
    yield next(run(device, **params))
    time.sleep(3600)


def stubborn(run: Run, device: Any, **params: Any) -> Iterator[Any]:
    """Hang, and take no notice of SIGTERM."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    yield from hang(run, device, **params)


def orphan(run: Run, device: Any, **params: Any) -> Iterator[Any]:
    """Leave a child in a session of its own that outlives the probe, then hang."""
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(3600)"], start_new_session=True)
    (device.folder.parent / "orphan").write_text(str(child.pid))
    yield from hang(run, device, **params)


def daemon(run: Run, device: Any, **params: Any) -> Iterator[Any]:
    """End well, and leave a process that no longer descends from us."""
    yield from run(device, **params)
    child = "import os, sys, time\nif os.fork(): os._exit(0)\nopen(sys.argv[1], 'w').write(str(os.getpid()))\n"
    place = str(device.folder.parent / "daemon")
    subprocess.run([sys.executable, "-c", f"{child}time.sleep(3600)", place], start_new_session=True, check=True)
    while not (os.path.exists(place) and os.path.getsize(place)):
        time.sleep(0.01)


def silent(run: Run, device: Any, **params: Any) -> Iterator[Any]:
    """End well without having done anything."""
    yield from ()


def stranger(run: Run, device: Any, **params: Any) -> Iterator[Any]:
    """Speak about a device that the plan does not have."""
    for taken in run(device, **params):
        yield dataclasses.replace(taken, subject="gpu99")


def garbage(run: Run, device: Any, **params: Any) -> Iterator[Any]:
    """Write something that is no evidence into one's own file."""
    yield from run(device, **params)
    path = device.folder.parent / f"readings.{device.name}.jsonl"
    with path.open("ab") as file:
        file.write(b'{"reading": {"metric": "late", "value": NaN}}\n')


def flip(run: Run, device: Any, **params: Any) -> Iterator[Any]:
    """Flip one bit of one element in each later product of torch.matmul: the first, which all are held to, is right."""
    yield from _flipping(run, device, params, spared=1)


def consistently_wrong(run: Run, device: Any, **params: Any) -> Iterator[Any]:
    """Be wrong in the same way every time: only a comparison with the others can tell."""
    yield from _flipping(run, device, params, spared=0)


def _flipping(run: Run, device: Any, params: dict[str, Any], spared: int) -> Iterator[Any]:
    import torch

    matmul, calls = torch.matmul, [0]

    def flipped(*args: Any, **kwargs: Any) -> Any:
        product = matmul(*args, **kwargs)
        calls[0] += 1
        if calls[0] > spared:
            product.view(torch.int32).flatten()[7] ^= 1
        return product

    torch.matmul = flipped
    try:
        yield from run(device, **params)
    finally:
        torch.matmul = matmul


def whoami(run: Run, device: Any, **params: Any) -> Iterator[Any]:
    """Leave behind which user the probe ran as."""
    (device.folder.parent / "uid").write_text(str(os.getuid()))
    yield from run(device, **params)


def chatter(run: Run, device: Any, **params: Any) -> Iterator[Any]:
    """Print without end."""
    while True:
        print("x" * 2**20)
        yield from ()


def flood(run: Run, device: Any, **params: Any) -> Iterator[Any]:
    """Write evidence without end, every line of it well-formed."""
    yield from run(device, **params)
    line = b'{"reading":{"at":1.0,"failed":"","metric":"late","point":{},"subject":"host","value":1.0}}\n'
    with (device.folder.parent / f"readings.{device.name}.jsonl").open("ab", buffering=0) as file:
        while True:
            file.write(line * 10_000)


def odd_error(run: Run, device: Any, **params: Any) -> Iterator[Any]:
    """End well, and leave a failure that lacks its reason."""
    yield from run(device, **params)
    (device.folder.parent / f"error.{device.name}.json").write_text('{"at": 1.0}')


def strange_error(run: Run, device: Any, **params: Any) -> Iterator[Any]:
    """End well, and leave a failure of somebody who is not in the step."""
    yield from run(device, **params)
    (device.folder.parent / "error.99.json").write_text('{"at": 1.0, "why": "I am not here"}')


def litter(run: Run, device: Any, **params: Any) -> Iterator[Any]:
    """Leave a link, a pipe, a file of an odd name, and a link in the place of the scratch folder."""
    yield from run(device, **params)
    place = device.folder.parent
    (place / "odd name\n").write_text("x")
    (place / "link.jsonl").symlink_to("/etc/passwd")
    os.mkfifo(place / "pipe.jsonl")
    device.folder.rename(place / "moved")
    device.folder.symlink_to("/")


def impostor(run: Run, device: Any, **params: Any) -> Iterator[Any]:
    """Put a pipe in the place of the sampler's file, which would hold whoever opens it."""
    pipe, there = device.folder / "pipe", device.folder.parent / "telemetry.jsonl"
    os.mkfifo(pipe)
    while not there.exists() or not there.stat().st_size:  # until then the sampler would open the pipe in its place
        time.sleep(0.01)
    pipe.rename(there)
    yield from hang(run, device, **params)


FAULTS = {one.__name__: one for one in (
    crash, segfault, killed, full, gone, hang, stubborn, orphan, silent, stranger, garbage, flip, consistently_wrong,
    whoami, chatter, flood, odd_error, strange_error, litter, impostor, daemon,
)}  # fmt: skip


def mute() -> None:
    """Let the sampler hang in its third pass as in a driver that does not return, deaf to SIGTERM."""
    from gpuburn.agent import sensors

    honest, calls = sensors.host, [0]

    def host() -> Iterator[Any]:
        calls[0] += 1
        if calls[0] > 2:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            time.sleep(3600)
        return honest()

    sensors.host = host


SAMPLER = {"mute": mute}  # written telemetry:mute
INSTALLED: set[str] = set()


def install(spec: str) -> None:
    """Make gpuburn.probe.discover return faulty probes from now on. Once: a venv reads its .pth files twice."""
    if spec in INSTALLED:
        return
    INSTALLED.add(spec)
    import gpuburn.probe

    probes = [one for one in spec.split(",") if not one.startswith("telemetry:")]
    for one in set(spec.split(",")) - set(probes):
        SAMPLER[one.partition(":")[2]]()
    original, done = gpuburn.probe.discover, set()

    def discover() -> dict[str, Any]:
        found = original()
        for one in probes:
            name, fault, *device = one.split(":")
            if one not in done:
                done.add(one)
                found[name] = dataclasses.replace(found[name], run=_faulty(found[name].run, FAULTS[fault], device))
        return found

    gpuburn.probe.discover = discover


def _faulty(run: Run, fault: Callable[..., Iterator[Any]], only: list[str]) -> Run:
    @functools.wraps(run)
    def faulty(device: Any, **params: Any) -> Iterator[Any]:
        hit = not only or device.name in only
        return fault(run, device, **params) if hit else run(device, **params)

    return faulty


if os.environ.get("GPUBURN_FAULTS"):
    install(os.environ["GPUBURN_FAULTS"])
