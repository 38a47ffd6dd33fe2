"""One look at the kernel's files: values, and the reason of every value that is not there.

Nothing is run and nothing is loaded. Files are read below a root, bounded; what they hold becomes one clean line.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from pathlib import Path

from gpuburn.identity import is_junk

LENGTH = 200
READ = 256 * 1024  # bytes of one file: /proc/cpuinfo of a 384-thread host is larger, its first processor is not
CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]")


@dataclass(slots=True)
class Look:
    """Values and gaps as they are found. Only read, number and said write values into it."""

    root: Path
    sources: dict[str, dict[str, str]] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)

    def read(self, source: str, key: str, path: str, filler: bool = True) -> None:
        """A file's value, or why there is none. filler: whether a row of noughts and the like is a vendor's filler."""
        try:
            self.said(source, key, self.text(path), filler=filler)
        except OSError as error:
            self.missing[f"{source}.{key}"] = why(error, path)

    def said(self, source: str, key: str, value: str, gap: str = "empty", filler: bool = True) -> None:
        """A value; filler and nothing are absent, and named. gap: why, where the value is empty."""
        value = clean(value)
        if not value:
            self.missing[f"{source}.{key}"] = gap
        elif filler and is_junk(value):
            self.missing[f"{source}.{key}"] = f"filler: {value}"
        else:
            self.sources.setdefault(source, {})[key] = value

    def text(self, path: str) -> str:
        return self.raw(path).decode("utf-8", "replace")

    def raw(self, path: str, limit: int = READ) -> bytes:
        """The first bytes of a file. Raises OSError."""
        with (self.root / path.lstrip("/")).open("rb") as file:
            return file.read(limit)

    def word(self, path: str) -> str:
        """A file's clean text, or "" where it cannot be read: for choices, never for values that are kept."""
        try:
            return clean(self.text(path))
        except OSError:
            return ""

    def names(self, path: str) -> list[str]:
        """The entries of a folder, sorted; one that cannot be listed, or whose name is not one clean line, is named."""
        about = path.strip("/").replace("/", ".")
        try:
            found = sorted(os.listdir(self.root / path.lstrip("/")))
        except OSError as error:
            self.missing[about] = why(error, path)
            return []
        odd = [name for name in found if clean(name) != name]
        self.missing |= {f"{about}.{clean(name)}": "its name has characters that no name has" for name in odd}
        return [name for name in found if name not in odd]

    def within(self, path: str) -> list[str]:
        """The entries of a folder that need not be there, sorted."""
        try:
            return sorted(name for name in os.listdir(self.root / path.lstrip("/")) if clean(name) == name)
        except OSError:
            return []

    def target(self, path: str) -> str:
        """The last part of where a link points, or ""."""
        try:
            return Path(os.readlink(self.root / path.lstrip("/"))).name
        except OSError:
            return ""

    def place(self, path: str) -> Path | None:
        """Where a link leads in the end; None where that is nowhere."""
        try:
            return (self.root / path.lstrip("/")).resolve(strict=True)
        except (OSError, RuntimeError):
            return None


def clean(value: str) -> str:
    """One line without control characters, of bounded length."""
    return CONTROL.sub(" ", value).strip()[:LENGTH].strip()


def why(error: OSError, path: str) -> str:
    return clean(f"{error.strerror or type(error).__name__}: {path}")
