"""The documentation says what the code is: generated parts are equal, and what is named exists.

GPUBURN_WRITE_DOCS=1 writes the generated parts anew instead of comparing them.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer

from gpuburn import profile
from gpuburn.agent.__main__ import _parser
from gpuburn.controller import documents, site, status
from gpuburn.controller.__main__ import program
from gpuburn.controller.exports.prometheus import METRICS
from gpuburn.probe import discover
from gpuburn.telemetry import TELEMETRY

ROOT = Path(__file__).parents[1]
DOCS = sorted((ROOT / "docs").glob("*.md"))
PAGES = [ROOT / "README.md", ROOT / "README.zh.md", ROOT / "tests/README.md", *DOCS]
ELSEWHERE = ("reports",)  # folders whose contents a run makes
VARIABLE = re.compile(r"\bgpuburn_[a-z][a-z_]*")
FILE = re.compile(r"[\w.-]+(?:/[\w.-]+)+/?|[\w-]+\.(?:md|yml|cfg|toml)")
each_page = pytest.mark.parametrize("page", PAGES, ids=lambda one: one.relative_to(ROOT).as_posix())


def fenced(text: str) -> Iterator[str]:
    """The command lines of all sh blocks, without their comments."""
    for block in re.findall(r"^```sh\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
        for line in block.splitlines():
            if command := re.sub(r"\s+#.*", "", line).strip():
                yield command


def spans(text: str) -> list[str]:
    """What stands between single backticks, outside of fenced blocks."""
    return re.findall(r"`([^`\n]+)`", re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL))


def code(page: Path) -> list[str]:
    text = page.read_text()
    return [*fenced(text), *spans(text)]


@pytest.mark.parametrize("page", DOCS, ids=lambda one: one.name)
def test_generated_parts_are_what_the_code_says(page: Path) -> None:
    made = documents.filled(page.read_text())
    if os.environ.get("GPUBURN_WRITE_DOCS") == "1":
        page.write_text(made)
    assert page.read_text() == made, "run this test with GPUBURN_WRITE_DOCS=1 and read the difference"


def test_the_exit_statuses_that_operating_names_are_those_of_the_code() -> None:
    text = (ROOT / "docs/operating.md").read_text()
    assert f"| `gpuburn` | {status.ACCEPTED} / {status.USAGE} / {status.INTERNAL} | done / refused input" in text
    decided = f"{status.REJECTED} / {status.UNDECIDED} / {status.CONDITIONAL}"
    assert f"| {decided} | some host is rejected / undecided or untested / conditional" in text


def test_every_generated_part_stands_in_one_document() -> None:
    text = "\n".join(page.read_text() for page in DOCS)
    for name in documents.PARTS:
        assert text.count(documents.BEGIN.format(name)) == 1
        assert text.count(documents.END.format(name)) == 1


def test_a_bar_in_a_cell_does_not_end_it() -> None:
    assert documents.table(("a",), [("x|y",)]).splitlines()[-1] == r"| x\|y |"


@each_page
def test_make_targets_that_are_named_exist(page: Path) -> None:
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert {one.split()[1] for one in code(page) if one.startswith("make ")} <= targets


@each_page
def test_playbooks_that_are_named_exist(page: Path) -> None:
    for one in code(page):
        if one.startswith("ansible-playbook ") and not one.split()[1].startswith("-"):
            assert (ROOT / one.split()[1]).is_file(), one


@each_page
def test_subcommands_that_are_named_exist(page: Path) -> None:
    top = typer.main.get_command(program())
    known = {f"gpuburn {name}" for name in top.commands}  # type: ignore[attr-defined]
    known |= {f"gpuburn sku {name}" for name in top.commands["sku"].commands}  # type: ignore[attr-defined]
    actions = [one for one in _parser()._actions if one.dest == "command"]
    known |= {f"gpuburn-agent {name}" for one in actions for name in one.choices or ()}
    for one in code(page):
        for words in re.findall(r"(?:^|/| )((?:gpuburn sku|gpuburn|gpuburn-agent) [a-z][\w-]*)", one):
            assert words in known, one


@each_page
def test_files_and_folders_that_are_named_exist(page: Path) -> None:
    tops = {one.name for one in ROOT.iterdir() if not one.name.startswith(".") and one.name not in ELSEWHERE}
    for one in spans(page.read_text()):
        if FILE.fullmatch(one):
            first = one.split("/")[0]
            if first in tops:
                assert (ROOT / one).exists(), one
            elif first in ("agent", "controller"):
                assert (ROOT / "gpuburn" / one).exists(), one


@each_page
def test_variables_that_are_named_exist(page: Path) -> None:
    known = {name for name, _, _ in site.document()} | set(site.INTERNAL) | set(METRICS)
    known |= {
        one.stem for place in ("playbooks/callback_plugins", "tests/fakes/faults") for one in ROOT.glob(f"{place}/*.py")
    }
    named = {one for one in VARIABLE.findall(page.read_text()) if not one.startswith(site.LIMITS)}
    assert named <= known


def test_every_probe_has_its_section_and_every_profile_is_named() -> None:
    text = (ROOT / "docs/methods.md").read_text()
    sections = re.findall(r"^## (\w+)$", text, re.MULTILINE)
    assert {*discover(), TELEMETRY.name} <= set(sections)
    assert all(f"`{name}`" in text for name in profile.names())


def test_no_page_sends_a_reader_to_notes_that_are_not_shipped() -> None:
    for page in PAGES:
        assert not re.search(r"\b(stress|inference)\.md\b", page.read_text()), page


def test_messages_that_are_explained_are_said_somewhere() -> None:
    said = "\n".join(
        path.read_text()
        for place, end in (("gpuburn", "py"), ("gpuburn", "yml"), ("roles", "yml"))
        for path in (ROOT / place).rglob(f"*.{end}")
    )
    text = (ROOT / "docs/operating.md").read_text().partition("## Troubles")[2]
    messages = re.findall(r"^\| `([^`]+)` \|", text, re.MULTILINE)
    assert len(messages) > 8
    for message in messages:
        for part in filter(None, (one.strip() for one in message.split("..."))):
            assert part in said, message


def test_every_folder_of_tests_is_explained() -> None:
    text = (ROOT / "tests/README.md").read_text()
    for folder in sorted(one.parent for one in (ROOT / "tests").rglob("test_*.py")):
        name = folder.relative_to(ROOT).as_posix()
        assert f"`{name}/`" in text, name


def test_both_readmes_name_the_same_commands_files_and_variables() -> None:
    english, chinese = ((ROOT / name).read_text() for name in ("README.md", "README.zh.md"))
    assert list(fenced(english)) == list(fenced(chinese))
    assert set(VARIABLE.findall(english)) == set(VARIABLE.findall(chinese))
    for pick in (FILE.fullmatch, re.compile(r"(make|ansible-playbook|\S*gpuburn) .*").fullmatch):
        theirs = {one for one in spans(chinese) if pick(one)} - {"README.md"}
        ours = {one for one in spans(english) if pick(one)} - {"README.zh.md"}
        assert ours == theirs
