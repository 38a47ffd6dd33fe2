"""One bad host or one bad line of an inventory: named, in one line, and nobody else pays for it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from e2e.conftest import PLAYBOOK, ROOT, UNREACHABLE

pytestmark = pytest.mark.e2e
FRIENDLY = {
    "gpuburn_kind": "rehearsal", "gpuburn_level": "smoke", "gpuburn_profiles": ["training"], "gpuburn_processes": 2,
    "gpuburn_become": False, "gpuburn_steps": ["gemm"],
    "gpuburn_limits": {"gemm.tflops": {"unit": "TFLOP/s", "min": 0, "because": "friendly"}},
}  # fmt: skip
IMPOSSIBLE = {"gemm.tflops": {"unit": "TFLOP/s", "min": 620, "because": "annex B"}}


def python(folder: Path, name: str, before: str = "", after: str = "") -> dict[str, str]:
    """A host whose Python prints more than the look."""
    path = folder / name
    path.write_text(
        '#!/bin/bash\nif [ "$1" = - ]; then\n'
        f"printf '%s' '{before}'; {json.dumps(sys.executable)} \"$@\" | tr -d '\\n'; printf '%s' '{after}'\n"
        f'else exec {json.dumps(sys.executable)} "$@"; fi\n'
    )
    path.chmod(0o755)
    return {"gpuburn_python": str(path)}


def flat(ran: Any) -> str:
    return " ".join(ran.output.split())


def test_what_a_host_prints_cannot_change_another_hosts_plan_nor_stop_it(accept, tmp_path):
    """Two liars beside an honest host that cannot meet its limit: one writes that host's variables anew, one chats."""
    own = f'}}, "a_honest": {{"variables": {json.dumps(FRIENDLY)}, "look": {{}}'
    demanding = {"gpuburn_steps": ["gemm"], "gpuburn_limits": IMPOSSIBLE}
    ran = accept(
        {
            "a_honest": demanding,
            "liar": python(tmp_path, "liar", after=own),
            "noisy": python(tmp_path, "noisy", "Welcome to DGX OS\n"),
        }
    )
    assert ran.decisions() == {"a_honest": "trial failed", "liar": "untested", "noisy": "untested"}
    assert {name: ran.recap(name)["failed"] for name in ran.decisions()} == {"a_honest": 1, "liar": 1, "noisy": 1}
    assert ran.status == 2
    [honest] = [one for one in ran.report["hosts"] if one["host"] == "a_honest"]
    assert "gemm.tflops" in honest["reason"] and "620" in honest["reason"]
    assert "stopped: noisy: noisy: look: not strict JSON" in ran.output and "it printed 'Welcome to DGX OS" in flat(ran)
    assert "stopped: liar: liar: look: not strict JSON" in ran.output
    assert "Traceback" not in ran.output


@pytest.mark.parametrize(
    ("variables", "said"),
    [
        ({"gpuburn_rack": "{{ nope }}"}, "gpuburn_rack uses a variable that is not defined: 'nope' is undefined"),
        (
            {"gpuburn_limits": {"gemm.tflops": {"unit": "TFLOP/s", "min": "{{ nope }}", "because": "x"}}},
            "gpuburn_limits uses a variable that is not defined: 'nope' is undefined",
        ),
        ({"ansible_host": "{{ nope }}"}, "ansible_host uses a variable that is not defined: 'nope' is undefined"),
        ({"gpuburn_rack": "{{ lookup('file', '/nonexistent') }}"}, "gpuburn_rack cannot be resolved: The lookup"),
        ({"gpuburn_delivery": "{{ foo( }}"}, "gpuburn_delivery cannot be resolved: Syntax error"),
        ({"gpuburn_stopped": False}, "unknown 'gpuburn_stopped'"),
        ({"gpuburn_grace": -1}, "gpuburn_grace is -1.0; wanted is 0 to 604800"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("arguments", [(), ("--check",)], ids=["run", "check"])
def test_what_is_wrong_with_one_host_is_one_line_and_nothing_runs_on_any(accept, tmp_path, variables, said, arguments):
    """The bad one is the first host of the play: the controller's tasks are its tasks."""
    ran = accept({"a_bad": variables, "good": {}}, *arguments)
    assert ran.status == 2
    [line] = [one for one in ran.output.splitlines() if said in one]
    assert f"{tmp_path}/hosts.yml: host a_bad: " in line
    assert "fatal:" not in ran.output and "Origin:" not in ran.output
    assert "check: no host would run; see above" in ran.output or not arguments
    assert not ran.reports.exists() and not (tmp_path / "runs").exists()


def test_coming_back_with_fewer_hosts_or_another_limit_is_refused_by_name(accept):
    first = accept({"good": {}, "dead": UNREACHABLE})
    back = ("-e", f"gpuburn_run={first.run}")
    fewer = accept({"good": {}}, *back)
    assert fewer.status == 2
    assert f"run {first.run} also expects dead" in flat(fewer)
    limited = accept(
        {
            "good": {"gpuburn_limits": {"checkpoint.wrong": {"unit": "count", "max": 9, "because": "x"}}},
            "dead": UNREACHABLE,
        },
        *back,
    )
    assert "host good: gpuburn_limits: checkpoint.wrong in step checkpoint was" in flat(limited)
    assert "a changed inventory is a new run" in flat(limited)
    assert limited.decisions() == {"good": "trial passed", "dead": "untested"}, "what was collected stands"


def test_a_detached_start_tells_of_every_host_that_could_not_be_started(accept):
    """YAML's other words for false are taken, too."""
    ran = accept({"good": {}, "dead": UNREACHABLE}, "-e", "gpuburn_wait=off")
    assert ran.status == 2
    assert (ran.recap("good")["failed"], ran.recap("dead")["failed"]) == (0, 1)
    assert "not started: stopped at preflight" in ran.output
    assert f"-e gpuburn_run={ran.run}" in ran.output


def test_from_another_folder_the_prepared_sentence_is_said(tmp_path):
    inventory = tmp_path / "hosts.yml"
    inventory.write_text("all: {hosts: {host: {ansible_connection: local}}}\n")
    done = subprocess.run(
        [PLAYBOOK, ROOT / "accept.yml", "-i", inventory], cwd=tmp_path, capture_output=True, text=True, timeout=120,
        env={name: value for name, value in os.environ.items() if not name.startswith("ANSIBLE_")},
    )  # fmt: skip
    assert done.returncode == 2
    assert "no run id: run from the root of the repository" in done.stdout + done.stderr


def test_a_host_whose_result_is_here_is_never_started_again(accept, tmp_path):
    """Its run folder is gone when the controller comes back, and later another result lies there."""
    first = accept({"good": {}})
    assert first.decisions() == {"good": "trial passed"}
    [folder] = (tmp_path / "runs" / "good").iterdir()
    incoming = first.reports / first.run / "incoming"
    sealed = (incoming / "good.tar.gz").read_bytes()
    shutil.rmtree(folder)
    again = accept({"good": {}}, "-e", f"gpuburn_run={first.run}")
    assert (again.status, again.recap("good")["changed"]) == (0, 0), again.output[-3000:]
    assert not folder.exists(), "nothing was made or started there"
    folder.mkdir()
    (folder / "sealed.tar.gz").write_bytes(b"another")
    other = accept({"good": {}}, "-e", f"gpuburn_run={first.run}")
    assert other.decisions() == {"good": "trial passed"}
    assert (incoming / "good.tar.gz").read_bytes() == sealed
    assert (incoming / "good~2.tar.gz").read_bytes() == b"another"
    assert any("another result came: good~2.tar.gz" in one for one in other.report["hosts"][0]["trouble"])


def test_a_host_that_nobody_watched_is_not_said_to_have_gone_away(accept):
    """Started and left; when somebody comes back after its deadline it cannot be reached."""
    short = {"gpuburn_grace": 0, "gpuburn_steps": ["idle"]}
    started = accept({"good": short}, "-e", "gpuburn_wait=no")
    assert started.status == 0, started.output[-3000:]
    plan = json.loads((started.reports / started.run / "hosts" / "good" / "plan.json").read_text())
    time.sleep(max(0.0, plan["deadline"] - time.time()) + 1)
    back = accept({"good": {**UNREACHABLE, **short}}, "-e", f"gpuburn_run={started.run}")
    assert back.status == 2
    assert back.decisions() == {"good": "undecided"}
    assert "nobody watched it until its deadline" in back.report["hosts"][0]["reason"]
