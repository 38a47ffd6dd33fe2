"""One host of the lab: power, cable, console, files and a shell on it. What it is made of, the lab decides."""

from __future__ import annotations

import shlex
import signal
import socket
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from . import network
from .command import run
from .identity import Identity
from .paths import inside
from .power import Power, nspawn
from .process import Process
from .ssh import Ssh
from .tree import USER
from .waiting import until

BOOT_TIMEOUT = 90  # a bound for a machine busy with other things; a quiet one takes a second


@dataclass(frozen=True, slots=True)
class Slot:
    """The place in the lab that a host occupies."""

    machine: str  # systemd-nspawn's name for it, unique on this machine and short: its link is called after it
    folder: Path
    cgroups: tuple[Path, ...]
    bridge: str


class Host:
    """A host as its operator has it: boot, lose power, pull the cable, log in."""

    def __init__(
        self, identity: Identity, slot: Slot, ssh: Ssh, options: Sequence[str], started: Callable[[Host, Process], None]
    ) -> None:
        self.name, self.address = identity.name, identity.address
        self.slot = slot
        self.root = slot.folder / "merged"  # its tree, without what it mounts itself while it runs
        self.upper = slot.folder / "upper"
        self.options = list(options)  # more arguments for systemd-nspawn
        self.returns = True  # False: a reboot asked for inside never comes back
        self._ssh, self._recorded, self._plugged = ssh, started, True
        self.power: Power | None = None

    def __repr__(self) -> str:
        return f"<Host {self.name} {self.address} {'running' if self.running else 'off'}>"

    # power

    @property
    def running(self) -> bool:
        """Whether it has power; during a reboot too."""
        return self.power is not None and self.power.is_alive()

    def start(self) -> None:
        """Switch it on and do not wait."""
        if self.running:
            raise RuntimeError(f"{self.name} is running already")
        for cgroup in self.slot.cgroups:
            cgroup.mkdir(exist_ok=True)
        command = nspawn(self.slot.machine, self.name, self.root, self.slot.bridge, self.options)
        self.power = Power(command, self.slot.cgroups, self.console, self._started, lambda: self.returns)
        self.power.start()

    def wait(self, timeout: float = BOOT_TIMEOUT) -> None:
        """Until its ordinary user can log in, which systemd allows only once the boot has got that far."""
        until(self._answers, lambda: f"{self.name} to answer ssh; its console:\n{self.console_tail()}", timeout, 0.05)

    def boot(self, timeout: float = BOOT_TIMEOUT) -> None:
        self.start()
        self.wait(timeout)

    power_on = boot

    def power_loss(self) -> None:
        """Everything in it ends at once and nothing is started again; what it wrote to its disk stays."""
        if self.power is not None:
            self.power.cut()

    def shutdown(self, timeout: float = 60) -> None:
        """An orderly power-off, as by the power button; without the network, so with a pulled cable too."""
        if not self.running or self.power is None or (init := self.power.init) is None:
            raise RuntimeError(f"{self.name} is not running")
        init.send(signal.SIGRTMIN + 4)  # systemd's own way to be told to power off
        until(lambda: not self.running, f"{self.name} to power off", timeout)

    def reboot(self, timeout: float = BOOT_TIMEOUT) -> None:
        """Ask it to reboot and wait until it is up with another boot id."""
        before = self.boot_id
        self.ssh("systemctl", "reboot", check=False)  # the connection may break before the answer
        until(lambda: self._boot_id() not in (before, ""), f"{self.name} to come back from its reboot", timeout, 0.05)

    # cable

    def pull_cable(self) -> None:
        """No packet in or out, over reboots too, until it is plugged again."""
        self._set_cable(False)

    def plug_cable(self) -> None:
        self._set_cable(True)

    # inside

    def ssh(
        self, *argv: str, check: bool = True, timeout: float = 60, user: str = "root"
    ) -> subprocess.CompletedProcess[str]:
        """Run a program on the host with exactly these arguments; as root by default: this is the test's own hand."""
        return run(*self._ssh.command(user, self.address), shlex.join(argv), check=check, timeout=timeout)

    def write(self, path: str, text: str, mode: int = 0o644) -> None:
        """Put a file of root's onto the host, running or not."""
        file = self._at(path)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        file.chmod(mode)

    def read(self, path: str) -> str:
        return self._at(path).read_text()

    @property
    def boot_id(self) -> str:
        """The id of this boot: each boot has its own, as on metal."""
        return self.ssh("cat", "/proc/sys/kernel/random/boot_id").stdout.strip()

    @property
    def console(self) -> Path:
        return self.slot.folder / "console.log"

    def console_tail(self, lines: int = 15) -> str:
        text = self.console.read_text(errors="replace") if self.console.exists() else ""
        return "\n".join(text.splitlines()[-lines:])

    # its own affairs

    def _started(self, supervisor: Process) -> None:
        self._recorded(self, supervisor)
        if not self._plugged:  # each boot makes a new link, which comes up plugged
            network.cable(self.slot.machine, False)

    def _set_cable(self, plugged: bool) -> None:
        self._plugged = plugged
        if self.running:
            network.cable(self.slot.machine, plugged)

    def _answers(self) -> bool:
        if not self.running:
            raise RuntimeError(f"{self.name} went off while it was booting; its console:\n{self.console_tail()}")
        return self._port_open() and self.ssh("true", check=False, user=USER).returncode == 0

    def _port_open(self) -> bool:
        """A cheap look before the expensive one."""
        try:
            with socket.create_connection((self.address, 22), timeout=1):
                return True
        except OSError:
            return False

    def _boot_id(self) -> str:
        if not self._port_open():
            return ""
        return self.ssh("cat", "/proc/sys/kernel/random/boot_id", check=False, user=USER).stdout.strip()

    def _at(self, path: str) -> Path:
        """While it runs, through its init's own view, where /run and /dev/shm are; else on its disk."""
        init = self.power.init if self.running and self.power else None
        return inside(Path(f"/proc/{init.pid}/root") if init else self.root, path)
