"""The Debian tree that all hosts share: what is in it and how it is made; what makes it one host is in identity.py."""

from __future__ import annotations

import hashlib
import os
import shutil
from pathlib import Path

from .command import run
from .packages import Unavailable, without_hosts
from .store import Store

SUITE = "bookworm"
INCLUDE = (
    "systemd", "systemd-sysv", "dbus", "openssh-server", "python3", "python3-venv", "python3-apt", "sudo", "iproute2",
    "ca-certificates",
)  # fmt: skip
USER, UID = "admin", 1000

UNITS = "lib/systemd/system"
WANTED = ("systemd-networkd.service",)
MASKED = (  # timers that would start apt in the middle of a test, and login prompts on consoles that nobody reads
    "apt-daily.timer", "apt-daily-upgrade.timer", "dpkg-db-backup.timer", "e2scrub_all.timer", "e2scrub_reap.service",
    "fstrim.timer", "console-getty.service", "getty@tty1.service",
)  # fmt: skip
FILES = {
    "etc/apt/sources.list": "",  # hosts have no route out, and the mirror of this machine is not theirs to know
    "etc/resolv.conf": "",
    f"etc/sudoers.d/{USER}": f"{USER} ALL=(ALL) NOPASSWD:ALL\n",
    "etc/systemd/journald.conf.d/lab.conf": "[Journal]\nStorage=persistent\nSystemMaxUse=64M\n",
}
REMOVED = (
    "etc/hostname", "etc/ssh/ssh_host_*", "var/lib/dbus/machine-id", "var/log/bootstrap.log", "var/log/journal/*",
    "var/lib/apt/lists/*", "var/cache/apt/*.bin", "var/cache/apt/archives/*.deb",
)  # fmt: skip


def digest() -> str:
    """The content of the tree as a key: another suite, package or file is another tree."""
    recipe = (SUITE, INCLUDE, USER, UID, WANTED, MASKED, sorted(FILES.items()), REMOVED)
    return hashlib.sha256(repr(recipe).encode()).hexdigest()[:16]


def take(store: Store) -> Path:
    """The finished tree; making it takes about a minute, once per machine."""
    return store.take("base", digest(), _make)


def _make(folder: Path) -> None:
    _bootstrap(folder)
    _furnish(folder)


def _bootstrap(folder: Path) -> None:
    """debootstrap in mount and PID namespaces of its own, so that it never outlives the tests, nor do its mounts."""
    site = _mirror()
    alone = ("setpriv", "--pdeathsig", "KILL", "unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc")
    make = ("debootstrap", "--variant=minbase", f"--include={','.join(INCLUDE)}", SUITE, str(folder), site)
    done = run(*alone, *make, check=False, timeout=1500)
    if done.returncode != 0:
        raise Unavailable(f"debootstrap failed: {without_hosts((done.stdout + done.stderr)[-2000:])}")


def _mirror() -> str:
    """Where this machine's own apt gets the suite from: asked anew each time and never written down."""
    fields = "$(CODENAME) $(SUITE) $(COMPONENT) $(SITE)"
    for update in (False, True):
        if update:
            run("apt-get", "-q", "update", check=False, timeout=300)
        for line in run("apt-get", "indextargets", "--format", fields, "Created-By: Packages").stdout.splitlines():
            codename, suite, component, site = (line.split(" ") + [""] * 4)[:4]
            if SUITE in (codename, suite) and component == "main":
                return site
    raise Unavailable(f"no apt source of this machine carries {SUITE}/main")


def _furnish(root: Path) -> None:
    """Everything all hosts have in common: the ordinary user, the network service, quiet timers, no identity."""
    for pattern in REMOVED:
        for path in root.glob(pattern):
            shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
    for name, text in FILES.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)  # never through a link that the packages left
        path.write_text(text)
        path.chmod(0o440 if "sudoers" in name else 0o644)
    for unit in WANTED:
        _link(root / "etc/systemd/system/multi-user.target.wants" / unit, f"/{UNITS}/{unit}")
    for unit in MASKED:
        _link(root / "etc/systemd/system" / unit, "/dev/null")
    (root / "etc/machine-id").write_text("")
    (root / "var/lib/dbus/machine-id").symlink_to("/etc/machine-id")
    run("chroot", str(root), "useradd", "--create-home", "--uid", str(UID), "--shell", "/bin/bash", USER)
    root.chmod(0o755)


def _link(path: Path, target: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    os.symlink(target, path)
