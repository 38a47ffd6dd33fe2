"""The lab's own SSH: a key pair, host keys made beforehand, known_hosts; strict checking always, no user's files."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from .command import run

CONNECT_TIMEOUT = 5


def new_key(path: Path, comment: str) -> Path:
    """Make a key pair at `path` and `path`.pub."""
    run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", comment, "-f", str(path))
    return path


@dataclass(slots=True)
class Ssh:
    """The client's side: its key, whom it knows, and the options that every connection of the lab is made with."""

    folder: Path
    known: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        new_key(self.key, "gpuburn-lab")
        self.known_hosts.touch()
        self.masters.mkdir()

    @property
    def key(self) -> Path:
        return self.folder / "id"

    @property
    def public_key(self) -> str:
        return self.key.with_suffix(".pub").read_text()

    @property
    def known_hosts(self) -> Path:
        return self.folder / "known_hosts"

    @property
    def masters(self) -> Path:
        """Where ansible keeps its connection sharing sockets: in a folder of this lab, since addresses come again."""
        return self.folder / "cp"

    @property
    def options(self) -> list[str]:
        return [
            "-o", f"UserKnownHostsFile={self.known_hosts}", "-o", "GlobalKnownHostsFile=/dev/null",
            "-o", "StrictHostKeyChecking=yes", "-o", f"ConnectTimeout={CONNECT_TIMEOUT}",
        ]  # fmt: skip

    def know(self, address: str, public_key: str) -> None:
        kind, blob = public_key.split()[:2]
        self.known[address] = f"{address} {kind} {blob}\n"
        self.known_hosts.write_text("".join(self.known.values()))

    def command(self, user: str, address: str) -> list[str]:
        """The client's command line up to what is to be run there; no file of the user's own is read."""
        alone = ["-F", "none", "-n", "-o", "BatchMode=yes", "-o", "IdentitiesOnly=yes", "-o", "LogLevel=ERROR"]
        return ["ssh", *alone, "-i", str(self.key), *self.options, f"{user}@{address}"]

    def inventory_variables(self, user: str) -> Mapping[str, object]:
        """What ansible needs to reach the hosts as an ordinary user; becoming root is the playbook's own affair."""
        return {
            "ansible_user": user,
            "ansible_ssh_private_key_file": str(self.key),
            "ansible_ssh_common_args": " ".join(["-F none -o IdentitiesOnly=yes", *self.options]),
            "ansible_control_path_dir": str(self.masters),
            "ansible_python_interpreter": "/usr/bin/python3",
        }


def end_masters(folder: Path) -> None:
    """Ask the connection masters that ansible left in the background to end; a dead one's socket is passed over."""
    for socket in folder.glob("*"):
        try:
            run("ssh", "-F", "none", "-O", "exit", "-o", f"ControlPath={socket}", "lab", check=False, timeout=10)
        except subprocess.TimeoutExpired:  # a master that no longer answers ends by itself with its connection
            continue
