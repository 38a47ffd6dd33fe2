"""The look at a host, run as preflight runs it: what it says of the storage that the site names."""

from __future__ import annotations

import json
import os
import pwd
import subprocess
import sys
from pathlib import Path

import pytest

from gpuburn.controller import look

SCRIPT = Path(__file__).parents[2] / "roles" / "preflight" / "files" / "look.py"


def looked(state: Path, *more: str) -> look.Look:
    done = subprocess.run(
        [sys.executable, "-", str(state), *more], input=SCRIPT.read_text(), capture_output=True, text=True, check=True
    )
    assert json.loads(done.stdout)["storage"] == look.read(done.stdout).storage
    return look.read(done.stdout)


def test_without_a_path_there_is_nothing_to_say(tmp_path: Path) -> None:
    assert looked(tmp_path).storage == looked(tmp_path, "", "gpuburn").storage == ""


def test_a_folder_that_may_be_written_to_is_well_and_stays_as_it_is(tmp_path: Path) -> None:
    me = pwd.getpwuid(os.geteuid()).pw_name
    assert looked(tmp_path, str(tmp_path), me).storage == ""
    assert list(tmp_path.iterdir()) == []


def test_what_is_missing_or_no_folder_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert looked(tmp_path, str(tmp_path / "gone"), "").storage == "No such file or directory"
    assert looked(tmp_path, str(tmp_path / "file"), "").storage == "it is no folder"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can ask as another account")
@pytest.mark.parametrize(("worker", "mode", "says"), [
    ("nobody", 0o755, "nobody may not write to it"),
    ("nobody", 0o777, ""),
    ("nobody", 0o776, "nobody may not write to it"),
    ("not-yet-made", 0o755, "not-yet-made may not write to it"),
    ("not-yet-made", 0o777, ""),
])  # fmt: skip
def test_it_is_asked_as_the_workers_account(worker: str, mode: int, says: str) -> None:
    from tempfile import TemporaryDirectory

    with TemporaryDirectory(dir="/tmp") as folder:  # pytest's own is closed to others
        os.chmod(folder, mode)
        assert looked(Path(folder), folder, worker).storage == says
        os.chmod(folder, 0o700)


def test_a_file_system_that_does_not_answer_is_said_in_time(tmp_path: Path) -> None:
    """Whoever reads what is printed is not held by it either."""
    hanging = f"    who = os.geteuid()\n    os.open({str(tmp_path / 'pipe')!r}, os.O_RDONLY)\n"
    script = SCRIPT.read_text().replace("ANSWER = 20", "ANSWER = 0").replace("    who = os.geteuid()\n", hanging)
    os.mkfifo(tmp_path / "pipe")
    done = subprocess.run(
        [sys.executable, "-", str(tmp_path), "/x"], input=script, stdout=subprocess.PIPE, text=True, check=True,
        stderr=subprocess.DEVNULL, start_new_session=True, timeout=60,
    )  # fmt: skip
    assert json.loads(done.stdout)["storage"] == "it does not answer within 0 s"
    os.close(os.open(tmp_path / "pipe", os.O_WRONLY))  # lets the process go that hung
