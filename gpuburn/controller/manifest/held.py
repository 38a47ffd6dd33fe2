"""The manifest that a run began with, and its findings about the run's hosts. Where it cannot be vouched for, no host
is compared, and every one is told so: a manifest that is gone or changed proves nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from gpuburn.controller.analysis import Statement
from gpuburn.controller.manifest import file, judging
from gpuburn.controller.manifest.shown import Shown
from gpuburn.controller.reach import Way
from gpuburn.controller.run import MANIFEST, Expected, Run
from gpuburn.finding import Finding
from gpuburn.manifest import Item, Lookup, Manifest
from gpuburn.strict import Refused, known

NAMED = 8  # hosts that a sentence lists


@dataclass(frozen=True, slots=True)
class Book:
    """manifest: None where the run began with none; lookup: its hosts. trouble: why it does not count, "" else."""

    manifest: Manifest | None = None
    trouble: str = ""
    lookup: Lookup | None = None


def book(run: Run) -> Book:
    """The manifest as the run keeps it, if it is the one that the journal names."""
    kept, began = run.folder / MANIFEST, run.as_begun("manifest")
    if not kept.exists():
        return Book(trouble=f"{MANIFEST} is gone, the run began with one" if began else "")
    try:
        found = file.load(kept)
    except Refused as error:
        return Book(trouble=f"{MANIFEST} cannot be read: {error}")
    if began is None:
        return Book(trouble=f"{run.journal.name} does not say whether the run began with {MANIFEST}")
    if began != found.digest:
        why = "is not the one that the run began with" if began else "came later, the run began with none"
        return Book(trouble=f"{MANIFEST} {why}")
    return Book(found, lookup=Lookup(found))


def findings(held: Book, went: Iterable[Way]) -> Iterator[tuple[str, Finding]]:
    """(host, finding) of every host of which there is evidence."""
    if held.manifest is None and not held.trouble:
        return
    for one in went:
        if one.judged is None:
            continue
        served = tuple(one.judged.verdicts)
        if held.manifest is None:
            yield one.expected.host, judging.unproven(held.trouble, served)
        else:
            for found in judging.findings(items(held, one), served):
                yield one.expected.host, found


def items(held: Book, one: Way) -> list[Item] | None:
    """Every item of a host; None where the manifest does not list it, or there is nothing to compare."""
    if held.lookup is None or one.judged is None:
        return None
    e = one.expected
    return judging.items(held.lookup, e.host, e.rack, e.unit, Shown.read(one.judged.shown))


def absent(held: Book, run: Run) -> Iterator[Statement]:
    """The hosts of the manifest that this run has not: they may come in another."""
    if held.manifest is None or held.lookup is None:
        return
    found = (held.lookup.host(e.host, e.rack, e.unit) for e in run.expected())
    here = {one.host for one in found if one}
    others = [one.host for one in held.manifest.hosts if one.host not in here]
    if others:
        more = f" and {len(others) - NAMED} more" if len(others) > NAMED else ""
        why = f"{len(others)} host(s) of the manifest are not in this run: {', '.join(others[:NAMED])}{more}"
        yield Statement("manifest.missing", why)


def listed(manifest: Manifest | None, hosts: Iterable[Expected], source: str) -> None:
    """Refuse before anything runs a host that the manifest does not list, with all such hosts in one message."""
    wrong = []
    lookup = Lookup(manifest) if manifest else None
    for one in hosts:
        if manifest and lookup and lookup.host(one.host, one.rack, one.unit) is None:
            try:
                known(one.host, [ordered.host for ordered in manifest.hosts], f"{source}: gpuburn_manifest: host")
            except Refused as error:
                wrong.append(str(error).partition("; known:")[0])
    if wrong:
        raise Refused("\n".join(wrong))
