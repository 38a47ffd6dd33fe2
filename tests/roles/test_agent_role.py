"""What the agent's role does about smartctl, run by Ansible; stand-ins for package and service managers keep book.

All hosts stand in one inventory, so that two runs of Ansible serve all tests.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
VARIABLES = yaml.safe_load((ROOT / "roles/agent/vars/main.yml").read_text())
WITHOUT = VARIABLES["__agent_without_smartctl"]
# A module in place of Ansible's: writes what it is asked into the host's book, and answers as the host's file says.
MODULE = """#!/usr/bin/python3
import os
from ansible.module_utils.basic import AnsibleModule
module = AnsibleModule(argument_spec=dict.fromkeys(["name", "state", "enabled"], {{"type": "raw"}}))
asked = [str(module.params[name]) for name in ("name", "state", "enabled") if module.params[name] is not None]
with open(os.path.join(os.environ["OF_HOST"], "book"), "a") as book:
    book.write(" ".join(asked) + "\\n")
answer = open(os.path.join(os.environ["OF_HOST"], "{kind}")).read()
module.fail_json(msg="no route out") if answer == "fails" else module.exit_json(changed=answer == "changes")
"""
MANAGERS = {"package": ("apt", "dnf", "dnf5"), "service": ("systemd", "sysvinit", "service")}
PACKAGE = "smartmontools present"
SERVICES = {f"{name} stopped False" for name in VARIABLES["__agent_smartd"].values()}
pytestmark = pytest.mark.skipif(
    bool(shutil.which("smartctl", path=f"{os.environ['PATH']}:/usr/sbin:/sbin")), reason="smartctl is on this machine"
)


@dataclass(frozen=True)
class Case:
    """package, service: what the managers answer in the first run; in the second both change what they are asked.

    without: whether an earlier run could not install the package. tool: whether smartctl is there. part: of the role.
    """

    package: str = "changes"
    service: str = "changes"
    without: bool = True
    tool: bool = False
    part: str = "main.yml"


CASES = {
    "installs": Case(), "fails": Case(package="fails"), "has-package": Case(package="same"),
    "has-tool": Case(tool=True), "stuck": Case(service="fails"), "whole": Case(without=False),
    "new": Case(package="fails", without=False, part="smartctl.yml"),
}  # fmt: skip
Told = tuple[list[str], bool]  # what the managers were asked, and whether it is noted that smartctl is missing


def wheel(folder: Path) -> str:
    """The digest of the agent's wheel of this tree, which is built into the folder."""
    command = [sys.executable, "-m", "gpuburn.controller", "wheel", str(folder)]
    env = os.environ | {"PYTHONPATH": str(ROOT)}
    said = subprocess.run(command, cwd=ROOT, env=env, check=True, capture_output=True).stdout
    return str(json.loads(said)["sha256"])


def prepare(folder: Path, case: Case, digest: str) -> None:
    """A host with the agent of this tree."""
    (folder / "home").mkdir(parents=True)
    (folder / "home" / "installed").write_text(f"torch 1  python\n{digest}\n")
    (folder / "package").write_text(case.package)
    (folder / "service").write_text(case.service)
    if case.without:
        (folder / "home" / "without").write_text(f"{WITHOUT}\n")
    if case.tool:
        (folder / "smartctl").write_text("#!/bin/sh\n")
        (folder / "smartctl").chmod(0o755)


def inventory(folder: Path) -> dict[str, Any]:
    hosts = {name: {"folder": str(folder / name), "part": case.part} for name, case in CASES.items()}
    shared = {
        "ansible_connection": "local", "ansible_python_interpreter": sys.executable, "agent_home": "{{ folder }}/home",
        "agent_cache_dir": str(folder / "wheels"), "agent_become": False, "agent_torch_version": "1",
        "agent_torch_index": "", "agent_python": "python",
    }  # fmt: skip
    return {"all": {"vars": shared, "hosts": hosts}}


def play(folder: Path) -> dict[str, Told]:
    """One run over all hosts, which must end well on each."""
    for name in CASES:
        (folder / name / "book").write_text("")
    env = {name: value for name, value in os.environ.items() if not name.startswith("ANSIBLE_")}
    env |= {
        "ANSIBLE_CONFIG": str(folder / "ansible.cfg"), "ANSIBLE_ROLES_PATH": str(ROOT / "roles"),
        "ANSIBLE_LIBRARY": str(folder / "library"), "ANSIBLE_LOCAL_TEMP": str(folder / "tmp"), "PYTHONPATH": str(ROOT),
    }  # fmt: skip
    command = [sys.executable, "-m", "ansible", "playbook", "-i", "hosts.yml", "playbooks/agent.yml"]
    done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stdout + done.stderr
    return {
        name: ((folder / name / "book").read_text().splitlines(), (folder / name / "home" / "without").exists())
        for name in CASES
    }


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Told], dict[str, Told]]:
    """What two runs of the role did, by host."""
    folder = tmp_path_factory.mktemp("agent")
    digest = wheel(folder / "wheels")
    for name, case in CASES.items():
        prepare(folder / name, case, digest)
    (folder / "library").mkdir()
    for kind, names in MANAGERS.items():
        for name in names:
            (folder / "library" / f"{name}.py").write_text(MODULE.format(kind=kind))
    tasks = [
        {"name": "Agent", "ansible.builtin.include_role": {"name": "agent", "tasks_from": part},
         "vars": {"__agent_root": str(ROOT)}, "when": f"part == '{part}'"} for part in ("main.yml", "smartctl.yml")
    ]  # fmt: skip
    environment = {"OF_HOST": "{{ folder }}", "PATH": f"{{{{ folder }}}}:{os.environ['PATH']}"}
    book = [{"name": "Agent", "hosts": "all", "gather_facts": False, "environment": environment, "tasks": tasks}]
    (folder / "playbooks").mkdir()
    (folder / "playbooks" / "agent.yml").write_text(yaml.safe_dump(book))
    (folder / "hosts.yml").write_text(yaml.safe_dump(inventory(folder)))
    (folder / "ansible.cfg").write_text("")
    first = play(folder)
    for name in CASES:
        (folder / name / "package").write_text("changes")
        (folder / name / "service").write_text("changes")
    (folder / "hosts.yml").write_text(yaml.safe_dump(inventory(folder)).replace("part: smartctl.yml", "part: main.yml"))
    return first, play(folder)


def test_the_service_of_a_package_that_the_role_installed_is_stopped_and_disabled(runs) -> None:
    (package, service), noted = runs[0]["installs"]
    assert package == PACKAGE and service in SERVICES and not noted


@pytest.mark.parametrize(("host", "asked"), [("has-package", [PACKAGE]), ("has-tool", []), ("whole", [])])
def test_a_service_that_was_there_before_is_left_as_it_is(runs, host: str, asked: list[str]) -> None:
    assert runs[0][host] == (asked, False)


@pytest.mark.parametrize("host", ["fails", "new"])
def test_what_could_not_be_installed_is_tried_again_at_the_next_run(runs, host: str) -> None:
    assert runs[0][host] == ([PACKAGE], True)
    (package, service), noted = runs[1][host]
    assert package == PACKAGE and service in SERVICES and not noted


@pytest.mark.parametrize("host", ["installs", "has-package", "has-tool", "stuck", "whole"])
def test_where_nothing_is_missing_the_next_run_asks_nothing(runs, host: str) -> None:
    assert runs[1][host] == ([], False)


def test_a_service_that_cannot_be_stopped_does_not_stop_the_run(runs) -> None:
    assert len(runs[0]["stuck"][0]) == 2 and not runs[0]["stuck"][1]
