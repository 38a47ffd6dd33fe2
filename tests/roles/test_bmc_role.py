"""The role that asks the BMCs, run by Ansible at its loudest: one call, and the password in none of its words."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import runs
import yaml

from gpuburn.controller.bmc import kept
from gpuburn.controller.run import Run
from tests.controller.bmc import server, tree

ROOT = Path(__file__).parents[2]
BEGAN = "20260101T000000Z-0000"


def inventory(bmc: server.Bmc) -> dict[str, Any]:
    mine = {
        "gpuburn_bmc_address": bmc.address, "gpuburn_bmc_user": server.USER, "gpuburn_bmc_fingerprint": bmc.fingerprint,
        "gpuburn_bmc_password": "{{ hidden }}", "hidden": server.PASSWORD,
    }  # fmt: skip
    shared = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
    return {"all": {"vars": shared, "hosts": {"bare": {}, "node1": mine}}}


LOOK = [{"name": "Ask", "ansible.builtin.import_role": {"name": "bmc", "tasks_from": "look.yml"},
         "vars": {"bmc_moment": "start"}}]  # fmt: skip


def play(tmp_path: Path, hosts: dict[str, Any], reports: Path, tasks: list[dict[str, Any]] = LOOK) -> str:
    """Everything that Ansible prints at -vvv, and all that it logs."""
    (tmp_path / "hosts.yml").write_text(yaml.safe_dump(hosts))
    book = [{"name": "Ask", "hosts": "all", "gather_facts": False, "tasks": tasks}]
    (tmp_path / "playbooks").mkdir()
    (tmp_path / "playbooks" / "ask.yml").write_text(yaml.safe_dump(book))
    (tmp_path / "ansible.cfg").write_text("")
    quiet = {name: value for name, value in os.environ.items() if not name.startswith("ANSIBLE_")}
    done = subprocess.run(
        [sys.executable, "-m", "ansible", "playbook", "-vvv", "-i", "hosts.yml", "playbooks/ask.yml"], cwd=tmp_path,
        env={**quiet, "ANSIBLE_CONFIG": str(tmp_path / "ansible.cfg"), "ANSIBLE_ROLES_PATH": str(ROOT / "roles"),
             "ANSIBLE_LOG_PATH": str(tmp_path / "log"), "ANSIBLE_LOCAL_TEMP": str(tmp_path / "tmp"),
             "GPUBURN_RUN": BEGAN, "GPUBURN_REPORTS": str(reports), "PYTHONPATH": str(ROOT)},
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr + (tmp_path / "log").read_text()


@pytest.fixture
def pair(tmp_path: Path) -> tuple[Path, Path, str]:
    return server.certify(tmp_path)


def test_every_bmc_is_asked_in_one_call_and_nothing_says_the_password(
    tmp_path: Path, pair: tuple[Path, Path, str]
) -> None:
    reports = tmp_path / "reports"
    run = runs.home(reports, runs.plan())
    (run.folder / "expected.json").unlink()
    run.expect([runs.expected(runs.plan(), bmc="fingerprint"), runs.expected(runs.plan(runs.request(host="bare")))])
    with server.running(tree.host(), pair) as bmc:
        hosts = inventory(bmc)
        said = play(tmp_path, hosts, reports)
    [one] = kept.looks(run, "node1", run.by_host()["node1"])
    assert (one.silent, one.gpus) == ("", 8)
    assert "Ask every host's BMC" in said
    word = server.PASSWORD.split()[0]  # however often its quotation marks are escaped
    assert word not in said
    assert [path for path in reports.rglob("*") if path.is_file() and word in path.read_text()] == []


def test_a_sweep_asks_the_bmc_of_a_host_with_a_finding_once(tmp_path: Path, pair: tuple[Path, Path, str]) -> None:
    reports = tmp_path / "reports"
    run = runs.home(reports, runs.plan())
    (run.folder / "expected.json").unlink()
    run.expect([runs.expected(runs.plan(), bmc="fingerprint"), runs.expected(runs.plan(runs.request(host="bare")))])
    agent = tmp_path / "agent"
    agent.write_text(f"#!/bin/sh\necho '{json.dumps({'phase': 'running', 'reported': True})}'\n")
    agent.chmod(0o755)
    sweep = {"name": "Sweep", "ansible.builtin.include_role": {"name": "burnin", "tasks_from": "sweep.yml"},
             "loop": [1, 2], "vars": {"__burnin_period": 0, "__burnin_agent": str(agent)}}  # fmt: skip
    with server.running(tree.host(), pair) as bmc:
        hosts = inventory(bmc)
        run.note(12.0, "started", "node1")
        said = play(tmp_path, hosts, reports, [sweep])
        assert [path for method, path in bmc.asked if method == "POST"] == [server.SESSIONS]
    [one] = kept.looks(run, "node1", run.by_host()["node1"])
    assert (one.moment, one.silent) == ("finding", "")
    word = server.PASSWORD.split()[0]
    assert word not in said
    assert [path for path in reports.rglob("*") if path.is_file() and word in path.read_text()] == []


def test_where_no_host_has_a_bmc_nothing_is_called(tmp_path: Path) -> None:
    shared = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
    said = play(tmp_path, {"all": {"vars": shared, "hosts": {"bare": {}}}}, tmp_path / "reports")
    assert "skipping: [bare]" in said
    assert not Run.of(tmp_path / "reports", BEGAN).folder.exists()
