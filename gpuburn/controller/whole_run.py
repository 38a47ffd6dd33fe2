"""What holds for a whole run and is a file on the controller: its policy and its waivers. The run keeps a copy.

Read and checked before anything runs. Coming back with a file that says something else is refused.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from gpuburn import policy as policies, strict, waiver
from gpuburn.controller.run import POLICY, WAIVERS, Run
from gpuburn.controller.site import Site
from gpuburn.policy import Policy
from gpuburn.strict import Refused
from gpuburn.waiver import Waiver


@dataclass(frozen=True, slots=True)
class Given:
    """What the inventory names. The files are "" where it names none: the package's policy, no waiver."""

    policy: Policy
    waivers: list[Waiver]
    policy_file: str = ""
    waivers_file: str = ""

    def digests(self) -> dict[str, str]:
        """What the journal tells of them; that there is no waiver, too."""
        return {"policy": self.policy.digest, "waivers": waiver.digest(self.waivers)}


def given(sites: Iterable[tuple[str, Site]], source: str) -> Given:
    """The files that (host, site) name, read strictly; two hosts of one run name the same."""
    first: tuple[str, Site] | None = None
    for name, site in sites:
        first = first or (name, site)
        for key in ("policy", "waivers"):
            was, says = getattr(first[1], key), getattr(site, key)
            if was != says:
                raise Refused(
                    f"{source}: gpuburn_{key} is {was!r} for host {first[0]} and {says!r} for host {name}; "
                    "it is for the whole run: set it for all, or with -e"
                )
    named, waived = (first[1].policy, first[1].waivers) if first else ("", "")
    return Given(
        policies.read(_file("policy", named)) if named else policies.load(),
        waiver.load(_file("waivers", waived)) if waived else [],
        named,
        waived,
    )


def policy(named: str) -> Policy:
    """The policy of gpuburn_policy; the package's own where that is empty."""
    return policies.load(_file("policy", named)) if named else policies.load()


def _file(key: str, path: str) -> Path:
    if not Path(path).is_file():
        raise Refused(f"gpuburn_{key}: {path}: no such file on the controller; wanted is its path from the repository")
    return Path(path)


def keep(run: Run, now: Given) -> None:
    """Copy the files into the run's folder where it begins; refuse others where it went on already."""
    if (run.folder / "expected.json").exists():
        _same("policy", run.policy().digest, now.policy.digest, run.id)
        _same("waivers", waiver.digest(run.waivers()), waiver.digest(now.waivers), run.id)
        return
    run.folder.mkdir(parents=True, exist_ok=True)
    (run.folder / POLICY).write_bytes(strict.load_file(Path(now.policy_file or policies.FILE).resolve()))
    if now.waivers_file:
        (run.folder / WAIVERS).write_bytes(strict.load_file(Path(now.waivers_file).resolve()))


def _same(key: str, was: str, now: str, run: str) -> None:
    if was != now:
        raise Refused(
            f"gpuburn_{key}: SHA-256 was {was[:12]} when run {run} began, is {now[:12]}; "
            f"a changed {'policy' if key == 'policy' else 'set of waivers'} is a new run"
        )
