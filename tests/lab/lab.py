"""One lab run: a bridge, keys and hosts over cached trees. It ends with nothing left on this machine but the cache."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

import yaml

from . import cgroup, identity, packages, tree
from .host import Host, Slot
from .identity import Identity
from .mounts import mount_overlay, require_overlay, unmount_below
from .network import Bridge
from .packages import Unavailable
from .process import Process
from .ssh import Ssh, new_key
from .state import State, claim, clear, clear_stale
from .store import Store, discard

CACHE = Path("/var/cache/gpuburn-lab")
NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")


@dataclass(frozen=True, slots=True)
class Layer:
    """What one preparation changed on a host, read-only from now on; `below` are the layers it was made upon."""

    digest: str
    folder: Path
    below: tuple[Layer, ...] = ()

    @property
    def chain(self) -> tuple[Layer, ...]:
        return (*self.below, self)


class Lab:
    """`with Lab() as lab:`, or the fixture. Raises Unavailable where the machine cannot run it."""

    def __init__(self, cache: Path = CACHE) -> None:
        self.cache = cache
        self._stack = ExitStack()
        self._count = 0
        self.hosts: dict[str, Host] = {}

    def __enter__(self) -> Lab:
        packages.ensure_installed()
        runs = self.cache / "runs"
        store = Store(self.cache)
        runs.mkdir(exist_ok=True)
        clear_stale(runs)
        with ExitStack() as stack:  # what was begun is cleared away if the rest of it fails
            stack.callback(store.close)
            self._store, self._base = store, tree.take(store)
            self._begin(runs, stack)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._stack.close()

    def _begin(self, runs: Path, stack: ExitStack) -> None:
        """Claim a free number and make the run's folder, cgroups, bridge and keys, each recorded before it exists."""
        own = cgroup.own()
        for number in [1 + (os.getpid() + step) % 254 for step in range(254)]:
            self._bridge, self.folder = Bridge(number), runs / str(number)
            if self.folder.exists() or not self._bridge.is_free or not (lock := claim(runs, number)):
                continue
            stack.enter_context(lock)
            self.folder.mkdir()
            self._state = State(self.folder, self._bridge.name, [path / self._bridge.name for path in own])
            stack.callback(clear, self.folder, self._state)
            stack.callback(self._stop)
            break
        else:
            raise Unavailable("no number from 1 to 254 has its bridge name and its 10.77.N.0/24 free on this machine")
        require_overlay(self.folder)
        cgroup.create(self._bridge.name)
        self._bridge.up()
        (self.folder / "ssh").mkdir()
        self._ssh = Ssh(self.folder / "ssh")

    def _stop(self) -> None:
        """Stop every restart loop first, or it would start again what is being cleared away."""
        for host in self.hosts.values():
            host.returns = False
        self._cut(*self.hosts.values())

    def host(self, name: str, layers: Sequence[Layer] = (), options: Sequence[str] = ()) -> Host:
        """A new host, off; its layers lie over the common tree in this order, each on those it was made on."""
        if not NAME.fullmatch(name):
            raise ValueError(f"a host's name is letters, digits and hyphens, and {name!r} is not")
        if name in self.hosts:
            raise ValueError(f"this lab has a host {name} already")
        index, self._count = self._count, self._count + 1
        machine = f"lab{self._bridge.number}-{index}"
        cgroups = tuple(path / machine for path in self._state.cgroups)
        slot = Slot(machine, self.folder / machine, cgroups, self._bridge.name)
        key = new_key(self._ssh.folder / machine, name)
        who = Identity(name, self._bridge.address(index), key, self._ssh.public_key)
        self._make(slot, layers)
        who.write(slot.folder / "merged")
        self._ssh.know(who.address, key.with_suffix(".pub").read_text())
        self.hosts[name] = Host(who, slot, self._ssh, options, self._started)
        return self.hosts[name]

    def _make(self, slot: Slot, layers: Sequence[Layer]) -> None:
        folders = [slot.folder / part for part in ("upper", "work", "merged")]
        for folder in folders:
            folder.mkdir(parents=True)
        folders[0].chmod(0o755)  # it becomes the host's / and must be open to the host's ordinary users
        chain = dict.fromkeys(layer for top in layers for layer in top.chain)
        mount_overlay([self._base, *(layer.folder for layer in chain)], *folders)

    def _started(self, host: Host, supervisor: Process) -> None:
        self._state.started(host.slot.machine, supervisor)

    def boot(self, *hosts: Host) -> None:
        """Boot hosts beside each other."""
        for host in hosts:
            host.start()
        for host in hosts:
            host.wait()

    def remove(self, *hosts: Host) -> None:
        """Take hosts away before the lab ends: they give their memory and disk back, and their names."""
        self._cut(*hosts)
        for host in hosts:
            unmount_below(host.slot.folder)
            discard(host.slot.folder)
            for path in host.slot.cgroups:
                cgroup.remove(path)
            self.hosts.pop(host.name, None)

    def _cut(self, *hosts: Host) -> None:
        with ThreadPoolExecutor() as pool:  # the kernel takes a second to put a container away: let them overlap
            list(pool.map(Host.power_loss, hosts))

    def layer(self, key: str, prepare: Callable[[Host], None], layers: Sequence[Layer] = ()) -> Layer:
        """What `prepare` does to a host booted over `layers`, done once and kept under `key`.

        The key is the caller's hash of all that `prepare` depends on. Nothing of the host's identity stays in it.
        """
        below = tuple(dict.fromkeys(layer for top in layers for layer in top.chain))
        parts = [tree.digest(), *(layer.digest for layer in below), key]
        digest = hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]
        folder = self._store.take("layer", digest, lambda path: self._prepare(path, digest, prepare, below))
        return Layer(digest, folder, below)

    def _prepare(self, folder: Path, digest: str, prepare: Callable[[Host], None], below: tuple[Layer, ...]) -> None:
        host = self.host(f"prepare-{digest}", below)
        try:
            host.boot()
            prepare(host)
            host.shutdown()  # in order, so that everything is on the disk and services have put themselves away
            unmount_below(host.slot.folder)
            identity.scrub(host.upper)
            host.upper.rename(folder)
        finally:
            self.remove(host)

    def inventory(
        self,
        hosts: Sequence[Host],
        hostvars: Mapping[str, Mapping[str, Any]] | None = None,
        groupvars: Mapping[str, Any] | None = None,
        group: str = "new_racks",
    ) -> Path:
        """An inventory file of these hosts as one group; the connection is the group's: localhost inherits `all`."""
        own = dict(hostvars or {})
        entries = {host.name: {"ansible_host": host.address, **own.pop(host.name, {})} for host in hosts}
        if own:
            raise ValueError(f"variables for {sorted(own)}, which are not among the hosts {sorted(entries)}")
        variables = {**self._ssh.inventory_variables(tree.USER), **(groupvars or {})}
        text = yaml.safe_dump({group: {"hosts": entries, "vars": variables}}, sort_keys=False, width=1000)
        path = self.folder / f"inventory-{len(list(self.folder.glob('inventory-*.yml')))}.yml"
        path.write_text(text)
        return path
