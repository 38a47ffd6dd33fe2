"""The criteria as a bilingual document to annex to a contract before delivery: static, offline, verifiable.

Stops at wording: what is demanded is told by explain. The canonical JSON in it governs; its SHA-256 is the digest.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jinja2

from gpuburn import __version__, criteria, profile, rotation, strict
from gpuburn.controller import applicable, chinese, explain, explain_text
from gpuburn.controller.explain import DOES, Demand, Group
from gpuburn.controller.report import CONTROL, TEMPLATES, utc
from gpuburn.policy import Row
from gpuburn.strict import Refused

LEVELS = {
    "smoke": "minutes; may reject, never accept",
    "quick": "under an hour; may reject, never accept",
    "standard": "hours; may accept",
    "soak": "a day; may accept, and shows decay",
}
RULES = {
    "simple": "Decision rule: simple acceptance. A value at its limit passes; its readings' spread is not subtracted.",
    "guard_band": "Decision rule: guard band. Within twice the readings' spread of a limit nothing is decided.",
}
GLOSSARY = {
    "pass": "every demand of the profile was met and measured",
    "fail": "at least one demand was missed; hardware that fails is rejected",
    "not proven": "nothing failed, but something that was demanded was not shown; called incomplete in data",
    "not judged": "recorded, or not applicable to this host, with the reason",
    "marginal": "a pass near the edge, or outside a number that may only warn",
    "no reference number": "measured, but no number of this model and method is published; uncalibrated in data",
    "not observable": "what a virtual machine, a container or an account without rights cannot show",
    "accepted": "every demand was met, on hardware, at a level that may accept, and nothing is open",
    "conditional": "accepted on a condition, which names what is owed, by whom and until when",
    "rejected": "hardware that failed, at any level",
    "undecided": "it worked, but not everything was proven; the run is repeated",
    "untested": "nothing ran on it",
    "waived": "a failed demand that a named person accepts, for listed serial numbers, with a reason and an end",
    "cohort": "hosts of one model, driver and power limit, which are compared with each other",
    "baseline": "numbers that an earlier run measured, kept under a name to compare with",
    "level": "how long and how large the steps are: smoke, quick, standard, soak",
    "device": "one GPU; in a rehearsal one process on the CPU",
}  # fmt: skip
TIMES = "\N{MULTIPLICATION SIGN}"
CASES = {"incomplete": "not proven", "uncalibrated": "no reference number"}  # in data -> for those who sign
# Prints what stands in <pre id=...> of a document, as it was before it became HTML.
EXTRACT = (
    'python3 -c \'import html,re,sys; t=open(sys.argv[1],encoding="utf-8").read(); '
    'sys.stdout.buffer.write(html.unescape(re.search("<pre id=\\"%s\\">(.*?)</pre>"%sys.argv[2],t,re.S)[1]).encode())\''
)


@dataclass(frozen=True, slots=True)
class Document:
    """One document and what lies beside it."""

    html: str
    criteria: bytes
    policy: bytes


def make(group: Group, stem: str, issued: float) -> Document:
    """The document of one group. stem: name of its files; issued: unix seconds, printed only."""
    canonical = strict.encode(criteria.of(group.plan))
    policy = strict.encode(group.policy) if group.policy else b""
    for text in _texts([strict.plain(criteria.of(group.plan)), strict.plain(group.policy)]):
        if hidden := CONTROL.search(text):
            raise Refused(
                f"criteria: a text holds the hidden character U+{ord(hidden[0]):04X}; wanted is what can be read"
            )
    page = _environment().get_template("criteria.html.j2").render(
        **_content(group), names=_names(stem), issued=issued, version=__version__, extract=EXTRACT, size=len(canonical),
        canonical=canonical.decode(), canonical_policy=policy.decode(),
    )  # fmt: skip
    return Document(page, canonical, policy)


def _texts(value: Any) -> Iterator[str]:
    """Every text in a document, keys and all."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, (dict, list)):
        for one in [*value, *value.values()] if isinstance(value, dict) else value:
            yield from _texts(one)


def _names(stem: str) -> dict[str, str]:
    """The files as a shell reads them."""
    return {end: shlex.quote(f"{stem}.{end}") for end in ("html", "json")}


def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES), autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True,
        lstrip_blocks=True, finalize=_shown,
    )  # fmt: skip
    environment.filters.update(utc=utc, signs=_signs)
    environment.globals.update(en=_english, zh=chinese.word, data=chinese.data, bounds=explain_text.bounds,
                               cases=_cases, hours=_hours)  # fmt: skip
    return environment


def _content(group: Group) -> dict[str, Any]:
    plan, demands = group.plan, explain.demands(group)
    of = {does: [one for one in demands if one.does == does] for does in DOES}
    return {
        "plan": plan, "policy": group.policy, "digest": group.digest, "hosts": group.hosts, "allowed": group.allowed,
        "rotated": list(rotation.turns(plan.steps).values()),
        "delivery": plan.delivery, "profiles": [(name, profile.load(name).doc) for name in plan.profiles],
        "level": LEVELS[plan.level], "counts": explain.counts(plan), "performance": explain.performance(plan),
        "peak": explain.peak_kw(plan), "energy": explain.energy_kwh(plan), "rule": RULES[plan.decision_rule],
        "loosened": [one for one in demands if one.loosened], "rows": applicable.rows(group.policy, plan),
        "demands": {"rejects": of["rejects"], "warns": of["warns"], "uncalibrated": of["uncalibrated"],
                    "recorded": _grouped(of["recorded"])},
        "left_out": _by_reason((one.why, one.what) for one in plan.left_out), "glossary": GLOSSARY.items(),
    }  # fmt: skip


def _grouped(demands: list[Demand]) -> list[tuple[str, list[str]]]:
    return _by_reason((one.because, f"{one.about}{f' ({one.point})' if one.point else ''}") for one in demands)


def _by_reason(told: Iterable[tuple[str, str]]) -> list[tuple[str, list[str]]]:
    found: dict[str, list[str]] = {}
    for why, what in told:
        found.setdefault(why, []).append(what)
    return list(found.items())


def _cases(row: Row) -> list[str]:
    """The words for the case that a row speaks of."""
    named = [str(one) for many in (row.reached, row.verdicts, row.marks) for one in many] or ["all else"]
    return [CASES.get(one, one.replace("_", " ")) for one in named]


def _english(text: str, **values: Any) -> str:
    return text.format(**values) if values else text


def _hours(seconds: float) -> str:
    return f"{seconds / 3600:.1f}"


def _signs(text: str) -> str:
    """Bounds as a reader of either language knows them; a demanded fact stays as it is."""
    if text.startswith((">= ", "<= ", "< ", "> ")):
        text = text.replace(">= ", "≥ ").replace("<= ", "≤ ").replace(" and ", ", ").replace(" or ", ", ")
    return text if text.startswith("= ") else text.replace(" x ", f" {TIMES} ")


def _shown(value: Any) -> Any:
    """No text can hide: control and direction characters are shown as such. Escaping is the environment's."""
    return CONTROL.sub("�", value) if isinstance(value, str) and not hasattr(value, "__html__") else value


def write(groups: list[Group], out: Path, issued: float) -> list[Path]:
    """One document for each distinct criteria: to the file `out`, or where there are many into the folder `out`."""
    single = out.suffix == ".html"
    if single and len(groups) > 1:
        raise Refused(
            f"{out}: the hosts have {len(groups)} different criteria; wanted is --out with a folder, or fewer hosts"
        )
    written = []
    for one in groups:
        path = out if single else out / f"criteria-{one.digest[:12]}.html"
        made = make(one, path.stem, issued)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(made.html, encoding="utf-8")
        path.with_suffix(".json").write_bytes(made.criteria)
        written.append(path)
    return written
