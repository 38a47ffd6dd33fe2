"""The storage that a site names: which steps write to it, and how many bytes a step of one host may write in all."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from gpuburn.plan import Step
from gpuburn.probe import Probe, discover
from gpuburn.strict import Refused

PATIENCE = 3600.0  # seconds that a step waits for its turn at a shared path; its timeout is so much longer there
GIB = 2**30
CAP, WRITERS = 256.0, 4  # where the site says nothing: GiB of one step of a host; hosts at once
LOWERED = "mib"  # the parameter that is lowered where a step would write too much


@dataclass(frozen=True, slots=True)
class Storage:
    """path: on the host, "" is the agent's own disk. gib: of one step. writers: hosts that write at once at most."""

    path: str = ""
    gib: float = CAP
    writers: int = WRITERS


def place(steps: Iterable[Step], storage: Storage, count: int) -> tuple[list[Step], list[str]]:
    """The steps, those that test storage on the site's path and within its bytes; and notes of what was lowered.

    Raises Refused for a step that cannot be made to write less.
    """
    placed, notes = [], []
    for step in steps:
        probe = discover()[step.probe]
        if not storage.path or probe.stores is None:
            placed.append(step)
            continue
        params = {**step.params, "directory": storage.path, "writers": storage.writers}
        capped = _capped(replace(step, params=params, timeout=step.timeout + PATIENCE), probe, storage, count)
        if capped.params != params:
            was, now = params[LOWERED], capped.params[LOWERED]
            notes.append(
                f"step {step.name}: {LOWERED} {now} in place of {was}, for gpuburn_storage_gib is {storage.gib:g}"
            )
        placed.append(capped)
    return placed, notes


def _capped(step: Step, probe: Probe, storage: Storage, count: int) -> Step:
    """The step with the most MiB that keep it within the site's bytes."""
    assert probe.stores
    most = storage.gib * GIB
    wanted = probe.stores(step.params, count)
    if wanted <= most:
        return step
    low, high = 0, int(step.params.get(LOWERED, 1))  # what fits; what does not
    while high - low > 1:
        middle = (low + high) // 2
        fits = probe.stores({**step.params, LOWERED: middle}, count) <= most
        low, high = (middle, high) if fits else (low, middle)
    if not low:
        raise Refused(
            f"gpuburn_storage_gib is {storage.gib:g}; step {step.name} writes {wanted / GIB:.4g} GiB at gpuburn_storage"
            f"{', and cannot do with less' if LOWERED not in step.params else ''}; wanted is more, or another level"
        )
    return replace(step, params={**step.params, LOWERED: low})
