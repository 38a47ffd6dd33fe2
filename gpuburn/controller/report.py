"""The fleet acceptance report: an index, a page per host, CSV and JSON. Static, readable without JavaScript."""

from __future__ import annotations

import csv
import datetime
import io
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import jinja2

from gpuburn import __version__, journal, strict
from gpuburn.controller import breaking, lineage, particulars
from gpuburn.controller.account import Account, alone, settle, summary, verdict, ways
from gpuburn.controller.analysis import Statement
from gpuburn.controller.bmc import said as bmcs
from gpuburn.controller.deliveries import history
from gpuburn.controller.explain_text import RULES
from gpuburn.controller.manifest import held
from gpuburn.controller.run import Run
from gpuburn.finding import Verdict
from gpuburn.rotation import base
from gpuburn.strict import Refused

NO_JOURNAL, BROKEN = "no journal was kept", "broken: "
UNSOUND = (NO_JOURNAL, BROKEN)  # how what is said of a journal begins that vouches for nothing
TEMPLATES = Path(__file__).parent / "templates"
CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f\u202a-\u202e\u2066-\u2069]")
FORMULA = ("=", "+", "-", "@", "\uff1d", "\uff0b", "\uff0d", "\uff20")  # the last four: the full-width forms
LONGEST = 600
COLUMNS = (
    "host", "rack", "unit", "kind", "level", "decision", "profiles", "step", "about", "subject", "point", "verdict",
    "marginal", "code", "why", "action", "evidence",
)  # fmt: skip


def make(run: Run, now: float) -> tuple[list[Account], Path]:
    """Decide about every host, write the report, and note in the journal what tripped; returns index.html."""
    accounts, analysis = settle(run, ways(run, now), now=now)
    breaking.note(run, analysis.tripped, now)
    return accounts, write(run, accounts, now, analysis.statements)


def write(run: Run, accounts: list[Account], now: float, said: Sequence[Statement] = ()) -> Path:
    """Write the report into the run's folder; returns index.html. now: unix seconds, printed as the time of issue.

    said: what the comparison of the hosts tells of the fleet.
    """
    environment = pages()
    ordered = held.book(run)
    shared = {"run": run.id, "version": __version__, "issued": now, "verdicts": Verdict}
    for account in accounts:
        folder = run.host(account.expected.host)
        folder.mkdir(parents=True, exist_ok=True)
        page = environment.get_template("host.html.j2").render(
            account=account,
            events=_events(account),
            reasons=_reasons(account),
            coverage=account.coverage,
            bmc=bmcs.looks(run, account.way),
            people=lineage.said(account),
            waived=dict(account.waived),
            short=lineage.short,
            items=held.items(ordered, account.way),
            unlisted=ordered.trouble,
            **shared,
        )
        (folder / "index.html").write_text(page, encoding="utf-8")
    history.keep(run, accounts, now, alone)
    counts, states = summary(accounts), journal_state(run)
    waivers, trouble = lineage.listed(run, accounts)
    index = environment.get_template("index.html.j2").render(
        accounts=accounts,
        counts=counts,
        journal=states,
        untested=not_tested(accounts),
        criteria=particulars.criteria(accounts),
        rule=RULES[run.policy().decision_rule],
        said=said,
        waivers=waivers,
        trouble=trouble,
        people=[(one, mine) for one in accounts if (mine := lineage.said(one))],
        **shared,
    )
    (run.folder / "index.html").write_text(index, encoding="utf-8")
    (run.folder / "report.json").write_bytes(strict.encode(document(run, accounts, now, said)))
    (run.folder / "findings.csv").write_text(table(accounts), encoding="utf-8", newline="")
    return run.folder / "index.html"


def pages() -> jinja2.Environment:
    """What fills the templates: everything is escaped, and what a template needs and does not get is an error."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES), autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True,
        lstrip_blocks=True, finalize=shown,
    )  # fmt: skip
    environment.filters["utc"] = utc
    return environment


def shown(value: Any) -> Any:
    """Text as a page shows it: no control or direction characters, bounded. Escaping is done by the environment.

    What a macro of ours made is markup already and stays as it is.
    """
    if hasattr(value, "__html__"):
        return value
    if not isinstance(value, str):
        return value
    return CONTROL.sub("�", value if len(value) <= LONGEST else f"{value[: LONGEST - 1]}…")


def utc(at: float) -> str:
    """A moment for a person; a host may name one that no calendar has."""
    try:
        return datetime.datetime.fromtimestamp(at, datetime.timezone.utc).strftime("%Y-%m-%d %H:%M:%S UTC")
    except (OverflowError, ValueError, OSError):
        return f"{at:g} s"


def journal_state(run: Run) -> str:
    """Whether the run's journal still chains."""
    try:
        return f"{len(journal.read(run.journal))} lines, unbroken" if run.journal.exists() else NO_JOURNAL
    except Refused as error:
        return f"{BROKEN}{error}"


def not_tested(accounts: list[Account]) -> list[tuple[str, str, int]]:
    """(what, why, hosts): everything that no plan of this run demanded; what is left out of the same steps for
    the same reason is one row."""
    seen: dict[tuple[str, str], tuple[dict[str, None], set[str]]] = {}
    for account in accounts:
        for one in account.plan.left_out if account.plan else []:
            what, _, step = one.what.partition(" in step ")
            steps, hosts = seen.setdefault((what, one.why), ({}, set()))
            hosts.add(account.expected.host)
            steps.update({step: None} if step else {})
    every = {base(step.name) for account in accounts if account.plan for step in account.plan.steps}
    rows: dict[tuple[str, tuple[str, ...], frozenset[str]], list[str]] = {}
    for (what, why), (steps, hosts) in seen.items():
        rows.setdefault((why, tuple(steps), frozenset(hosts)), []).append(what)
    return [
        (
            _listed(names) + (f" in {'every step' if every <= set(steps) else ', '.join(steps)}" if steps else ""),
            why,
            len(hosts),
        )
        for (why, steps, hosts), names in rows.items()
    ]


def _listed(names: list[str]) -> str:
    """Quantities of one probe under its name, which is said once: "telemetry: power, fan"."""
    found: dict[str, list[str]] = {}
    for name in names:
        probe, _, quantity = name.partition(".")
        found.setdefault(probe if quantity else "", []).append(quantity or name)
    several = (f"{probe}: {', '.join(many)}" if probe and len(many) > 1 else f"{probe}.{many[0]}" if probe
               else ", ".join(many) for probe, many in found.items())  # fmt: skip
    return "; ".join(several)


def _reasons(account: Account) -> dict[tuple[str, str], str]:
    """(step, quantity) -> why it is demanded, and where the number comes from."""
    limits = account.plan.limits if account.plan else []
    return {
        (step, one.about): f"{one.because or one.informational} ({one.source})"
        for one in limits
        for step in one.when.steps
    }


def _events(account: Account) -> list[Any]:
    result = account.collected.result if account.collected else None
    return list(result.record.events) if result else []


def document(run: Run, accounts: list[Account], now: float, said: Sequence[Statement] = ()) -> dict[str, Any]:
    """report.json: the same as the pages, for machines."""
    return {
        "schema": "gpuburn/report/1",
        "run": run.id,
        "issued": now,
        "version": __version__,
        "journal": journal_state(run),
        "decisions": summary(accounts),
        "waivers": lineage.waivers(run, accounts),
        "fleet": strict.plain(list(said)),
        "decision_rule": run.policy().decision_rule,
        "limits": particulars.limits(accounts),
        "criteria": {digest: hosts for digest, hosts in particulars.criteria(accounts) if digest},
        "hosts": [
            {
                **strict.plain(a.expected),
                "reached": a.reached,
                "decision": str(a.decision),
                "reason": a.reason,
                "minutes": round(a.coverage.minutes, 1),
                "criteria": a.judged.criteria if a.judged else "",
                "by_profile": {
                    name: {**strict.plain(decided), "verdict": _verdict(a, name)}
                    for name, decided in a.by_profile.items()
                },
                "trouble": a.trouble,
                "findings": lineage.findings(a),
                "measurements": particulars.measurements(a),
                **particulars.of(a),
                **lineage.of(a),
            }
            for a in accounts
        ],
    }  # fmt: skip


def _verdict(account: Account, profile: str) -> str:
    """The verdict with what the fleet adds; empty where nothing was judged."""
    return str(verdict(account.way, account.fleet, profile, account.waived) or "") if account.judged else ""


def table(accounts: list[Account]) -> str:
    """findings.csv: one row per finding, and one for every host that has none."""
    out = io.StringIO()
    writer = csv.writer(out)
    writer.writerow(COLUMNS)
    for account in accounts:
        for row in _rows(account):
            writer.writerow([safe_cell(cell) for cell in row])
    return out.getvalue()


def _rows(a: Account) -> Iterator[tuple[str, ...]]:
    e = a.expected
    head = (e.host, e.rack, e.unit, e.kind, e.level, str(a.decision))
    findings = a.findings()
    for f in findings:
        yield (*head, " ".join(f.profiles), f.step, f.about, f.subject, str(f.point), str(f.verdict),
               "marginal" if f.marginal else "", f.code, f.why, f.action, f.evidence)  # fmt: skip
    if not findings:
        yield (*head, " ".join(e.profiles), "", "", "", "", "", "", a.reached, a.reason, "", "")


def safe_cell(text: str) -> str:
    """A cell that no spreadsheet takes for a formula."""
    cleaned = str(shown(text))
    return f"'{cleaned}" if cleaned[:1] in ("\t", "\n") or cleaned.lstrip()[:1] in FORMULA else cleaned
