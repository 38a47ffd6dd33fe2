"""The document that two parties sign: complete in both languages, harmless in a browser, its digest verifiable."""

from __future__ import annotations

import dataclasses
import hashlib
import html.parser
import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import pytest
import runs

from gpuburn import criteria, limit as limits, planning, policy as policies, profile, rotation, sku, strict
from gpuburn.controller import chinese, chosen, criteria_page, explain
from gpuburn.controller.chosen import Selection
from gpuburn.controller.explain import Group
from gpuburn.finding import Verdict
from gpuburn.plan import LEVELS, Environment, Kind
from gpuburn.planning import Request
from gpuburn.policy import Decision, Mark, Reached, Row
from gpuburn.probe import discover
from gpuburn.strict import Refused
from gpuburn.telemetry import TELEMETRY

BOTH = ("training", "inference")
ASKED = [
    runs.request(profiles=BOTH),
    *(runs.hardware(profiles=BOTH, level=level, count=8) for level in LEVELS),
    runs.hardware(profiles=("inference",), level="quick", environment="vm", sku="l4"),
    runs.hardware(profiles=("training",), environment="container", only=("gemm",), level="quick"),
    runs.hardware(profiles=("training",), kind="simulated"),
    dataclasses.replace(runs.hardware(), policy=dataclasses.replace(policies.load(), decision_rule="guard_band")),
]
TERMS = (
    "满载稳定性", "卡间通信", "检查点写入", "断点续训", "混合精度训练", "长上下文显存占用", "首 token 延迟", "降频",
    "单 token 输出时间", "长尾", "预填充", "解码", "显存带宽", "页缓存", "掉卡", "基线", "多机 RDMA", "有条件通过",
    "未证实", "豁免", "KV Cache",
)  # fmt: skip
CHINESE = re.compile(r"[\u4e00-\u9fff]")
VOID = {"meta", "br"}


def group(asked: Request, **changed: Any) -> Group:
    plan = planning.make(asked, runs.NONCE, runs.ISSUED)
    return Group(**{"plan": plan, "policy": asked.policy, "hosts": ["n1", "n2"], "allowed": 60.0, **changed})


def page(one: Group) -> str:
    return criteria_page.make(one, "criteria", runs.ISSUED).html


class Reader(html.parser.HTMLParser):
    """Refuses what is not closed in order, and gathers text by element, attributes and ids."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.attributes: list[tuple[str, str, str | None]] = []
        self.texts: list[tuple[str, str]] = []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.attributes += [(tag, *one) for one in attrs]
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag, f"</{tag}>"

    def handle_data(self, data: str) -> None:
        self.texts.append((self.open[-1] if self.open else "", data))


@pytest.mark.parametrize("asked", ASKED, ids=lambda one: f"{one.kind}-{one.level}-{one.environment}-{one.sku}")
def test_every_document_is_well_formed_offline_and_without_script(asked: Request) -> None:
    read = Reader(page(group(asked)))
    tags = {tag for tag, _, _ in read.attributes}
    assert not tags & {"script", "img", "link", "iframe", "form", "object"}
    assert not {name for _, name, _ in read.attributes if name.startswith("on") or name in ("src", "href")}
    [policy] = [value for _, name, value in read.attributes if name == "content" and "default-src" in str(value)]
    assert policy == "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
    ids = [value for _, name, value in read.attributes if name == "id"]
    assert len(set(ids)) == len(ids)


@pytest.mark.parametrize("asked", ASKED, ids=lambda one: f"{one.kind}-{one.level}-{one.environment}-{one.sku}")
def test_every_demand_and_step_stands_in_the_document(asked: Request) -> None:
    one = group(asked)
    text = page(one).partition("<h2>Annex A")[0]
    for demand in explain.demands(one):
        assert f">{demand.about}" in text
    for step in one.plan.steps:
        assert f"<code>{rotation.base(step.name)}</code>" in text
    many = {len(turns) for turns in rotation.turns(one.plan.steps).values()}
    assert all((f"{count} turns" in text) == (count in many) for count in range(2, 20))
    counts = explain.counts(one.plan)
    assert f"{counts['rejects']} can reject a host" in text
    assert f"{counts['rejects']} 条可否决主机" in text


def test_the_digest_is_found_by_the_commands_that_the_document_prints(tmp_path: Path) -> None:
    one = group(ASKED[3])
    [written] = criteria_page.write([one], tmp_path / "annex b.html", runs.ISSUED)
    text = written.read_text()
    assert text.count(one.digest) == 2
    commands = [html.unescape(found) for found in re.findall("<pre>(.*?)</pre>", text)]
    assert len(commands) == 3
    for command, digest in zip(commands, (one.digest, one.digest, one.plan.policy), strict=True):
        done = subprocess.run(["bash", "-c", command], cwd=tmp_path, capture_output=True, text=True, check=True)
        assert done.stdout.split()[0] == digest, command
    kept = written.with_suffix(".json").read_bytes()
    assert hashlib.sha256(kept).hexdigest() == one.plan.criteria
    assert strict.build(criteria.Criteria, json.loads(kept), "criteria") == criteria.of(one.plan)


HOSTILE = "<script>alert(1)</script>&lt;b&gt; \"'</pre><h1>annex</h1>"


def test_what_a_site_writes_is_text_and_the_digest_still_holds(tmp_path: Path) -> None:
    asked = dataclasses.replace(
        ASKED[3], site_limits=(("gpuburn_limits", {"gemm.tflops": {"min": 1, "unit": "TFLOP/s", "because": HOSTILE}}),),
        delivery="<i>po</i>",
    )  # fmt: skip
    one = group(asked, hosts=["<b>n1</b>"])
    [written] = criteria_page.write([one], tmp_path / "c.html", runs.ISSUED)
    text = written.read_text()
    assert "<script" not in text
    assert "<i>" not in text
    assert "<b>n1" not in text
    read = Reader(text)
    assert any(HOSTILE in data for _, data in read.texts)
    command = html.unescape(re.findall("<pre>(.*?)</pre>", text)[1])
    done = subprocess.run(["bash", "-c", command], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.split()[0] == one.digest


@pytest.mark.parametrize("hidden", ["\u202e", "\u2066", "\x7f", "\x1b"])
def test_a_text_that_hides_something_is_not_put_before_signers(hidden: str) -> None:
    fields = {"min": 1, "unit": "TFLOP/s", "because": f"annex{hidden}B"}
    asked = dataclasses.replace(ASKED[3], site_limits=(("gpuburn_limits", {"gemm.tflops": fields}),))
    with pytest.raises(Refused, match=rf"hidden character U\+{ord(hidden):04X}"):
        page(group(asked))


def ours() -> Iterator[str]:
    """Every text of ours that a document can show, from its source."""
    for name in profile.names():
        yield profile.load(name).doc
        for step in profile.load(name).steps:
            yield from (step.because, *(size.left_out for size in (*step.levels.values(), *step.rehearsal.values())))
    for limit in limits.load():
        yield limit.because or limit.informational
    for row in policies.load().rows:
        yield from (row.because, row.condition, row.owner)
    yield from (guard.because for guard in [*planning.GUARDS, planning.HEAT, planning.OTHERS])
    yield planning.HELD
    for probe in (*discover().values(), TELEMETRY):
        yield from (promise.doc for promise in probe.promises.values())
    yield from (*criteria_page.LEVELS.values(), *criteria_page.RULES.values())
    yield from (*criteria_page.GLOSSARY, *criteria_page.GLOSSARY.values())


def test_every_text_of_ours_has_its_chinese() -> None:
    assert {text for text in ours() if text and not chinese.data(text)} == set()


@pytest.mark.parametrize("name", sku.ids())
def test_what_a_plan_adds_has_its_chinese_for_every_sku(name: str) -> None:
    one = group(runs.hardware(profiles=BOTH, level="quick", sku=name, count=8))
    demands = explain.demands(one)
    told = [text for demand in demands for text in (demand.because, demand.cannot, demand.doc)]
    numbers = [criteria_page._signs(demand.number) for demand in demands]
    left_out = [left.why for left in one.plan.left_out]
    assert {text for text in (*told, *numbers, *left_out) if text and not chinese.data(text)} == set()


def enumerated() -> Iterator[str]:
    """Every value that a row of a policy, a plan or a profile can have, in the words for those who sign."""
    row = Row(Decision.UNDECIDED, "r", get_args(Reached), tuple(Verdict), marks=get_args(Mark))
    yield from criteria_page._cases(row)
    yield from map(str, Decision)
    yield from (*get_args(Kind), *get_args(Environment))
    yield from (step.name for name in profile.names() for step in profile.load(name).steps)


def test_every_value_of_a_row_or_plan_has_its_chinese() -> None:
    assert all(CHINESE.search(chinese.word(one)) for one in enumerated())


def test_every_entry_is_chinese_keeps_its_names_and_is_of_use() -> None:
    source = "\n".join(
        path.read_text()
        for folder, end in (("controller", "py"), ("controller/templates", "j2"), (".", "py"))
        for path in (Path(criteria_page.__file__).parents[1] / folder).glob(f"*.{end}")
    )
    known = {*ours(), *enumerated(), "the same over the host", "the same over the cohort"}
    for english, told in chinese.table().items():
        assert CHINESE.search(told), english
        assert sorted(re.findall(r"\{\w+\}", english)) == sorted(set(re.findall(r"\{\w+\}", told))), english
        words = english.partition("{")[0]
        assert english in known or "{" in english or words in source or words.replace(" ", "_") in source, english


def test_the_terms_of_the_field_are_used() -> None:
    text = page(group(ASKED[3]))
    assert [term for term in TERMS if term not in text] == []


def test_a_text_with_names_is_translated_part_by_part() -> None:
    assert chinese.data("no limit at level quick for kind hardware: compared by resume.mismatches") == (
        "等级 quick、类型 真实硬件 没有限值：由 resume.mismatches 比较"  # noqa: RUF001
    )
    assert chinese.data("what a site wrote") == ""
    with pytest.raises(Refused, match="no entry for 'nothing of ours'"):
        chinese.word("nothing of ours")


def test_hosts_with_different_criteria_have_a_document_each(tmp_path: Path) -> None:
    many = [group(ASKED[2], hosts=["n1"]), group(ASKED[3], hosts=["n2"])]
    with pytest.raises(Refused, match=r"one\.html: the hosts have 2 different criteria; wanted is --out with a folder"):
        criteria_page.write(many, tmp_path / "one.html", runs.ISSUED)
    written = criteria_page.write(many, tmp_path / "all", runs.ISSUED)
    assert [path.name for path in written] == [f"criteria-{one.digest[:12]}.html" for one in many]
    assert len(list((tmp_path / "all").iterdir())) == 4


def test_a_policy_that_is_not_here_is_said(tmp_path: Path) -> None:
    one = group(ASKED[0], policy=None)
    assert f"policy with the digest {one.plan.policy} is not at hand" in page(one)


def test_looser_demands_of_the_site_are_told_to_those_who_sign() -> None:
    fields = {"max": 5, "because": "old cards", "unit": "count"}
    one = group(dataclasses.replace(ASKED[3], site_limits=(("gpuburn_limits", {"gemm.wrong": fields}),)))
    text = page(one)
    assert "demands less than gpuburn itself does: gemm.wrong" in text
    assert "the site demands less of some quantity" in text


def test_the_command_writes_the_document_of_an_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    from gpuburn.controller.__main__ import main

    with pytest.raises(SystemExit) as ended:
        main(
            [
                "criteria",
                "--sku",
                "h200-sxm",
                "--count",
                "8",
                "--profile",
                "training",
                "--out",
                str(tmp_path / "c.html"),
            ]
        )
    assert not ended.value.code
    [one] = chosen.groups(Selection(sku="h200-sxm", count=8, profiles=["training"]))
    assert capsys.readouterr().out.split() == [one.digest, str(tmp_path / "c.html")]
    assert (tmp_path / "c.json").is_file()
