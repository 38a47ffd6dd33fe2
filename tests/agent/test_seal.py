"""The one file that is taken home: bounded, under safe names, the same bytes for the same evidence."""

from __future__ import annotations

import os
import tarfile

import pytest

from gpuburn.agent import seal as module
from gpuburn.agent.seal import seal
from gpuburn.strict import Refused


@pytest.fixture
def folder(tmp_path):
    for name in ("plan.json", "result.json", "steps/gemm/readings.gpu0.jsonl", "state.json", "lock", "agent.log",
                 "steps/gemm/scratch/checkpoint"):  # fmt: skip
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    return tmp_path


def test_evidence_and_result_are_sealed_and_nothing_else(folder):
    with tarfile.open(seal(folder)) as archive:
        members = archive.getmembers()
        assert [one.name for one in members] == ["plan.json", "result.json", "steps/gemm/readings.gpu0.jsonl"]
        assert all(one.isreg() and (one.uid, one.gid, one.mtime, one.mode) == (0, 0, 0, 0o644) for one in members)
        assert archive.extractfile("plan.json").read() == b"plan.json"


def test_the_same_evidence_is_the_same_bytes_and_anyone_may_read_them(folder):
    before = os.umask(0o077)
    try:
        first = seal(folder).read_bytes()
    finally:
        os.umask(before)
    assert (folder / "sealed.tar.gz").stat().st_mode & 0o777 == 0o644
    os.utime(folder / "plan.json", (1, 1))
    (folder / "plan.json").chmod(0o600)
    assert seal(folder).read_bytes() == first, "an old seal is not sealed in"
    assert not (folder / ".sealed.tmp").exists()


def test_a_run_without_a_result_is_sealed_too(folder):
    (folder / "result.json").unlink()
    with tarfile.open(seal(folder)) as archive:
        assert "result.json" not in archive.getnames()


@pytest.mark.parametrize("name", ["a b", "-rf", ".hidden", "naïve", "new\nline"])
def test_an_odd_name_is_refused_and_leaves_no_seal(folder, name):
    (folder / "steps" / name).write_text("x")
    with pytest.raises(Refused, match="a name of evidence"):
        seal(folder)
    assert not (folder / "sealed.tar.gz").exists()


def test_a_link_is_refused(folder):
    (folder / "steps" / "link").symlink_to("/etc/passwd")
    with pytest.raises(Refused, match="a link is no evidence"):
        seal(folder)


def test_what_the_controller_would_refuse_is_not_sealed(folder, monkeypatch):
    size = sum(len(name) for name in ("plan.json", "result.json", "steps/gemm/readings.gpu0.jsonl"))
    monkeypatch.setattr(module, "LIMIT", size)
    seal(folder)
    monkeypatch.setattr(module, "LIMIT", size - 1)
    with pytest.raises(Refused, match=f"{size} bytes of evidence, at most {size - 1}"):
        seal(folder)
