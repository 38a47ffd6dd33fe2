"""Hosts may have Python 3.10: the words and the supervisor run there. Needs such a Python on this machine."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[1]
MODULES = ("planning", "run_folder", "result", *(f"agent.{one}" for one in ("run", "telemetry", "status", "worker")))


def interpreter() -> str:
    found = [shutil.which("python3.10") or "", *map(str, Path.home().glob(".pyenv/versions/3.10.*/bin/python"))]
    for one in filter(None, found):
        if subprocess.run([one, "-c", ""], capture_output=True).returncode == 0:
            return one
    pytest.skip("no Python 3.10 on this machine")


def test_words_and_supervisor_are_imported_and_plan_on_python_3_10():
    code = f"""
import importlib, sys
assert sys.version_info[:2] == (3, 10), sys.version
for name in {MODULES!r}:
    importlib.import_module("gpuburn." + name)
from gpuburn import plan, planning, strict
asked = planning.Request("r", "h", "rehearsal", "smoke", ("training", "inference"), count=3)
made = planning.make(asked, "00", 0.0)
assert plan.decode(strict.encode(made)) == made
"""
    paths = f"{ROOT}:{Path(yaml.__file__).parents[1]}"  # PyYAML works without its compiled part
    done = subprocess.run(
        [interpreter(), "-c", code], env={"PYTHONPATH": paths}, cwd=ROOT, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
