"""Over SSH, under systemd, with unprivileged workers: report, recap and status say what happened to each host."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gpuburn.controller.collect import collect

from . import accepting
from .accepting import accept, break_, start, with_agent
from .host import Host
from .lab import Lab, Layer
from .waiting import until

STEPS = ["idle", "identity", "gemm", "allreduce", "checkpoint"]


@pytest.fixture(scope="session")
def agent(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Layer:
    return with_agent(lab, tmp_path_factory.mktemp("baked"))


@pytest.fixture
def fresh(lab: Lab, agent: Layer, request: pytest.FixtureRequest):
    """Booted hosts with the agent installed, removed after the test."""
    made: list[Host] = []

    def make(*names: str) -> list[Host]:
        hosts = [lab.host(name, [agent]) for name in names]
        made.extend(hosts)
        lab.boot(*hosts)
        return hosts

    yield make
    lab.remove(*made)


def test_healthy_flipped_and_unplugged_each_get_their_own_word(lab: Lab, fresh, tmp_path: Path):
    healthy, flipped, unplugged = fresh("healthy", "flipped", "unplugged")
    break_(flipped, "gemm:flip:cpu1,idle:whoami")
    unplugged.pull_cable()
    ran = accept(lab, [healthy, flipped, unplugged], tmp_path, {"gpuburn_steps": STEPS})
    print(ran.output[ran.output.find("PLAY RECAP") :])
    assert ran.decisions() == {"healthy": "trial passed", "flipped": "trial failed", "unplugged": "untested"}
    assert ran.status == 2
    assert {name: ran.failed(name) for name in ran.decisions()} == {"healthy": 0, "flipped": 1, "unplugged": 1}
    why = ran.host("flipped")["reason"]
    assert "step gemm" in why and "cpu1" in why and "gemm.wrong" in why
    assert f"trial failed: {why}" in " ".join(ran.output.split())
    uid = (ran.folder / "hosts/flipped/run/steps/idle/uid").read_text()
    assert uid == flipped.ssh("id", "-u", "gpuburn").stdout.strip() != "0", "workers are not root"
    assert "gpuburn run" in healthy.ssh("systemctl", "show", "-P", "Description", f"gpuburn@{ran.run}").stdout
    owner = healthy.ssh("stat", "-c", "%U", f"/var/lib/gpuburn/{ran.run}/steps/gemm/readings.cpu0.jsonl").stdout.strip()
    assert owner == "root", "evidence is taken from the workers"
    collected = collect(ran.folder / "hosts/healthy/run", ran.folder / "hosts/healthy/plan.json")
    assert {str(verdict) for verdict in collected.verdicts.values()} == {"pass"}
    assert [f.code for f in collected.findings if f.about == "kernel_log"] == ["not_observable"]


def test_a_run_whose_only_host_dies_says_so(lab: Lab, fresh, tmp_path: Path):
    [host] = fresh("mortal")
    run = start(lab, [host], tmp_path, {"gpuburn_steps": ["idle"], "gpuburn_grace": 1})
    until(lambda: _running(host, "idle"), "the step to run", timeout=180)
    host.power_loss()
    output, _ = run.communicate(timeout=600)
    ran = accepting.Ran(run.returncode, output, tmp_path)
    assert ran.decisions() == {"mortal": "trial failed"}
    assert "did not come back by its deadline" in ran.host("mortal")["reason"]
    assert ran.status != 0 and ran.failed("mortal") == 1


def test_a_crash_under_load_is_resumed_after_the_boot_and_fails(lab: Lab, fresh, tmp_path: Path):
    [host] = fresh("crashing")
    run = start(lab, [host], tmp_path, {"gpuburn_steps": ["idle", "gemm"]})
    until(lambda: _running(host, "gemm"), "the step to run", timeout=180)
    host.power_loss()
    host.power_on()
    output, _ = run.communicate(timeout=600)
    ran = accepting.Ran(run.returncode, output, tmp_path)
    assert ran.decisions() == {"crashing": "trial failed"}, output[-3000:]
    codes = {(one["code"], one["verdict"]) for one in ran.host("crashing")["findings"]}
    assert ("host.rebooted", "fail") in codes
    assert ("step.worked", "pass") in codes, "the interrupted step was run once more"
    assert ran.status == 2


def test_coming_back_to_a_finished_run_changes_nothing(lab: Lab, fresh, tmp_path: Path):
    [host] = fresh("patient")
    first = accept(lab, [host], tmp_path, {"gpuburn_steps": ["checkpoint"]})
    again = accept(lab, [host], tmp_path, {"gpuburn_steps": ["checkpoint"]}, "-e", f"gpuburn_run={first.run}")
    assert (first.status, again.status) == (0, 0), again.output[-3000:]
    assert "changed=0" in again.output[again.output.find("PLAY RECAP") :]


def _running(host: Host, step: str) -> bool:
    """Whether the step's workers have begun to measure."""
    script = "cat /var/lib/gpuburn/2*/state.json 2>/dev/null"
    told = host.ssh("sh", "-c", script, check=False).stdout
    return bool(told) and json.loads(told).get("step") == step
