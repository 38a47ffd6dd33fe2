"""state.json: replaced as a whole, and nothing else is taken for it."""

from __future__ import annotations

import dataclasses
import os

import pytest

from gpuburn.agent import state
from gpuburn.agent.state import State
from gpuburn.strict import Refused

HERE = State("run-1", 4711, "running", "gemm", 2, 5, attempts={"gemm": 1}, boot="b", kernel_log=99)


def test_what_was_saved_is_loaded(tmp_path):
    assert state.load(tmp_path) is None
    state.save(tmp_path, HERE)
    assert state.load(tmp_path) == HERE
    assert [path.name for path in tmp_path.iterdir()] == ["state.json"]


@pytest.mark.parametrize("broken", ["write", "fsync", "replace"])
def test_a_reader_never_sees_half_of_it(tmp_path, monkeypatch, broken):
    """Power lost at any moment of the write leaves the old state whole, and the next write goes through."""
    state.save(tmp_path, HERE)

    def lost(*given: object, **named: object) -> None:
        raise InterruptedError("the power went")

    with monkeypatch.context() as patched:
        patched.setattr(
            *{"write": (os, "fdopen"), "fsync": (os, "fsync"), "replace": (type(tmp_path), "replace")}[broken], lost
        )
        with pytest.raises(InterruptedError):
            state.save(tmp_path, dataclasses.replace(HERE, number=3))
    assert state.load(tmp_path) == HERE
    state.save(tmp_path, dataclasses.replace(HERE, number=4))
    assert state.load(tmp_path).number == 4


@pytest.mark.parametrize(
    "garbage",
    [b"", b"{", b"[]", b"null", b"\0\0\0\0", b'{"run": "r"}', b'{"run": "", "pid": 1}', b'{"run": "r", "pid": "1"}',
     b'{"run": "r", "pid": 1, "odd": 1}', b'{"run": "r", "pid": 1, "updated": NaN}'],
)  # fmt: skip
def test_garbage_is_refused_in_one_sentence(tmp_path, garbage):
    (tmp_path / "state.json").write_bytes(garbage)
    with pytest.raises(Refused, match=r"state\.json") as refused:
        state.load(tmp_path)
    assert "\n" not in str(refused.value)


def test_a_link_is_neither_read_nor_written_through(tmp_path):
    other = tmp_path / "other"
    other.write_text("mine")
    (tmp_path / "state.json").symlink_to(other)
    with pytest.raises(Refused, match="not a regular file"):
        state.load(tmp_path)
    (tmp_path / ".state.json.tmp").symlink_to(other)
    state.save(tmp_path, HERE)
    assert other.read_text() == "mine" and state.load(tmp_path) == HERE


def test_an_older_state_without_boot_and_kernel_log_is_read(tmp_path):
    (tmp_path / "state.json").write_text('{"run": "r", "pid": 1}')
    assert (state.load(tmp_path).boot, state.load(tmp_path).kernel_log) == ("", -2)
