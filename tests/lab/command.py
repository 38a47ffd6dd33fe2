"""Running a command of this machine so that a failure says what the command said; it knows nothing of hosts."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping


class CommandFailed(subprocess.CalledProcessError):
    """A CalledProcessError whose sentence carries the end of what the command printed."""

    def __str__(self) -> str:
        said = "\n".join(part.strip() for part in (self.stdout, self.stderr) if part)
        return f"{super().__str__()}\n{said[-4000:]}"


def run(
    *argv: str, check: bool = True, timeout: float = 60, env: Mapping[str, str] | None = None, text: str | None = None
) -> subprocess.CompletedProcess[str]:
    """Run to the end or to the timeout, with `text` as standard input (nothing when None)."""
    done = subprocess.run(
        argv,
        input=text if text is not None else "",
        capture_output=True,
        text=True,
        errors="replace",
        timeout=timeout,
        env=None if env is None else dict(env),
        check=False,
        umask=0o022,  # a tree made under a private umask would lock out the hosts' ordinary users
    )
    if check and done.returncode != 0:
        raise CommandFailed(done.returncode, list(argv), done.stdout, done.stderr)
    return done
