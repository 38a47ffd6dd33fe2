"""What the outcomes of a host's comparison lead to: findings. An item that can be compared and is not as ordered fails
(a port more than the list names is marginal); one that cannot is incomplete, or not applicable where the host's
environment or privileges hide it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from gpuburn.controller.manifest.compare import compare
from gpuburn.controller.manifest.shown import Shown
from gpuburn.finding import Finding, Verdict, finding
from gpuburn.manifest import Item, Lookup, Outcome, about
from gpuburn.plan import HOST

SOURCE = "manifest"
NAMED = 4  # parts that a sentence lists
VERDICTS: dict[Outcome, Verdict] = {
    "match": Verdict.PASS, "mismatch": Verdict.FAIL, "missing": Verdict.FAIL, "unexpected": Verdict.FAIL,
    "not_comparable": Verdict.INCOMPLETE, "not_in_manifest": Verdict.NOT_APPLICABLE,
}  # fmt: skip
EXTRA = "see whether the port is one of the board's; list it, or ask the vendor whose adapter it is"
UNLISTED = "the manifest names no such host: nothing tells what was ordered of it"


def items(listed: Lookup, host: str, rack: str, unit: str, shown: Shown) -> list[Item] | None:
    """Every item of a host; None where the manifest does not list the host."""
    ordered = listed.host(host, rack, unit)
    return None if ordered is None else compare(ordered, shown)


def findings(found: Iterable[Item] | None, profiles: Iterable[str]) -> Iterator[Finding]:
    """Of what is as ordered one finding for each column; of all else one for each item."""
    served = tuple(profiles)
    if found is None:
        yield unproven(UNLISTED, served)
        return
    matched: dict[str, list[Item]] = {}
    for item in found:
        if item.outcome == "match":
            matched.setdefault(item.column, []).append(item)
        else:
            yield _one(item, served)
    for column, many in matched.items():
        told = ", ".join(dict.fromkeys(one.told for one in many[:NAMED]))
        why = f"{told}, as ordered" if len(many) == 1 else f"{len(many)} as ordered: {told}"
        yield _finding("manifest.match", column, Verdict.PASS, why, served, HOST)


def unproven(why: str, profiles: Iterable[str]) -> Finding:
    """The host cannot be compared as a whole."""
    return _finding("manifest.not_comparable", "host", Verdict.INCOMPLETE, why, tuple(profiles), HOST)


def _one(item: Item, served: tuple[str, ...]) -> Finding:
    if item.outcome == "not_comparable" and not item.seeable:
        return _finding("not_observable", item.column, Verdict.NOT_APPLICABLE, item.why, served, item.subject)
    verdict = Verdict.PASS if item.extra else VERDICTS[item.outcome]
    return _finding(f"manifest.{item.outcome}", item.column, verdict, item.why, served, item.subject, item.extra)


def _finding(
    code: str, column: str, verdict: Verdict, why: str, served: tuple[str, ...], subject: str, marginal: bool = False
) -> Finding:  # fmt: skip
    evidence = "identity.json" if subject == HOST or "." in subject else ""
    action = EXTRA if marginal else ""
    return finding(
        code, about(column), verdict, why, SOURCE, served, action, marginal, subject=subject, evidence=evidence
    )
