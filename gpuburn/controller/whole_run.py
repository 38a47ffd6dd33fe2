"""What holds for a whole run and is a file on the controller: policy, waivers, manifest. The run keeps a copy.

Read and checked before anything runs. Coming back with a file that says something else is refused.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from gpuburn import policy as policies, strict, waiver
from gpuburn.controller.manifest import file as manifests
from gpuburn.controller.run import MANIFEST, POLICY, WAIVERS, Run
from gpuburn.controller.site import Site
from gpuburn.manifest import Manifest
from gpuburn.policy import Policy
from gpuburn.strict import Refused
from gpuburn.waiver import Waiver


@dataclass(frozen=True, slots=True)
class Given:
    """What the inventory names. The files are "" where it names none: the package's policy, no waiver, no manifest."""

    policy: Policy
    waivers: list[Waiver]
    policy_file: str = ""
    waivers_file: str = ""
    manifest: Manifest | None = None
    manifest_file: str = ""

    def digests(self) -> dict[str, str]:
        """What the journal tells of them; that there is no waiver, too. Of a manifest "" where there is none."""
        listed = self.manifest.digest if self.manifest else ""
        return {"policy": self.policy.digest, "waivers": waiver.digest(self.waivers), "manifest": listed}


def given(sites: Iterable[tuple[str, Site]], source: str) -> Given:
    """The files that (host, site) name, read strictly; two hosts of one run name the same."""
    first: tuple[str, Site] | None = None
    for name, site in sites:
        first = first or (name, site)
        for key in ("policy", "waivers", "manifest"):
            was, says = getattr(first[1], key), getattr(site, key)
            if was != says:
                raise Refused(
                    f"{source}: gpuburn_{key} is {was!r} for host {first[0]} and {says!r} for host {name}; "
                    "it is for the whole run: set it for all, or with -e"
                )
    named, waived, listed = (first[1].policy, first[1].waivers, first[1].manifest) if first else ("", "", "")
    manifest = manifests.load(_file("manifest", listed)) if listed else None
    return Given(
        policies.read(_file("policy", named)) if named else policies.load(),
        waiver.load(_file("waivers", waived)) if waived else [],
        named,
        waived,
        manifest,
        listed,
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
        kept = run.folder / MANIFEST
        was = manifests.load(kept).digest if kept.exists() else ""
        _same("manifest", was, now.manifest.digest if now.manifest else "", run.id)
        return
    run.folder.mkdir(parents=True, exist_ok=True)
    (run.folder / POLICY).write_bytes(strict.load_file(Path(now.policy_file or policies.FILE).resolve()))
    if now.waivers_file:
        (run.folder / WAIVERS).write_bytes(strict.load_file(Path(now.waivers_file).resolve()))
    if now.manifest_file:
        source, kept = Path(now.manifest_file), run.folder / MANIFEST
        kept.write_bytes(strict.load_file(source.resolve(), manifests.LIMIT))
        if manifests.beside(source).exists():
            manifests.beside(kept).write_bytes(strict.load_file(manifests.beside(source).resolve()))


def _same(key: str, was: str, now: str, run: str) -> None:
    if was != now:
        raise Refused(
            f"gpuburn_{key}: SHA-256 was {was[:12] or 'none'} when run {run} began, is {now[:12] or 'none'}; "
            f"a changed {'set of waivers' if key == 'waivers' else key} is a new run"
        )
