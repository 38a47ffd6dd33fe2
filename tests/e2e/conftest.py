"""Playbooks run as a user runs them: the literal command, from the root, against an inventory in a temporary folder."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
PLAYBOOK = Path(sys.executable).with_name("ansible-playbook")
LOCAL = {
    "ansible_connection": "local",
    "ansible_python_interpreter": "{{ ansible_playbook_python }}",
    "gpuburn_kind": "rehearsal",
    "gpuburn_level": "smoke",
    "gpuburn_profiles": ["training"],
    "gpuburn_processes": 2,
    "gpuburn_become": False,
    "gpuburn_python": "{{ ansible_playbook_python }}",
    "gpuburn_home": str(ROOT / ".demo" / "agent"),  # the agent that `make demo` installs; the first test does, too
    "gpuburn_torch_version": "2.13.0",
    "gpuburn_torch_index": os.environ.get("TORCH_INDEX", ""),
}
STEPS = ["checkpoint"]  # the shortest that proves something
# Nobody listens on this port of loopback: a host whose ssh refuses, at once.
UNREACHABLE = {"ansible_connection": "ssh", "ansible_host": "127.0.0.1", "ansible_port": 1}


@dataclass(frozen=True)
class Ran:
    """What a person sees after the command."""

    status: int
    output: str
    reports: Path

    @property
    def run(self) -> str:
        return re.search(r"gpuburn run (\S+)", self.output)[1]

    @property
    def report(self) -> dict[str, Any]:
        return json.loads((self.reports / self.run / "report.json").read_text())

    def decisions(self) -> dict[str, str]:
        return {host["host"]: host["decision"] for host in self.report["hosts"]}

    def recap(self, host: str) -> dict[str, int]:
        line = re.search(rf"^{host}\s+: (.*)$", self.output, re.MULTILINE)[1]
        return {key: int(value) for key, value in re.findall(r"(\w+)=(\d+)", line)}


@pytest.fixture
def accept(tmp_path: Path):
    """Run accept.yml over hosts given as {name: variables}; one short step, unless a host says otherwise."""

    def run(hosts: dict[str, dict[str, Any]], *arguments: str, timeout: int = 420, **environment: str) -> Ran:
        inventory = tmp_path / "hosts.yml"
        known = {
            name: {**LOCAL, "gpuburn_steps": STEPS, "gpuburn_state_dir": str(tmp_path / "runs" / name), **own}
            for name, own in hosts.items()
        }
        inventory.write_text(yaml.safe_dump({"all": {"children": {"new_racks": {"hosts": known}}}}))
        reports = tmp_path / "reports"
        command = [
            PLAYBOOK,
            "accept.yml",
            "-i",
            inventory,
            "-l",
            "new_racks",
            "-e",
            f"gpuburn_reports_dir={reports}",
            *arguments,
        ]
        done = subprocess.run(
            command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=timeout,
            env={**os.environ, "ANSIBLE_NOCOLOR": "1", **environment},
        )  # fmt: skip
        return Ran(done.returncode, done.stdout, reports)

    return run
