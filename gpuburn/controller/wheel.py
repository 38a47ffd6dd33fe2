"""The agent's wheel, built from this tree and kept by what the tree holds: the same tree is built once."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from gpuburn import __version__, strict
from gpuburn.strict import Refused

ROOT = Path(__file__).parents[2]
EPOCH = "1767225600"  # 2026-01-01: file times inside the wheel, so that one tree gives one digest
ALONG = ("pyproject.toml", "README.md", "LICENSE")
PARTS = ("*.py", "*.yml", "*.json", "*.j2")


def tree(root: Path = ROOT) -> str:
    """The digest of everything that goes into the wheel."""
    names = sorted(path for part in PARTS for path in (root / "gpuburn").rglob(part))
    digests = [f"{path.relative_to(root)} {strict.digest(path.read_bytes())}" for path in names]
    texts = [(root / name).read_text() for name in ALONG]
    return strict.digest("\n".join([*digests, *texts]).encode())


def build(cache: Path, root: Path = ROOT) -> dict[str, object]:
    """{"path", "sha256" of the tree, "built"}. Raises Refused with the end of pip's words if it cannot be built."""
    wanted = tree(root)
    folder = (cache / f"wheel-{wanted[:16]}").resolve()
    wheel = folder / f"gpuburn-{__version__}-py3-none-any.whl"
    if wheel.exists():
        return {"path": str(wheel), "sha256": wanted, "built": False}
    with tempfile.TemporaryDirectory(prefix="gpuburn-wheel-") as scratch:
        _copy(root, Path(scratch))  # a build in the tree itself would take along what an earlier one left there
        pip = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "-w", str(folder)]
        done = subprocess.run(
            [*pip, scratch], capture_output=True, text=True, timeout=300, env={**os.environ, "SOURCE_DATE_EPOCH": EPOCH}
        )
    if done.returncode or not wheel.exists():
        raise Refused(f"the agent's wheel could not be built: {done.stderr[-500:].strip()}")
    return {"path": str(wheel), "sha256": wanted, "built": True}


def _copy(root: Path, to: Path) -> None:
    shutil.copytree(root / "gpuburn", to / "gpuburn", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ALONG:
        shutil.copy(root / name, to / name)


def told(cache: Path) -> str:
    return json.dumps(build(cache))
