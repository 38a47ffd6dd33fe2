"""What makes a tree one particular host: name, ids, keys, address; written into each host, scrubbed from layers."""

from __future__ import annotations

import os
import shutil
import uuid
from dataclasses import dataclass
from pathlib import Path

from .tree import UID, USER

HOST_KEY = "etc/ssh/ssh_host_ed25519_key"
NETWORK = "etc/systemd/network/10-lab.network"
SCRUBBED = (
    "etc/hostname", "etc/hosts", "etc/machine-id", "var/lib/dbus/machine-id", "etc/ssh/ssh_host_*", NETWORK,
    "root/.ssh", f"home/{USER}/.ssh", "root/.bash_history", f"home/{USER}/.bash_history", "var/log/journal/*",
    "var/lib/systemd/random-seed", "tmp/*", "tmp/.[!.]*", "var/tmp/*", "run/*",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Identity:
    name: str
    address: str
    host_key: Path  # the private key's file on this machine; its .pub lies beside it
    authorized: str  # the public key that may log in

    def write(self, root: Path) -> None:
        """Make the tree at `root` this host."""
        key = self.host_key
        _put(root / "etc/hostname", f"{self.name}\n")
        _put(root / "etc/hosts", f"127.0.0.1 localhost\n{self.address} {self.name}\n::1 localhost\n")
        _put(root / "etc/machine-id", f"{uuid.uuid4().hex}\n")  # a first boot would also reset units
        _put(root / HOST_KEY, key.read_text(), 0o600)
        _put(root / f"{HOST_KEY}.pub", key.with_suffix(".pub").read_text())
        _put(root / NETWORK, f"[Match]\nName=host0\n[Network]\nAddress={self.address}/24\nLinkLocalAddressing=no\n")
        _authorize(root / "root", self.authorized, 0)
        _authorize(root / "home" / USER, self.authorized, UID)


def scrub(upper: Path) -> None:
    """Take everything of one host out of an overlay's upper folder, so that a layer made of it is nobody."""
    for pattern in SCRUBBED:
        for path in upper.glob(pattern):
            shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()


def _authorize(home: Path, key: str, uid: int) -> None:
    folder, file = home / ".ssh", home / ".ssh/authorized_keys"
    _put(file, key, 0o600)
    folder.chmod(0o700)
    for path in (folder, file):
        os.chown(path, uid, uid)


def _put(path: Path, text: str, mode: int = 0o644) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(mode)
