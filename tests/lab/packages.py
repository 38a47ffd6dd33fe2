"""The Debian packages that the lab needs on the machine running the tests; it installs them as root, and nothing else.

`openssh-server` is not among them on purpose: hosts bring their own, and here it would open a port on the tester's.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess

from .command import run

NEEDED = ("systemd-container", "debootstrap", "openssh-client", "iproute2")
APT = ("apt-get", "-y", "-q", "--no-install-recommends", "-o", "DPkg::Lock::Timeout=300")


class Unavailable(Exception):
    """This machine cannot run the lab; the text says why."""


def ensure_installed() -> None:
    """Install what is missing, with one `apt-get update` if it takes that, or say why it cannot be."""
    if os.geteuid() != 0:
        raise Unavailable("the lab needs root: it boots containers and makes a bridge")
    if not shutil.which("dpkg-query") or not shutil.which("apt-get"):
        raise Unavailable("the lab needs a Debian machine: there is no dpkg-query or apt-get here")
    missing = [name for name in NEEDED if not _is_installed(name)]
    if not missing or _apt("install", *missing) is None:
        return
    reason = _apt("update") or _apt("install", *missing)
    if reason:
        raise Unavailable(f"apt-get could not install {' '.join(missing)}: {reason}")


def without_hosts(text: str) -> str:
    """A tool's output without the names of the mirrors it used: those are the machine's own affair."""
    return re.sub(r"//[^/\s]+", "//...", text)


def _is_installed(name: str) -> bool:
    return run("dpkg-query", "-W", "-f", "${db:Status-Status}", name, check=False).stdout == "installed"


def _apt(verb: str, *names: str) -> str | None:
    """None when apt did it, else what it said."""
    try:
        run(*APT, verb, *names, timeout=600, env=os.environ | {"DEBIAN_FRONTEND": "noninteractive"})
    except subprocess.SubprocessError as error:
        return without_hosts(str(error))
    return None
