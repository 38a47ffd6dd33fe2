"""The parts of docs/ that are made from declarations and data, as text. Tests compare and rewrite the files."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from gpuburn import events, kernel, limit as limits, sku, xid
from gpuburn.controller import documents_judgement as judgement, site
from gpuburn.limit import When
from gpuburn.manifest import COLUMNS
from gpuburn.measurement import Metric, Observed
from gpuburn.probe import Probe, discover
from gpuburn.standing import RULES
from gpuburn.telemetry import TELEMETRY

BEGIN, END = "<!-- generated: {} -->", "<!-- end of {} -->"
BY_COMMAND_LINE = {"gpuburn_run", "gpuburn_reports_dir", "gpuburn_wait"}  # the callback reads these before any host


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """A Markdown table; a bar inside a cell stays a bar."""
    head = list(head)
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |" for line in lines)


def variables() -> str:
    """Every variable of a site with its default and meaning."""
    rows = []
    for name, default, doc in site.document():
        how = " (only with `-e`)" if name in BY_COMMAND_LINE else ""
        rows.append((f"`{name}`", f"`{default}`", f"{doc}{how}"))
    return table(("variable", "default", "meaning"), rows)


def promises() -> str:
    """Every metric and fact of every probe and of the sampler, as declared."""
    rows = [
        _promise(probe, name, one)
        for probe in [*sorted(discover().values(), key=lambda one: one.name), TELEMETRY]
        for name, one in probe.promises.items()
    ]
    return table(("quantity", "scope", "revision", "unit", "reduced by", "what it is"), rows)


def _promise(probe: Probe, name: str, one: Metric | Observed) -> tuple[str, ...]:
    scope = one.per or probe.scope
    unit, how = (one.unit, one.reduce) if isinstance(one, Metric) else ("fact", "")
    where = f"; at each {', '.join(sorted(one.at))}" if one.at else ""
    kinds = "" if "rehearsal" in one.kinds else "; not in a rehearsal"
    return f"`{probe.name}.{name}`", scope, str(probe.revision), unit, how, f"{one.doc}{where}{kinds}"


def demands() -> str:
    """The limits that are judged."""
    judged = [one for one in limits.load() if not one.informational]
    rows = [(f"`{one.about}`", str(one), when(one.when), one.because) for one in judged]
    return table(("quantity", "demanded", "when", "because"), rows)


def recorded() -> str:
    """The quantities that are recorded and not judged, with why; one row for each reason that some share."""
    shared: dict[tuple[str, str, str], list[str]] = {}
    for one in limits.load():
        if one.informational:
            key = (when(one.when), "yes" if one.uncalibrated else "", one.informational)
            shared.setdefault(key, []).append(f"`{one.about}`")
    rows = [(", ".join(names), *key) for key, names in shared.items()]
    return table(("quantities", "when", "uncalibrated", "why there is no limit"), rows)


def when(one: When) -> str:
    """In which runs a limit applies, for a person."""
    parts = [" or ".join(many) for many in (one.kinds, one.levels, one.profiles, one.environments, one.steps) if many]
    return "; ".join([*parts, *([str(one.point)] if one.point.items else [])]) or "always"


def skus() -> str:
    """The reference numbers that may reject: of each SKU, method and count of devices the lowest that counts."""
    rows = []
    for name in sku.ids():
        found: dict[tuple[str, int, str], list[str]] = {}
        one = sku.load(name)
        for key, numbers in one.numbers.items():
            for method, devices in sorted({(number.method, number.devices) for number in numbers}):
                number = sku.lowest(one, key, method, devices)
                if number and number.devices == devices:
                    found.setdefault((method, devices, number.unit), []).append(f"`{key}` {number.value:g}")
        for (method, devices, unit), told in sorted(found.items()):
            rows.append((f"`{name}`", method, str(devices or "any"), f"{', '.join(told)} {unit}"))
    return table(("SKU", "method", "devices", "lowest measured number of high confidence"), rows)


def xids() -> str:
    """Every Xid with what it means and does; numbers of one kind share a row."""
    shared: dict[tuple[str, str, str, str], list[int]] = {}
    for one in xid.load().values():
        shared.setdefault((one.meaning, one.action, one.rule, one.note), []).append(one.number)
    rows = [
        (", ".join(map(str, sorted(numbers))), meaning, f"`{action}`" if action else "none named", rule, note)
        for (meaning, action, rule, note), numbers in shared.items()
    ]
    return table(("Xid", "meaning", "NVIDIA's action", "class", "note"), rows)


def kinds() -> str:
    """Every kind of event, and what it does to an acceptance."""
    rows = []
    for one in kernel.load().values():
        code = events.VERDICTS[one.rule][0] if one.rule in events.VERDICTS else ""
        rule = f"{one.rule}: above {one.above} a warning" if one.above else one.rule
        rows.append((f"`kernel.{one.id}`", one.group, rule, f"`{code}`" if code else "", one.doc, one.source))
    return table(("event", "part", "class", "check result", "what it is", "source"), rows)


def columns() -> str:
    """Every column of a manifest."""
    rows = [(f"`{name}`", one.of, one.doc, ", ".join(one.aliases)) for name, one in COLUMNS.items()]
    return table(("column", "of", "what it is", "headings that are taken for it, too"), rows)


PARTS: dict[str, Callable[[], str]] = {
    "variables": variables,
    "promises": promises,
    "demands": demands,
    "recorded": recorded,
    "skus": skus,
    "xids": xids,
    "kinds": kinds,
    "columns": columns,
    "attempts": lambda: table(("about", "rule"), RULES.items()),
    "codes": lambda: table(("code", "severity", "what it means", "what to do"), judgement.codes()),
    "policy": lambda: table(("row", "when", "decision", "because", "condition"), judgement.policy()),
    "statuses": lambda: table(("status", "meaning"), judgement.statuses()),
}


def filled(text: str) -> str:
    """A document with every generated part made anew between its markers; all else stays."""
    for name, make in PARTS.items():
        begin, end = BEGIN.format(name), END.format(name)
        head, found, rest = text.partition(begin)
        if found:
            text = f"{head}{begin}\n\n{make()}\n\n{end}{rest.partition(end)[2]}"
    return text
