"""A delivery for a person: the table on a terminal, and the page of an acceptance."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from gpuburn import __version__, strict
from gpuburn.controller import report
from gpuburn.controller.deliveries.acceptance import Acceptance
from gpuburn.controller.deliveries.overview import Delivery, items
from gpuburn.standing import Standing

ATTEMPTS = (
    "host                     no. run                   level      decision       what had changed; what it counts for"
)


def shown(delivery: Delivery, accepted: dict[str, str], withdrawn: dict[str, str]) -> str:
    """The delivery as a table: how many are good, every host with its attempts, what is open."""
    total = len(delivery.hosts)
    counts = ", ".join(f"{count} {name}" for name, count in delivery.decisions().items())
    lines = [
        f"delivery {delivery.id}: {total} host(s) over {len(delivery.runs)} run(s), {delivery.attempts} attempts",
        f"  {counts}",
        f"  yield {_share(delivery.good, total)} (accepted or conditional)",
        f"  first-pass yield {_share(delivery.first_pass, total)} (good at once: no fail and no waiver before)",
        f"  listed in an acceptance: {len(accepted)}",
        "",
        ATTEMPTS,
        *(line for one in delivery.hosts for line in _host(one, accepted.get(one.host, ""))),
    ]
    found = items(delivery)
    lines += ["", f"open items: {len(found) + len(withdrawn)}"]
    lines += [f"  {host}: {why}" for host, why in withdrawn.items()]
    lines += [
        f"  {one.host or 'the delivery'}: {one.what}"
        + (f" ({', '.join(part for part in (one.owner, one.due and f'until {one.due}') if part)})" if one.owner else "")
        for one in found
    ]
    return "\n".join(str(report.shown(line)) for line in lines)


def _share(part: int, total: int) -> str:
    return f"{part} of {total}, {part / total:.1%}" if total else "0 of 0"


def _host(one: Standing, accepted: str) -> Iterator[str]:
    yield f"{one.host:24} {'':24}     {'':10} {one.decision!s:14} {one.reason}{f' [{accepted}]' if accepted else ''}"
    for line in one.lines:
        told = "; ".join([*line.changed, line.note, *([f"cause: {c}"] if (c := line.attempt.cause) else [])])
        a = line.attempt
        yield f"{'':24} {line.number:3} {a.run:21} {a.level:10} {a.decision!s:14} {told}"


def page(made: Acceptance, path: Path, now: float) -> Path:
    """The acceptance as a page beside its file."""
    written = path.with_suffix(".html")
    text = report.pages().get_template("acceptance.html.j2").render(
        one=made, digest=strict.digest(path.read_bytes()), run="", version=__version__, issued=now
    )  # fmt: skip
    written.write_text(text, encoding="utf-8")
    return written
