"""The manifest that a run began with, and its findings about the run's hosts. Where it cannot be vouched for, no host
is compared, and every one is told so: a manifest that is gone or changed proves nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from gpuburn import sku
from gpuburn.controller.analysis import Statement
from gpuburn.controller.manifest import file, judging
from gpuburn.controller.manifest.shown import Shown
from gpuburn.controller.reach import Way
from gpuburn.controller.run import MANIFEST, Expected, Run
from gpuburn.finding import Finding
from gpuburn.manifest import Item, Lookup, Manifest, Ordered
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


def listed(manifest: Manifest | None, hosts: Iterable[Expected], source: str, file: str) -> None:
    """Refuse before anything runs a host that the manifest does not list, or of which it says another model or count of
    GPUs than the inventory does: all such hosts in one message."""
    if manifest is None:
        return
    wrong = []
    lookup, names = Lookup(manifest), [ordered.host for ordered in manifest.hosts]
    for one in hosts:
        ordered = lookup.host(one.host, one.rack, one.unit)
        if ordered:
            wrong += [f"{source}: host {one.host}: {why}" for why in _contradictions(one, ordered, file)]
            continue
        try:
            known(one.host, names, f"{source}: gpuburn_manifest: host")
        except Refused as error:
            wrong.append(str(error).partition("; known:")[0])
    if wrong:
        raise Refused("\n".join(wrong))


def _contradictions(one: Expected, ordered: Ordered, file: str) -> Iterator[str]:
    """What the inventory says of a host's GPUs and the list says otherwise. A name that no SKU has contradicts none."""
    if one.kind == "rehearsal":
        return
    there = f"{file}: host {ordered.host}"
    models = {name: found.id for name in ordered.said("gpu_model") if (found := sku.match("", name))}
    for column, said in (("sku", {name: name for name in ordered.said("sku")}), ("gpu_model", models)):
        for name in sorted(name for name, model in said.items() if model != one.sku):
            meant = f"{name}, which is {said[name]}" if said[name] != name else name
            yield f"gpuburn_sku is {one.sku}, and {there}: {column} is {meant}; wanted is one model"
    counted, listed = ordered.values.get("gpu_count", ""), len(ordered.of("gpu"))
    if counted or listed:
        number, what = (int(counted), "gpu_count is") if counted else (listed, "GPUs listed are")
        if number != one.count:
            yield f"gpuburn_gpu_count is {one.count}, and {there}: {what} {number}; wanted is one count"
