"""The table "Would we have caught it?" of docs/methods.md, from the rows that the tests of this folder register."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from caught.registry import BEFORE, ROWS, Row
from gpuburn.controller import documents

FOLDER = Path(__file__).parent
PAGE = FOLDER.parents[1] / "docs" / "methods.md"
NAME = "caught"
HEAD = ("peer", "fault", "our finding", "decision", "test")


@dataclass(frozen=True, slots=True)
class NotYet:
    """A fault that this version does not see. seen: what of it shows all the same. issue: where it is asked for."""

    peer: str
    where: str
    fault: str
    missing: str
    seen: str = ""
    issue: int = 4


NOT_YET = (
    NotYet("gpud", "leptonai/gpud", "ECC counters are exported and never judged: always 'no ECC issue found'",
           "ECC counters are not read"),
    NotYet("Azure NHC", "Azure/azurehpc-health-checks:customTests/azure_gpu_ecc.nhc",
           "uncorrectable DRAM errors are held against the limit of correctable ones; a wrong column is read",
           "ECC counters are not read"),
    NotYet("Azure NHC", "Azure/azurehpc-health-checks!3", "the reasons for throttling are logged, never judged",
           "throttle reasons are not read", "limit.failed, where it costs 15 % of speed"),
    NotYet("NVSentinel", "NVIDIA/NVSentinel#890", "a PCIe link that came up narrower or slower is not noticed",
           "link generation and width are not read", "limit.failed, where all-reduce goes over PCIe"),
    NotYet("sichek", "scitix/sichek!54", "a link's generation is read at idle, where it is low by design",
           "link generation and width are not read"),
    NotYet("gpud", "leptonai/gpud!1174", "an NVLink that is not active is healthy",
           "the state of each link is not read", "limit.failed of allreduce.busbw"),
    NotYet("Oracle OCI", "oracle-quickstart/oci-hpc", "rows that wait for a reset, or could not be remapped, are lost",
           "row remapping is not read", "xid.reject, where the driver says so while the host works"),
    NotYet("NVSentinel", "NVIDIA/NVSentinel#1748", "memory errors that grow with load are not reported",
           "error counters are not read before and after"),
    NotYet("GPU driver container", "NVIDIA/gpu-driver-container#735", "driver and fabric manager of two versions",
           "the fabric manager's version is not read", "step.errored of allreduce"),
)  # fmt: skip


def rows() -> list[Row]:
    """Every row, in the order of the files and of their tests."""
    for path in sorted(FOLDER.glob("test_*.py")):
        importlib.import_module(f"caught.{path.stem}")
    return sorted(ROWS.values(), key=lambda row: row.test.partition("::")[0])


def table() -> str:
    return documents.table(HEAD, [*_shown(), *_not_yet()])


def _shown() -> Iterator[tuple[str, ...]]:
    for row in rows():
        finding = row.finding if row.finding == BEFORE else f"`{row.finding}`"
        fault = f"accuses: {row.fault}" if row.accuses else row.fault
        file, _, test = row.test.partition("::")
        short = test.removeprefix("test_").replace("_", " ")
        yield link(row.peer, row.where), fault, finding, row.decision or "nothing starts", f"`{file}`: {short}"


def _not_yet() -> Iterator[tuple[str, ...]]:
    for one in NOT_YET:
        yield link(one.peer, one.where), one.fault, f"**not yet** (issue {one.issue}): {one.missing}", one.seen, ""


def link(peer: str, where: str) -> str:
    """repo, repo#issue, repo!pull request or repo:file, as a link."""
    if not where:
        return peer
    for mark, place in (("#", "issues"), ("!", "pull"), (":", "blob/HEAD")):
        repo, found, rest = where.partition(mark)
        if found:
            text = f"{peer} {mark}{rest}" if mark != ":" else f"{peer} {rest.rpartition('/')[2]}"
            return f"[{text.replace('!', '#')}](https://github.com/{repo}/{place}/{rest})"
    return f"[{peer}](https://github.com/{where})"


def filled(text: str) -> str:
    """The page with the table made anew between its markers."""
    begin, end = documents.BEGIN.format(NAME), documents.END.format(NAME)
    head, found, rest = text.partition(begin)
    return f"{head}{begin}\n\n{table()}\n\n{end}{rest.partition(end)[2]}" if found else text
