"""The product on lab hosts: the wheelhouse that is pushed, the agent that is baked in once, and the literal command."""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpuburn.controller import wheel

from .host import Host
from .lab import Lab, Layer

ROOT = Path(__file__).parents[2]
BIN = Path(sys.executable).parent
TORCH = "2.13.0"
PACKAGES = (f"torch=={TORCH}", "numpy", "nvidia-ml-py", "PyYAML")
REHEARSAL = {
    "gpuburn_kind": "rehearsal",
    "gpuburn_level": "smoke",
    "gpuburn_environment": "container",
    "gpuburn_profiles": ["training"],
    "gpuburn_processes": 3,
    "gpuburn_delivery": "lab",
    "gpuburn_torch_version": TORCH,
}


@dataclass(frozen=True)
class Ran:
    """What the command left: its exit status, its output, its report."""

    status: int
    output: str
    reports: Path

    @property
    def run(self) -> str:
        found = re.search(r"gpuburn run (\S+)", self.output)
        assert found, self.output[-2000:]
        return found[1]

    @property
    def folder(self) -> Path:
        return self.reports / self.run

    def host(self, name: str) -> dict[str, Any]:
        report = json.loads((self.folder / "report.json").read_text())
        return next(one for one in report["hosts"] if one["host"] == name)

    def decisions(self) -> dict[str, str]:
        return {one["host"]: one["decision"] for one in json.loads((self.folder / "report.json").read_text())["hosts"]}

    def failed(self, name: str) -> int:
        found = re.search(rf"^{name}\s+:.*failed=(\d+)", self.output, re.MULTILINE)
        assert found, self.output[-2000:]
        return int(found[1])


def wheelhouse(cache: Path) -> Path:
    """Every wheel that a host without a route out needs, fetched once by the controller's own pip."""
    folder = cache / f"wheelhouse-{hashlib.sha256(' '.join(PACKAGES).encode()).hexdigest()[:12]}"
    if not folder.exists():
        fetching = folder.with_suffix(f".{os.getpid()}")
        command = [BIN / "pip", "download", "--quiet", "--only-binary=:all:", "-d", fetching, *PACKAGES]
        subprocess.run(command, check=True, timeout=900)
        fetching.rename(folder)
    return folder


def accept(
    lab: Lab, hosts: Iterable[Host], reports: Path, variables: dict[str, Any], *arguments: str, timeout: int = 900
) -> Ran:
    """`ansible-playbook accept.yml -l new_racks`, as a user runs it, over ssh as an ordinary user with sudo."""
    running = start(lab, hosts, reports, variables, *arguments)
    output, _ = running.communicate(timeout=timeout)
    return Ran(running.returncode, output, reports)


def start(
    lab: Lab, hosts: Iterable[Host], reports: Path, variables: dict[str, Any], *arguments: str
) -> subprocess.Popen[str]:
    """The same, without waiting for its end."""
    inventory = lab.inventory(list(hosts), groupvars={**REHEARSAL, **variables})
    command = [BIN / "ansible-playbook", "accept.yml", "-i", inventory, "-l", "new_racks"]
    return subprocess.Popen(
        [*command, "-e", f"gpuburn_reports_dir={reports}", *arguments], cwd=ROOT, text=True, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, env={**os.environ, "ANSIBLE_NOCOLOR": "1"},
    )  # fmt: skip


def with_agent(lab: Lab, reports: Path) -> Layer:
    """A layer with the agent installed by the product itself; made anew whenever the product changes."""

    def prepare(host: Host) -> None:
        wheels = wheelhouse(lab.cache)
        ran = accept(lab, [host], reports, {"gpuburn_steps": ["checkpoint"], "gpuburn_wheelhouse": str(wheels)})
        assert ran.status == 0, ran.output[-4000:]
        host.ssh("sh", "-c", "rm -rf /var/lib/gpuburn/2* /opt/gpuburn/wheels/*")

    sources = [*sorted((ROOT / "roles").rglob("*.yml")), *sorted((ROOT / "roles").rglob("*.j2"))]
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in sources))
    digest.update(f"{wheel.tree()} {' '.join(PACKAGES)}".encode())
    return lab.layer(f"agent-{digest.hexdigest()[:24]}", prepare)


def break_(host: Host, faults: str) -> None:
    """Put faults into every Python of the agent's venv, by a .pth file; nothing of the product knows of them."""
    packages = "/opt/gpuburn/venv/lib/python3.11/site-packages"
    host.write(f"{packages}/gpuburn_faults.py", (ROOT / "tests/fakes/faults/gpuburn_faults.py").read_text())
    host.write(f"{packages}/zz_faults.pth", f"import gpuburn_faults; gpuburn_faults.install({faults!r})\n")
