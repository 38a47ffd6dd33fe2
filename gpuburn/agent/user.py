"""Who the workers and the sampler of a step are: an account of their own where the supervisor is root."""

from __future__ import annotations

import os
import pwd
from dataclasses import dataclass
from pathlib import Path

from gpuburn.strict import Refused


@dataclass(frozen=True, slots=True)
class Account:
    """Who the workers are: None is the supervisor's own user."""

    uid: int | None = None
    gid: int = 0
    home: str = "/"

    @classmethod
    def named(cls, name: str) -> Account:
        """The account of that name; "" is no change. Raises Refused for an unknown one."""
        if not name or os.geteuid() != 0:
            return cls()
        try:
            entry = pwd.getpwnam(name)
        except KeyError:
            raise Refused(f"plan.json: worker {name!r} is no account of this host") from None
        return cls(entry.pw_uid, entry.pw_gid, entry.pw_dir)

    def assume(self) -> None:
        """Become this user for good (in a child, before exec)."""
        if self.uid is not None:
            os.setgroups([])
            os.setgid(self.gid)
            os.setuid(self.uid)

    def give(self, path: Path) -> None:
        if self.uid is not None:
            os.lchown(path, self.uid, self.gid)
