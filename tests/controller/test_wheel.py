"""The agent's wheel is kept by what the tree holds: any change gives another one, no change none."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuburn import __version__
from gpuburn.controller import wheel
from gpuburn.strict import Refused


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "gpuburn" / "skus").mkdir(parents=True)
    (tmp_path / "gpuburn" / "a.py").write_text("a = 1\n")
    (tmp_path / "gpuburn" / "skus" / "b.yml").write_text("b: 1\n")
    for name in ("pyproject.toml", "README.md", "README.zh.md", "LICENSE"):
        (tmp_path / name).write_text("[project]\n")
    return tmp_path


@pytest.mark.parametrize(
    "name", ["gpuburn/a.py", "gpuburn/skus/b.yml", "pyproject.toml", "gpuburn/new.json", "gpuburn/new.j2"]
)
def test_any_change_to_what_goes_in_is_another_tree(root: Path, name: str) -> None:
    before = wheel.tree(root)
    assert wheel.tree(root) == before
    (root / name).write_text("changed\n")
    assert wheel.tree(root) != before


def test_a_file_under_another_name_is_another_tree(root: Path) -> None:
    before = wheel.tree(root)
    (root / "gpuburn" / "a.py").rename(root / "gpuburn" / "c.py")
    assert wheel.tree(root) != before


def test_what_does_not_go_in_changes_nothing(root: Path) -> None:
    before = wheel.tree(root)
    (root / "README.zh.md").write_text("more")
    (root / "gpuburn" / "__pycache__").mkdir()
    (root / "gpuburn" / "__pycache__" / "a.pyc").write_bytes(b"\0")
    assert wheel.tree(root) == before


def test_a_wheel_of_this_tree_is_not_built_again(root: Path, tmp_path: Path) -> None:
    kept = tmp_path / "cache" / f"wheel-{wheel.tree(root)[:16]}" / f"gpuburn-{__version__}-py3-none-any.whl"
    kept.parent.mkdir(parents=True)
    kept.write_bytes(b"")
    assert wheel.build(tmp_path / "cache", root) == {"path": str(kept), "sha256": wheel.tree(root), "built": False}


def test_a_tree_that_does_not_build_is_refused_with_the_reason(root: Path, tmp_path: Path) -> None:
    (root / "pyproject.toml").write_text("not toml [")
    with pytest.raises(Refused, match="the agent's wheel could not be built"):
        wheel.build(tmp_path / "cache", root)
