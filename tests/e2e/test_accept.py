"""accept.yml end to end on this machine: recap, report and exit status tell the same truth, come what may."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from e2e.conftest import PLAYBOOK, ROOT, UNREACHABLE

pytestmark = pytest.mark.e2e


def test_a_good_host_passes_its_trial_and_coming_back_changes_nothing(accept):
    first = accept({"good": {}})
    assert first.status == 0, first.output[-3000:]
    assert first.decisions() == {"good": "trial passed"}
    assert "good: trial: passed; a rehearsal accepts nothing" in first.output
    assert f"report: {first.reports / first.run / 'index.html'}" in first.output
    again = accept({"good": {}}, "-e", f"gpuburn_run={first.run}")
    assert again.status == 0, again.output[-3000:]
    assert again.run == first.run
    assert again.recap("good")["changed"] == 0
    assert again.decisions() == first.decisions()


def test_a_host_that_cannot_be_reached_has_its_row_beside_one_that_can(accept):
    ran = accept({"good": {}, "dead": UNREACHABLE})
    assert ran.status == 2
    assert ran.decisions() == {"good": "trial passed", "dead": "untested"}
    assert (ran.recap("good")["failed"], ran.recap("dead")["failed"]) == (0, 1)
    assert "untested: the host was never reached" in ran.output


def test_the_only_host_dead_still_makes_a_report(accept):
    ran = accept({"dead": UNREACHABLE})
    assert ran.status == 2
    assert ran.decisions() == {"dead": "untested"}
    assert "untested" in (ran.reports / ran.run / "index.html").read_text()


def test_a_host_that_must_not_be_touched_is_untested_with_its_reason(accept, tmp_path):
    busy = tmp_path / "runs" / "busy" / "20261130T080000Z-0000"
    busy.mkdir(parents=True)
    (busy / "plan.json").touch()
    (busy / "state.json").touch()
    ran = accept({"busy": {}})
    assert ran.status == 2
    assert ran.decisions() == {"busy": "untested"}
    assert "20261130T080000Z-0000 is not finished on it" in ran.report["hosts"][0]["reason"]


def test_check_mode_prints_the_plan_and_writes_and_starts_nothing(accept, tmp_path):
    ran = accept({"good": {}}, "--check")
    assert ran.status == 0, ran.output[-2000:]
    assert "good: training at level smoke, rehearsal, 2 devices" in ran.output
    assert not ran.reports.exists() and not (tmp_path / "runs").exists()


def test_check_mode_names_the_hosts_that_would_not_run(accept):
    ran = accept({"good": {}, "dead": UNREACHABLE}, "--check")
    assert ran.status == 0
    assert "check: 1 host(s) would run, 1 would not" in ran.output
    assert ran.output.count("unreachable: dead:") == 1


def test_a_variable_that_is_not_defined_is_named_and_never_left_out(accept, tmp_path):
    ran = accept({"host": {"gpuburn_limits": "{{ contract_limits }}"}})
    assert ran.status != 0
    assert "host host: gpuburn_limits uses a variable that is not defined" in " ".join(ran.output.split())
    assert not (tmp_path / "runs").exists()


def test_coming_back_to_a_run_that_is_not_here_is_refused(accept, tmp_path):
    ran = accept({"good": {}}, "-e", "gpuburn_run=20260101T000000Z-0000")
    assert ran.status == 2
    assert "run 20260101T000000Z-0000 is not in" in " ".join(ran.output.split())
    assert not (tmp_path / "runs").exists()


def test_a_run_id_of_another_form_is_refused_by_name(accept):
    ran = accept({"good": {}}, "-e", "gpuburn_run=latest")
    assert ran.status == 2
    assert "run id 'latest': wanted is <UTC>-<4 hex>" in " ".join(ran.output.split())


def test_coming_back_with_another_inventory_is_refused(accept):
    first = accept({"good": {}})
    again = accept({"good": {"gpuburn_processes": 1}}, "-e", f"gpuburn_run={first.run}")
    assert again.status == 2
    assert "a changed inventory is a new run" in " ".join(again.output.split())


def test_detached_it_says_how_to_come_back_and_coming_back_decides(accept):
    started = accept({"good": {}}, "-e", "gpuburn_wait=false")
    assert started.status == 0, started.output[-2000:]
    assert f"-e gpuburn_run={started.run}" in started.output
    back = accept({"good": {}}, "-e", f"gpuburn_run={started.run}")
    assert back.status == 0, back.output[-3000:]
    assert back.decisions() == {"good": "trial passed"}


def test_a_run_costs_at_most_forty_tasks_per_host(accept, tmp_path):
    """From preflight to verdict, with the agent there: one host-task costs the controller about 23 ms."""
    counted = tmp_path / "counted.json"
    ran = accept(
        {"good": {}, "too": {}}, COUNT_HOST_TASKS=str(counted), ANSIBLE_CALLBACKS_ENABLED="gpuburn,count_host_tasks",
        ANSIBLE_CALLBACK_PLUGINS=f"{ROOT}/playbooks/callback_plugins:{ROOT}/tests/e2e/counting",
    )  # fmt: skip
    assert ran.status == 0, ran.output[-2000:]
    tasks = json.loads(counted.read_text())
    assert tasks.keys() == {"good", "too"}
    assert max(map(len, tasks.values())) <= 40, tasks


def test_progress_is_printed_by_plain_ansible_playbook(accept):
    ran = accept({"good": {}})
    assert "step 1/1 checkpoint" in ran.output and "s of about" in ran.output


@pytest.mark.parametrize(
    "variables, said",
    [
        ({"gpuburn_lvel": "smoke"}, "unknown 'gpuburn_lvel'; did you mean 'gpuburn_level'?"),
        ({"gpuburn_level": "long"}, "'long' is not one of smoke, quick, standard, soak"),
        ({"gpuburn_profiles": ["trainig"]}, "unknown 'trainig'; did you mean 'training'?"),
        ({"gpuburn_profiles": []}, "gpuburn_profiles is not set"),
        ({"gpuburn_kind": "hardware", "gpuburn_become": True}, "gpuburn_sku is not set"),
        ({"gpuburn_kind": "hardware", "gpuburn_sku": "h200"}, "gpuburn_gpu_count is 0"),
        (
            {"gpuburn_kind": "hardware", "gpuburn_sku": "h200", "gpuburn_gpu_count": 8, "gpuburn_become": True},
            "unknown 'h200'; did you mean 'h200-nvl' or 'h200-sxm'?",
        ),
        ({"gpuburn_limits": {"gemm.tflops": {"unit": "TFLOP/s", "min": 1}}}, "needs a reason ('because')"),
        ({"gpuburn_limits": {"gemm.tflop": {"unit": "TFLOP/s", "min": 1, "because": "x"}}}, "'tflop'"),
        ({"gpuburn_limits": {"gemm.tflops": {"unit": "GFLOP/s", "min": 1, "because": "x"}}}, "measured in 'TFLOP/s'"),
        ({"gpuburn_limits": {"gemm.tflops": {"unit": "TFLOP/s", "mim": 1, "because": "x"}}}, "did you mean 'min'?"),
    ],
)  # fmt: skip
def test_a_wrong_variable_is_refused_with_file_key_and_wish_before_anything_runs(accept, tmp_path, variables, said):
    ran = accept({"host": variables, "other": {}})
    assert ran.status == 2
    flat = " ".join(ran.output.split())
    assert said in flat, ran.output[-1500:]
    assert "hosts.yml: host host" in flat
    assert not ran.reports.exists() and not (tmp_path / "runs").exists()


@pytest.mark.parametrize("name", ["<b>x</b>", "a;b", "../x", "x" * 101])
def test_a_host_name_that_is_no_plain_name_is_refused(accept, name):
    ran = accept({name: {}})
    assert ran.status == 2
    assert "wanted are letters, digits" in " ".join(ran.output.split())
    assert not ran.reports.exists()


def test_as_shipped_the_literal_command_stops_at_the_placeholder_and_says_what_to_edit():
    done = subprocess.run(
        [PLAYBOOK, "accept.yml", "-l", "new_racks"], cwd=ROOT, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 2
    flat = " ".join(done.stdout.split())
    assert "edit inventory/hosts.yml" in flat and "inventory/example/" in flat


@pytest.mark.parametrize("inventory", ["inventory/hosts.yml", "inventory/example", "inventory/example-cloud"])
def test_every_shipped_inventory_is_read_by_ansible(inventory):
    listed = subprocess.run(
        [PLAYBOOK.with_name("ansible-inventory"), "-i", inventory, "--list"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert listed.returncode == 0 and json.loads(listed.stdout)["_meta"]["hostvars"]


@pytest.mark.parametrize("inventory, count", [("inventory/example", 8), ("inventory/example-cloud", 4)])
def test_every_example_is_a_plan(inventory, count):
    listed = subprocess.run(
        [PLAYBOOK.with_name("ansible-inventory"), "-i", inventory, "--list"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
    )
    hosts = json.loads(listed.stdout)["_meta"]["hostvars"]
    asked = {
        name: {"variables": {key: value for key, value in of.items() if key.startswith("gpuburn_")}}
        for name, of in hosts.items()
    }
    done = subprocess.run(
        [sys.executable, "-m", "gpuburn.controller", "expect", "--run", "20261130T080000Z-abcd", "--check"],
        cwd=ROOT, input=json.dumps(asked), capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert f"{count} host(s) expected" in done.stdout
