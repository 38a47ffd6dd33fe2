"""All evidence of a run in one file that the ssh user can read: sealed.tar.gz, regular files under safe names."""

from __future__ import annotations

import gzip
import tarfile
from pathlib import Path

from gpuburn import result as results, strict
from gpuburn.strict import Refused

LIMIT = 512 * strict.MEBIBYTE  # unpacked; the controller refuses more


def seal(folder: Path) -> Path:
    """Write sealed.tar.gz beside the evidence, as a whole. Raises Refused above the limit."""
    names = sorted([*results.evidence(folder), *(["result.json"] if (folder / "result.json").exists() else [])])
    total = sum((folder / name).stat().st_size for name in names)
    if total > LIMIT:
        raise Refused(f"{folder}: {total} bytes of evidence, at most {LIMIT} are sealed")
    temporary = folder / ".sealed.tmp"
    with (
        temporary.open("wb") as raw,
        gzip.GzipFile(fileobj=raw, mode="wb", mtime=0, filename="") as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.USTAR_FORMAT) as archive,
    ):
        for name in names:
            member = tarfile.TarInfo(name)
            member.size = (folder / name).stat().st_size
            member.mode = 0o644
            with (folder / name).open("rb") as file:
                archive.addfile(member, file)
    temporary.chmod(0o644)
    temporary.replace(folder / "sealed.tar.gz")
    return folder / "sealed.tar.gz"
