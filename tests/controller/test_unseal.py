"""Sealed files from hosts that lie: everything but plain evidence is refused, and nothing is left behind or outside."""

from __future__ import annotations

import gzip
import io
import struct
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest
import runs

from gpuburn.agent import seal as seals
from gpuburn.controller import unseal as unseals
from gpuburn.controller.unseal import unseal
from gpuburn.plan import Plan
from gpuburn.strict import Refused


def archive(tmp_path: Path, *members: tarfile.TarInfo, form: int = tarfile.USTAR_FORMAT) -> Path:
    path = tmp_path / "node1.tar.gz"
    with tarfile.open(path, "w:gz", format=form) as tar:
        for one in members:
            tar.addfile(one, io.BytesIO(b"x" * one.size) if one.isreg() else None)
    return path


def member(name: str, kind: bytes = tarfile.REGTYPE, size: int = 1, link: str = "") -> tarfile.TarInfo:
    one = tarfile.TarInfo(name)
    one.type, one.size, one.linkname = kind, size if kind == tarfile.REGTYPE else 0, link
    return one


def refused(path: Path, tmp_path: Path, says: str) -> None:
    """It is refused, and the only thing on the disk is still the archive."""
    before = {one for one in tmp_path.rglob("*")}
    with pytest.raises(Refused, match=says):
        unseal(path, tmp_path / "run")
    assert {one for one in tmp_path.rglob("*")} == before


def test_what_the_agent_seals_comes_out_as_it_was(tmp_path: Path, rehearsal: Plan) -> None:
    runs.write(tmp_path / "host", rehearsal)
    unseal(tmp_path / "host" / "sealed.tar.gz", tmp_path / "home" / "run")
    sealed = {p.relative_to(tmp_path / "host"): p.read_bytes() for p in (tmp_path / "host").rglob("*") if p.is_file()}
    del sealed[Path("sealed.tar.gz")]
    home = tmp_path / "home" / "run"
    assert {p.relative_to(home): p.read_bytes() for p in home.rglob("*") if p.is_file()} == sealed


def test_the_agent_seals_no_more_than_the_controller_takes() -> None:
    assert seals.LIMIT <= unseals.UNPACKED


EVIL_NAMES = [
    "../evil", "a/../../evil", "/tmp/evil", "steps/../../evil", "./a", ".hidden", "a b", "a\nb", "a\\b", "-rf", "a//b",
    "x" * 101, "a/" * 9 + "a", "é",
]  # fmt: skip


@pytest.mark.parametrize("name", EVIL_NAMES)
def test_a_name_that_is_not_a_safe_one_is_refused(tmp_path: Path, name: str) -> None:
    refused(archive(tmp_path, member("fine"), member(name), form=tarfile.GNU_FORMAT), tmp_path, "safe name")


@pytest.mark.parametrize(
    "one",
    [
        member("a", tarfile.SYMTYPE, link="/etc/passwd"),
        member("a", tarfile.SYMTYPE, link="fine"),
        member("a", tarfile.LNKTYPE, link="fine"),
        member("a", tarfile.LNKTYPE, link="/etc/passwd"),
        member("a", tarfile.CHRTYPE),
        member("a", tarfile.BLKTYPE),
        member("a", tarfile.FIFOTYPE),
        member("a", tarfile.DIRTYPE),
    ],
    ids=[
        "symlink out",
        "symlink in",
        "hard link in",
        "hard link out",
        "character device",
        "block device",
        "fifo",
        "folder",
    ],
)
def test_only_regular_files_are_taken(tmp_path: Path, one: tarfile.TarInfo) -> None:
    refused(archive(tmp_path, member("fine"), one), tmp_path, "not a plain file")


def test_a_file_that_is_in_it_twice_is_refused(tmp_path: Path) -> None:
    refused(archive(tmp_path, member("a"), member("b"), member("a", size=2)), tmp_path, "a is in it twice")


@pytest.mark.parametrize("names", [("a", "a/b"), ("a/b", "a")])
def test_a_file_that_is_also_a_folder_is_refused(tmp_path: Path, names: tuple[str, str]) -> None:
    refused(archive(tmp_path, *(member(name) for name in names)), tmp_path, "node1.tar.gz")


def test_too_many_files_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unseals, "FILES", 3)
    four = archive(tmp_path, *(member(f"a{index}") for index in range(4)))
    refused(four, tmp_path, "more than 3 files")
    unseal(archive(tmp_path, *(member(f"a{index}") for index in range(3))), tmp_path / "run")
    assert len(list((tmp_path / "run").iterdir())) == 3


def test_too_many_bytes_are_refused_before_they_are_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unseals, "UNPACKED", 1000)
    refused(archive(tmp_path, member("a", size=600), member("b", size=401)), tmp_path, "or 1000 bytes")
    unseal(archive(tmp_path, member("a", size=600), member("b", size=400)), tmp_path / "run")


def test_a_file_that_is_too_large_to_begin_with_is_not_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = archive(tmp_path, member("a"))
    monkeypatch.setattr(unseals, "PACKED", path.stat().st_size - 1)
    refused(path, tmp_path, "at most")


def test_a_link_in_place_of_a_sealed_file_is_not_followed(tmp_path: Path) -> None:
    real = archive(tmp_path, member("a"))
    (tmp_path / "link.tar.gz").symlink_to(real)
    refused(tmp_path / "link.tar.gz", tmp_path, "a sealed file is a regular one")


def raw(tmp_path: Path, blocks: bytes) -> Path:
    path = tmp_path / "node1.tar.gz"
    path.write_bytes(gzip.compress(blocks + b"\0" * 1024))
    return path


def header(name: str, size: bytes, kind: bytes = b"0") -> bytes:
    """A tar header by hand, with a size field that tarfile itself would not write."""
    block = bytearray(512)
    block[0 : len(name)] = name.encode()
    block[100:108], block[124:136], block[136:148] = b"0000644\0", size.ljust(12, b"\0"), b"00000000000\0"
    block[156:157], block[257:265] = kind, b"ustar\x0000"
    block[148:156] = b" " * 8
    block[148:156] = b"%06o\0 " % sum(block)
    return bytes(block)


def test_a_header_that_claims_gigabytes_is_not_read_into_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An extended header is read as a whole by tarfile, before anyone sees a member of it."""
    monkeypatch.setattr(unseals, "UNPACKED", 100_000)
    monkeypatch.setattr(unseals, "FILES", 10)
    path = raw(tmp_path, header("a", b"%011o\0" % (40 << 20), kind=b"x") + b"\0" * (40 << 20))
    assert path.stat().st_size < 100_000
    refused(path, tmp_path, "more than 100000 bytes are packed in it")


@pytest.mark.parametrize("kind", [b"0", b"x", b"L"])
def test_a_negative_size_leads_nowhere(tmp_path: Path, kind: bytes) -> None:
    minus = b"\xff" * 4 + struct.pack(">q", -512)
    refused(raw(tmp_path, header("a", minus, kind) + header("b", b"00000000000\0")), tmp_path, "node1.tar.gz")


def test_a_size_beyond_the_end_is_refused(tmp_path: Path) -> None:
    refused(raw(tmp_path, header("a", b"%011o\0" % (1 << 20)) + b"short"), tmp_path, "node1.tar.gz")


GARBAGE: dict[str, Callable[[bytes], bytes]] = {
    "nothing": lambda data: b"",
    "noise": lambda data: b"\x93" * 2000,
    "a gzip header and noise": lambda data: data[:10] + b"\x93" * 2000,
    "half of it": lambda data: data[: len(data) // 2],
    "a flipped bit": lambda data: (
        data[: len(data) // 2] + bytes([data[len(data) // 2] ^ 255]) + data[len(data) // 2 + 1 :]
    ),
    "an empty gzip": lambda data: gzip.compress(b""),
    "a gzip of noise": lambda data: gzip.compress(b"\x93" * 2000),
    "a tar without gzip": gzip.decompress,
    "a page of an intercepting proxy": lambda data: b"<html>log in</html>",
}


@pytest.mark.parametrize("change", GARBAGE.values(), ids=GARBAGE)
def test_garbage_is_refused(tmp_path: Path, change: Callable[[bytes], bytes], rehearsal: Plan) -> None:
    runs.write(tmp_path / "host", rehearsal)
    path = tmp_path / "node1.tar.gz"
    path.write_bytes(change((tmp_path / "host" / "sealed.tar.gz").read_bytes()))
    refused(path, tmp_path, r"node1\.tar\.gz")


def test_a_refused_archive_leaves_what_was_unsealed_before(tmp_path: Path) -> None:
    unseal(archive(tmp_path, member("a")), tmp_path / "run")
    refused(archive(tmp_path, member("b"), member("../c")), tmp_path, "safe name")
    assert (tmp_path / "run" / "a").read_bytes() == b"x"
