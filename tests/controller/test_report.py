"""The report: pages that no host can write into, cells that no spreadsheet runs, a row for everyone."""

from __future__ import annotations

import csv
import dataclasses
import html.parser
import io
import json
from pathlib import Path
from typing import Any

import pytest
import runs

from gpuburn import run_folder, strict
from gpuburn.controller import account, report
from gpuburn.controller.report import COLUMNS, safe_cell, shown, utc
from gpuburn.controller.run import Expected, Run
from gpuburn.identity import Event
from gpuburn.plan import Place, Plan

EVIL = "<script>alert(1)</script><img src=x onerror=alert(1)>\"'&{{7*7}}"
NOW = runs.ISSUED + 60


class Page(html.parser.HTMLParser):
    """What a browser would see: tags, attributes and text."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str]] = []
        self.text = ""
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(name, value or "") for name, value in attrs]

    def handle_data(self, data: str) -> None:
        self.text += data


def written(run: Run, now: float = NOW) -> Run:
    report.write(run, account.give(run, now), now)
    return run


def pages(run: Run) -> list[Path]:
    return [run.folder / "index.html", *run.folder.glob("hosts/*/index.html")]


@pytest.fixture
def hostile(tmp_path: Path, rehearsal: Plan) -> Run:
    """A host and a site that put HTML, formulas and control characters wherever they may write."""
    plan = dataclasses.replace(
        rehearsal, delivery=EVIL, place=Place(EVIL, "=1+1", EVIL), notes=[EVIL],
        limits=[dataclasses.replace(one, because=EVIL if one.because else "") for one in rehearsal.limits],
    )  # fmt: skip
    run = runs.home(tmp_path / "reports", plan)
    (run.folder / "expected.json").unlink()
    run.expect([
        runs.expected(plan, rack=EVIL, unit="=1+1", power_domain=EVIL),
        Expected("node2", "rehearsal", "smoke", "bare_metal", ["training"], rack='=HYPERLINK("http://x")'),
    ])  # fmt: skip
    events = [
        Event(run_folder.BOOT, 1e300, "host", EVIL), Event("kernel.xid", 1e300, EVIL, EVIL + "\u202etxt"),
        Event(EVIL, -1e300, EVIL, "\x1b[31m" + "x" * 5000), Event(run_folder.KERNEL_LOG_LOST, 2.0, "host", EVIL),
    ]  # fmt: skip
    folder = tmp_path / "node1"
    answers = runs.answers(plan)
    answers["gemm"] = [
        dataclasses.replace(one, value=EVIL + one.subject) if hasattr(one, "name") else one for one in answers["gemm"]
    ]
    runs.write(folder, plan, answers, events, lambda one: dataclasses.replace(one, why=EVIL))
    looks = [runs.look(sources={EVIL: {EVIL: EVIL}, "dmi": {"product_serial": EVIL}}, missing={EVIL: EVIL})]
    (folder / "identity.json").write_bytes(strict.encode(looks))
    runs.conclude(folder, plan)
    runs.edit(
        folder / "result.json", lambda d: d.update(hostname=EVIL, versions={EVIL: EVIL}, started=1e300, ended=-1e300)
    )
    from gpuburn.agent.seal import seal

    seal(folder)
    runs.bring(run, "node1", folder)
    run.note(1.0, "failed", "node2", task=EVIL, why=EVIL + "\x00\x1b]0;x\x07")
    return written(run)


def test_nothing_that_a_host_says_becomes_a_tag_or_an_attribute(hostile: Run) -> None:
    accounts = account.give(hostile, NOW)
    assert {one.reached for one in accounts} == {"judged", "not_started"}
    for path in pages(hostile):
        page = Page(path)
        assert not {"script", "img", "iframe", "object", "form", "link", "base"} & set(page.tags)
        assert not [name for name, _ in page.attributes if name.startswith("on")]
        assert {
            value.split(":")[0] for name, value in page.attributes if name in ("href", "src") and ":" in value
        } == set()
        assert "<script>alert(1)</script>" in page.text or path.name == "index.html"
        assert "49" not in page.text.replace("x" * 10, "").split("{{7*7}}")[0][-3:]


def test_control_and_direction_characters_are_shown_as_what_they_are(hostile: Run) -> None:
    for path in pages(hostile):
        text = path.read_text(encoding="utf-8")
        assert not {"\x00", "\x07", "\x1b", "\u202e"} & set(text)
        assert "x" * (report.LONGEST + 1) not in text


def test_every_page_forbids_scripts_and_foreign_sources(hostile: Run) -> None:
    for path in pages(hostile):
        page = Page(path)
        assert ("http-equiv", "Content-Security-Policy") in page.attributes
        policy = next(value for name, value in page.attributes if name == "content" and "default-src" in value)
        assert "default-src 'none'" in policy
        assert "script-src" not in policy
        assert "script" not in page.tags


def test_no_cell_is_a_formula(hostile: Run) -> None:
    rows = list(csv.reader(io.StringIO((hostile.folder / "findings.csv").read_text(encoding="utf-8"), newline="")))
    assert tuple(rows[0]) == COLUMNS
    assert {len(row) for row in rows} == {len(COLUMNS)}
    assert not [cell for row in rows for cell in row if cell[:1] in "=+-@\t\r\n" and cell]
    assert [row[1] for row in rows if row[0] == "node2"] == ['\'=HYPERLINK("http://x")']
    assert {row[2] for row in rows if row[0] == "node1"} == {"'=1+1"}


@pytest.mark.parametrize(
    "text", ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", "\n=1", "=cmd|'/c calc'!A1", " =1", "\uff1d1", "\uff20SUM"]
)
def test_a_cell_that_a_spreadsheet_would_run_is_quoted(text: str) -> None:
    assert safe_cell(text)[0] in "'\ufffd"


@pytest.mark.parametrize("text", ["", "pass", "a=b", "1.5 GB/s", "cpu0"])
def test_a_plain_cell_stays_as_it_is(text: str) -> None:
    assert safe_cell(text) == text


def test_a_text_is_bounded_and_what_is_no_text_is_left(hostile: Run) -> None:
    assert shown("a" * 10_000) == "a" * (report.LONGEST - 1) + "…" and shown("a" * report.LONGEST)[-1] == "a"
    assert shown("a\x00b\u202ec") == "a\ufffdb\ufffdc"
    assert shown("a\tb\nc") == "a\tb\nc"
    assert shown(7) == 7


@pytest.mark.parametrize("at", [1e300, -1e300, 1e18, float(2**62)])
def test_a_moment_that_no_calendar_has_is_printed_as_a_number(at: float) -> None:
    assert utc(at).endswith(" s")


def test_a_moment_is_printed_in_utc() -> None:
    assert utc(runs.ISSUED) == "2026-01-01 00:00:00 UTC"


def index_of(run: Run) -> Page:
    return Page(run.folder / "index.html")


def test_every_expected_host_has_a_row_and_a_page(tmp_path: Path, rehearsal: Plan) -> None:
    run = Run.of(tmp_path, runs.RUN)
    run.expect([Expected(f"node{index}", "hardware", "standard", "bare_metal", ["training"]) for index in range(5)])
    written(run)
    links = [value for name, value in index_of(run).attributes if name == "href"]
    for index in range(5):
        assert f"hosts/node{index}/index.html" in links
        assert (run.host(f"node{index}") / "index.html").exists()
    assert "untested" in index_of(run).text
    assert "5 host(s) expected" in index_of(run).text


def test_the_only_host_that_is_lost_has_its_row(tmp_path: Path, bare_metal: Plan) -> None:
    run = runs.home(tmp_path, bare_metal)
    run.note(1.0, "phase", "node1", phase="running")
    run.note(bare_metal.deadline, "watched", until=bare_metal.deadline)
    written(run, bare_metal.deadline + 1)
    assert "rejected" in index_of(run).text
    [row] = csv.DictReader(io.StringIO((run.folder / "findings.csv").read_text()))
    assert (row["host"], row["decision"], row["code"]) == ("node1", "rejected", "lost")


def test_pages_table_and_document_agree(tmp_path: Path, rehearsal: Plan) -> None:
    run = runs.home(tmp_path / "reports", rehearsal)
    runs.write(tmp_path / "node1", rehearsal)
    runs.bring(run, "node1", tmp_path / "node1")
    written(run)
    document = json.loads((run.folder / "report.json").read_bytes())
    [host] = document["hosts"]
    rows = list(csv.DictReader(io.StringIO((run.folder / "findings.csv").read_text())))
    assert len(rows) == len(host["findings"])
    assert document["decisions"] == {"trial passed": 1}
    assert host["by_profile"]["training"]["verdict"] == "pass"
    assert {row["decision"] for row in rows} == {"trial passed"}
    page = Page(run.host("node1") / "index.html")
    assert "trial passed" in index_of(run).text
    for limit in rehearsal.limits:
        assert limit.about in page.text
        assert (limit.because or limit.informational)[:60] in page.text
    for link in [value for name, value in page.attributes if name == "href" and value.startswith("run/")]:
        assert (run.host("node1") / link).exists(), link


def test_what_was_not_tested_is_told(tmp_path: Path, rehearsal: Plan) -> None:
    run = runs.home(tmp_path, rehearsal)
    written(run)
    text = index_of(run).text
    for one in rehearsal.left_out[:3]:
        assert one.what.partition(" in step ")[0].rpartition(".")[2] in text
        assert one.why in text


def test_what_the_same_steps_leave_out_for_the_same_reason_is_one_row(tmp_path: Path, rehearsal: Plan) -> None:
    rows = report.not_tested(account.give(runs.home(tmp_path, rehearsal), runs.ISSUED))
    telemetry = [what for what, _, _ in rows if what.startswith("telemetry: ")]
    assert len(telemetry) == 1 and "power_limit, " in telemetry[0] and len(telemetry[0]) < report.LONGEST
    told = {name for row, _, _ in rows for name in _told(row.partition(" in ")[0])}
    assert told == {one.what.partition(" in step ")[0] for one in rehearsal.left_out}


def _told(row: str) -> list[str]:
    """The quantities of a row, each under its whole name again."""
    parts = [part.partition(": ") for part in row.split("; ")]
    return [f"{probe}.{name}" if names else name
            for probe, _, names in parts for name in (names or probe).split(", ")]  # fmt: skip


def test_a_broken_journal_is_told_on_the_first_page(tmp_path: Path, rehearsal: Plan) -> None:
    run = runs.home(tmp_path, rehearsal)
    run.note(1.0, "phase", "node1", phase="running")
    assert "1 lines, unbroken" in index_of(written(run)).text
    run.journal.write_bytes(b"garbage\n")
    assert "broken: journal.jsonl:1" in index_of(written(run)).text


def test_the_report_is_the_same_for_the_same_run(tmp_path: Path, rehearsal: Plan) -> None:
    run = runs.home(tmp_path / "reports", rehearsal)
    runs.write(tmp_path / "node1", rehearsal)
    runs.bring(run, "node1", tmp_path / "node1")
    first: dict[str, Any] = {path: path.read_bytes() for path in pages(written(run))}
    assert {path: path.read_bytes() for path in pages(written(run))} == first


def test_marks_of_our_own_are_markup_and_not_shown_as_text(tmp_path: Path, rehearsal: Plan) -> None:
    """What a macro makes is not escaped a second time; what a host says is."""
    run = runs.home(tmp_path, rehearsal)
    written(run)
    for page in (run.folder / "index.html", run.host(rehearsal.host) / "index.html"):
        text = page.read_text()
        assert "&lt;span" not in text and '<span class="v ' in text


def test_the_criteria_are_named_on_every_page_and_counted_on_the_index(tmp_path: Path, rehearsal: Plan) -> None:
    plans = [
        dataclasses.replace(rehearsal, host="node1"),
        dataclasses.replace(rehearsal, host="node2"),
        dataclasses.replace(rehearsal, host="node3", criteria="3" * 64),
    ]
    run = runs.home(tmp_path / "reports", *plans[:2])
    runs.write(tmp_path / "node1", plans[0])
    runs.bring(run, "node1", tmp_path / "node1")
    written(run)
    assert "All 2 host(s) by the same criteria" in " ".join(index_of(run).text.split())
    for path in pages(run):
        assert rehearsal.criteria in Page(path).text
    assert json.loads((run.folder / "report.json").read_bytes())["criteria"] == {rehearsal.criteria: 2}
    assert json.loads((tmp_path / "node1" / "result.json").read_bytes())["criteria"] == rehearsal.criteria

    run = runs.home(tmp_path / "other", *plans)
    run.expect([Expected("node4", "rehearsal", "smoke", "bare_metal", ["training"])])
    written(run)
    text = " ".join(index_of(run).text.split())
    assert "Not all hosts were judged by the same criteria" in text
    assert f"{rehearsal.criteria}2 {'3' * 64}1 no plan reached them1" in text
    document = json.loads((run.folder / "report.json").read_bytes())
    assert document["criteria"] == {rehearsal.criteria: 2, "3" * 64: 1}


def test_the_decision_rule_is_printed(hostile: Run) -> None:
    report.make(hostile, NOW)
    page = (hostile.folder / "index.html").read_text()
    assert "Decision rule: simple acceptance" in page
    assert json.loads((hostile.folder / "report.json").read_bytes())["decision_rule"] == "simple"
