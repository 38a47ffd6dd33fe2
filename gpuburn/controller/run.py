"""One run's folder on the controller: reports/<run>/. Its paths come from the inventory, never from a host."""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gpuburn import journal, plan as plans, policy as policies, strict, waiver
from gpuburn.journal import Entry
from gpuburn.plan import Plan
from gpuburn.policy import Policy
from gpuburn.strict import Refused
from gpuburn.waiver import Waiver

POLICY = "policy.yml"
WAIVERS = "waivers.yml"
MANIFEST = "manifest.csv"
BEGAN = "expected"  # the journal's line that a run begins with: digests of its policy, waivers and manifest
RUN = re.compile(r"\d{8}T\d{6}Z-[0-9a-f]{4}")
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")  # of a host or a delivery: it becomes a folder's
PLAIN = "wanted are letters, digits, dots, hyphens and underscores, at most 100"
HOST = NAME
HOSTS = 64 * strict.MEBIBYTE  # bytes of expected.json: ten thousand hosts need about 4 MiB


@dataclass(frozen=True, slots=True)
class Expected:
    """One host that the run must give an account of, whatever happens to it. bmc: how its BMC's certificate is checked;
    "" where none is named, and none is demanded."""

    host: str
    kind: str
    level: str
    environment: str
    profiles: list[str]
    delivery: str = ""
    sku: str = ""
    count: int = 0
    rack: str = ""
    unit: str = ""
    power_domain: str = ""
    baseline: str = ""
    bmc: str = ""


@dataclass(frozen=True, slots=True)
class Run:
    """folder is reports/<run>; nothing in it is ever deleted by gpuburn."""

    id: str
    folder: Path = field(default_factory=Path)

    @classmethod
    def of(cls, reports: Path, run: str) -> Run:
        if not RUN.fullmatch(run):
            raise Refused(f"run id {run!r}: wanted is <UTC>-<4 hex> such as 20261130T080000Z-1f3a")
        one = cls(run, reports / run)
        try:
            one.began()
        except ValueError as error:
            raise Refused(f"run id {run!r}: {error}") from None
        return one

    @property
    def journal(self) -> Path:
        return self.folder / "journal.jsonl"

    def host(self, name: str) -> Path:
        """The host's folder. A name that is not a plain one is refused before it becomes a path."""
        check_host(name)
        return self.folder / "hosts" / name

    def incoming(self, name: str, number: int = 1) -> Path:
        """The sealed file that came first, or another one that came later. No host has a ~ in its name."""
        check_host(name)
        return self.folder / "incoming" / (f"{name}.tar.gz" if number == 1 else f"{name}~{number}.tar.gz")

    def arriving(self, name: str) -> Path:
        """Where a sealed file is fetched to, before it has its place."""
        check_host(name)
        return self.folder / "incoming" / f"{name}~new.tar.gz"

    def expect(self, hosts: list[Expected], source: str = "inventory") -> None:
        """Write down who is expected. Coming back with other hosts adds them; nobody is dropped, and nobody changed."""
        path = self.folder / "expected.json"
        kept = {one.host: one for one in self.expected()} if path.exists() else {}
        for one in hosts:
            _unchanged(kept.get(one.host, one), one, f"{source}: host {one.host}", self.id)
        self.folder.mkdir(parents=True, exist_ok=True)
        path.write_bytes(strict.encode([*kept.values(), *(one for one in hosts if one.host not in kept)]))

    def expected(self) -> list[Expected]:
        path = self.folder / "expected.json"
        if not path.exists():
            raise Refused(f"{path}: no such run; `ls {self.folder.parent}` shows those that there are")
        hosts = strict.build(list[Expected], strict.loads(strict.load_file(path, HOSTS), str(path), HOSTS), str(path))
        if not hosts:
            raise Refused(f"{path}: no host is expected; wanted is at least one")
        return hosts

    def expected_as_noted(self) -> list[Expected]:
        """The same, and Refused where the journal names another list: nobody drops out by an edit of the file."""
        noted = [one.details.get("expected", "") for one in self.told() if one.event == BEGAN]
        found = self.expected()
        if noted and noted[-1] and noted[-1] != self.expected_digest():
            raise Refused(f"{self.folder / 'expected.json'}: is not the list that the journal names; put it back")
        return found

    def expected_digest(self) -> str:
        return strict.digest(strict.load_file(self.folder / "expected.json", HOSTS))

    def policy(self) -> Policy:
        """The policy that this run began with; the package's own where the run keeps none."""
        return self.policy_kept() or policies.load()

    def policy_as_begun(self) -> Policy:
        """The same, and Refused where the journal, or without it a host's plan, names another: nobody is judged by what
        was changed since."""
        found = self.policy()
        began = self.as_begun("policy")
        if began is None:
            began = next((plan.policy for plan in self._plans()), "")
        if began and began != found.digest:
            raise Refused(
                f"{self.folder / POLICY}: SHA-256 is {found.digest[:12]}, was {began[:12]} when run {self.id} began; "
                "put the policy back that it began with"
            )
        return found

    def _plans(self) -> Iterator[Plan]:
        """The hosts' plans; one that cannot be read is told of its host."""
        for one in self.expected() if (self.folder / "expected.json").exists() else []:
            with contextlib.suppress(Refused):
                if plan := self.plan(one.host):
                    yield plan

    def policy_kept(self) -> Policy | None:
        kept = self.folder / POLICY
        return policies.load(kept) if kept.exists() else None

    def waivers(self) -> list[Waiver]:
        """The waivers that this run began with."""
        kept = self.folder / WAIVERS
        return waiver.load(kept) if kept.exists() else []

    def began(self) -> float:
        """When the run began, in unix seconds, as its id says."""
        start = datetime.datetime.strptime(self.id.partition("-")[0], "%Y%m%dT%H%M%SZ")
        return start.replace(tzinfo=datetime.timezone.utc).timestamp()

    def plan(self, name: str) -> Plan | None:
        path = self.host(name) / "plan.json"
        return plans.decode(strict.load_file(path), str(path)) if path.exists() else None

    def entries(self) -> list[Entry]:
        return journal.read(self.journal) if self.journal.exists() else []

    def told(self) -> list[Entry]:
        """What the journal tells, up to the first line that does not hold: a broken journal still leaves a report."""
        return self.followed()[0]

    def followed(self) -> tuple[list[Entry], str]:
        """The same, and what is wrong with the journal; "" where it holds and says how the run began."""
        if not self.journal.exists():
            return [], f"{self.journal.name} is missing"
        entries, wrong = journal.follow(self.journal)
        began = any(one.event == BEGAN for one in entries)
        return entries, wrong or ("" if began else f"{self.journal.name} does not say how the run began")

    def as_begun(self, name: str) -> str | None:
        """The digest that the journal names of what the run began with; None where it does not tell, "" in an older
        one that named none."""
        return next((one.details.get(name, "") for one in self.told() if one.event == BEGAN), None)

    def by_host(self) -> dict[str, list[Entry]]:
        """What the journal tells of each host; of the run as a whole under ""."""
        found: dict[str, list[Entry]] = {}
        for entry in self.told():
            found.setdefault(entry.host, []).append(entry)
        return found

    def note(self, at: float, event: str, host: str = "", **details: Any) -> None:
        """Add a line to the run's journal."""
        self.folder.mkdir(parents=True, exist_ok=True)
        journal.append(self.journal, at, event, host, {key: _line(value) for key, value in details.items()})


def _line(value: Any) -> str:
    """Words of a host as the journal can hold them: bounded, without what the strict reader would refuse."""
    return str(value)[:500].encode("utf-8", "replace").decode().replace("\0", "?")


def _unchanged(before: Expected, now: Expected, where: str, run: str) -> None:
    for one in dataclasses.fields(Expected):
        was, says = getattr(before, one.name), getattr(now, one.name)
        if was != says:
            name = ("processes" if now.kind == "rehearsal" else "gpu_count") if one.name == "count" else one.name
            name = "bmc_address (how its certificate is checked)" if name == "bmc" else name
            raise Refused(
                f"{where}: gpuburn_{name} was {was!r} when run {run} began, the inventory now says {says!r}; "
                "a changed inventory is a new run"
            )


def check_host(name: str) -> None:
    if not HOST.fullmatch(name):
        raise Refused(f"host name {name!r}: {PLAIN}")
