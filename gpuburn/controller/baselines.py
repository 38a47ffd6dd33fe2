"""Baselines on the controller: reports/baselines/NAME.json, never overwritten; a run keeps those that judge it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache
from pathlib import Path

from gpuburn import baseline as words, strict
from gpuburn.baseline import FOLDER, Baseline, Entry, named
from gpuburn.controller.judged import Judged
from gpuburn.controller.reach import Way
from gpuburn.controller.run import Run
from gpuburn.controller.site import Site
from gpuburn.controller.waived import SERIALS
from gpuburn.finding import Finding, Verdict, finding
from gpuburn.measurement import NOWHERE
from gpuburn.plan import HOST
from gpuburn.strict import Refused, known

EVENT = "baseline"
CIRCULAR = "baseline.circular"
VERSIONS = ("driver", "torch")  # of the software that numbers depend on


def load(folder: Path, name: str) -> Baseline:
    """A baseline by name; an unknown one is refused with those that there are."""
    path = named(folder, name)
    if not path.exists():
        known(name, names(folder), f"{folder / FOLDER}: baseline")
    return _read(path, path.stat().st_mtime_ns)


@lru_cache(maxsize=8)
def _read(path: Path, changed: int) -> Baseline:
    """A file is read once for all hosts that name it."""
    return words.load(path)


def names(folder: Path) -> list[str]:
    return sorted(path.stem for path in (folder / FOLDER).glob("*.json"))


def chosen(run: Run, name: str) -> Baseline:
    """The baseline that judges a run: the one that it keeps, else the one among the reports."""
    return load(run.folder if named(run.folder, name).exists() else run.folder.parent, name)


def judging(run: Run, site: Site) -> Baseline | None:
    """The baseline that a host's site names; None where it names none. One of another SKU or kind is refused."""
    if not site.baseline:
        return None
    one = chosen(run, site.baseline)
    if other := one.fits(site.sku, site.kind, run.id):
        raise Refused(other)
    return one


def circular(run: Run, went: Iterable[Way], instead: Baseline | None = None) -> Iterator[tuple[str, Finding]]:
    """(host, finding) of every host with a device whose numbers are in the baseline that judges it, whatever its name.

    instead: another baseline than the hosts name.
    """
    for one in went:
        if one.judged and (instead or one.expected.baseline):
            subject, why = _itself(run, one.judged, one.expected.baseline, instead)
            if why:
                yield one.expected.host, finding(
                    CIRCULAR, "baseline", Verdict.INCOMPLETE, why, "fleet", tuple(one.judged.verdicts), step="",
                    subject=subject, point=NOWHERE,
                )  # fmt: skip


def _itself(run: Run, judged: Judged, name: str, instead: Baseline | None) -> tuple[str, str]:
    """The device that is judged by itself, and why that is known; or why nobody can tell."""
    try:
        baseline = instead or chosen(run, name)
    except Refused as error:
        return HOST, f"nothing tells whether the host is judged by itself: {error}"
    if judged.host in baseline.hosts:  # by that name it is not judged by it
        return HOST, ""
    mine = {part.value: part.subject for part in judged.parts if part.kind in SERIALS}
    shared = next((serial for serial in baseline.serials if serial in mine), "")
    if not shared:
        return HOST, ""
    return mine[shared], f"{shared} is among the devices that baseline {baseline.name} was made of"


def keep(run: Run, wanted: Iterable[str], now: float) -> None:
    """Copy the baselines that judge a run into its folder, and note their digests. A changed one is refused."""
    noted = {e.details.get("name", ""): e.details.get("sha256", "") for e in run.told() if e.event == EVENT}
    for name in sorted(set(wanted) - {""}):
        kept, source = named(run.folder, name), named(run.folder.parent, name)
        if name not in noted:
            kept.parent.mkdir(parents=True, exist_ok=True)
            kept.write_bytes(strict.load_file(source, words.LIMIT))
            run.note(now, EVENT, name=name, sha256=words.load(kept).digest)
            continue
        for path in (kept, source):
            if path.exists() and words.load(path).digest != noted[name]:
                raise Refused(f"{path}: is not the baseline that run {run.id} began with; another one is a new run")


def save(reports: Path, one: Baseline) -> Path:
    """Write a new baseline; one of that name is never overwritten."""
    path = named(reports, one.name)
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        with path.open("xb") as file:
            file.write(strict.encode(one))
    except FileExistsError:
        raise Refused(f"{path}: exists already, and a baseline is never overwritten; choose another name") from None
    return path


def shown(one: Baseline) -> str:
    """A baseline for a person."""
    head = [
        f"baseline {one.name}: run {one.run}, {one.kind} {one.sku or '(no SKU)'}, level {one.level}, "
        f"{len(one.hosts)} hosts of {one.count} devices",
        *(f"{name}: {', '.join(told)}" for name, told in one.versions.items() if told),
        f"SHA-256 {one.digest}",
        "",
        f"{'step':18} {'metric':28} {'point':24} {'median':>12} {'unit':9} {'spread':>7} {'devices':>7}  method",
    ]
    return "\n".join([*head, *map(_row, one.entries)])


def _row(e: Entry) -> str:
    spread = "" if e.spread is None else f"{e.spread:.2%}"
    return f"{e.step:18} {e.about:28} {e.point!s:24} {e.median:12.6g} {e.unit:9} {spread:>7} {e.devices:7}  {e.method}"
