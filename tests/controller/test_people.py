"""People decide beside the policy, never over it: name and reason are kept, recap and exit status stay the policy's."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gpuburn import __version__  # noqa: F401
from gpuburn.controller import people
from gpuburn.controller.account import told
from gpuburn.controller.run import BEGAN, Run
from tests.controller.deliveries.made import FIRST, reported, tried
from tests.controller.deliveries.test_delivery import gpuburn  # noqa: F401  (a fixture)


def decide(call: Any, tmp_path: Path, *more: object, host: str = "a") -> tuple[Any, str, str]:
    given = {"--as": "rejected", "--by": "B. Uyer", "--reason": "dented", "--run": FIRST}
    pairs = dict(zip(map(str, more[::2]), more[1::2]))
    return call("decide", host, *(part for pair in {**given, **pairs}.items() for part in pair),
                "--reports", tmp_path / "reports")  # fmt: skip


def test_both_decisions_are_shown_and_the_policys_counts(tmp_path: Path, gpuburn: Any) -> None:  # noqa: F811
    run = tried(tmp_path, FIRST, {"a": "pass", "b": "pass"})
    status, out, _ = decide(gpuburn, tmp_path)
    assert status == 0 and "the policy's decision stays" in out
    assert decide(gpuburn, tmp_path, "--as", "conditional", "--condition", "fans are changed", "--owner", "the vendor",
                  "--due", "2999-01-31", "--profile", "training", host="b")[0] == 0  # fmt: skip
    found = reported(run)
    assert {host: str(one.decision) for host, one in found.items()} == {"a": "accepted", "b": "accepted"}
    assert json.loads(told(list(found.values())))["a"]["good"] is True
    assert gpuburn("report", "--run", FIRST, "--reports", tmp_path / "reports")[0] == 0
    for page in (run.folder / "index.html", run.host("a") / "index.html"):
        assert "B. Uyer" in page.read_text() and "dented" in page.read_text() and "accepted" in page.read_text()
    assert "fans are changed (the vendor, until 2999-01-31)" in (run.host("b") / "index.html").read_text()
    a, b = json.loads((run.folder / "report.json").read_text())["hosts"]
    assert (a["decision"], a["person_decisions"][0]["decision"], a["person_decisions"][0]["by"]) == (
        "accepted", "rejected", "B. Uyer",
    )  # fmt: skip
    assert (
        b["person_decisions"][0]["condition"]["due"] == "2999-01-31" and b["by_profile"]["training"]["conditions"] == []
    )


@pytest.mark.parametrize(
    ("host", "more", "says"),
    [
        ("z", (), "host: unknown 'z'; known: a"),
        ("../a", (), "unknown '../a'"),
        ("a", ("--by", ""), "--by is empty"),
        ("a", ("--by", " "), "--by is empty"),
        ("a", ("--reason", "  "), "--reason is empty"),
        ("a", ("--reason", "x" * 401), "at most 400"),
        ("a", ("--by", "A\nB"), "one line"),
        ("a", ("--as", "acepted"), "did you mean 'accepted'"),
        ("a", ("--profile", "inference"), "--profile: unknown 'inference'"),
        ("a", ("--as", "conditional"), "wanted are --condition, --owner and --due"),
        ("a", ("--as", "conditional", "--condition", "x", "--owner", "y"), "wanted are --condition"),
        ("a", ("--as", "conditional", "--condition", "x", "--owner", "y", "--due", "soon"), "--due"),
        ("a", ("--as", "conditional", "--condition", "x", "--owner", "y", "--due", "2001-01-01"), "which is over"),
        ("a", ("--as", "accepted", "--condition", "x"), "go with conditional"),
        ("a", ("--run", "20260101T000000Z-ffff"), "no such run"),
    ],
)
def test_what_a_person_may_not_say_is_refused_and_not_recorded(
    tmp_path: Path, gpuburn: Any, host: str, more: tuple[str, ...], says: str  # noqa: F811
) -> None:  # fmt: skip
    run = tried(tmp_path, FIRST, {"a": "pass"})
    status, out, err = decide(gpuburn, tmp_path, *more, host=host)
    assert (status, out) == (3, "") and says in err and err.count("\n") == 1
    assert [one.event for one in run.entries()] == [BEGAN]


@pytest.mark.parametrize("decision", ["accepted", "conditional"])
@pytest.mark.parametrize("level", ["smoke", "quick"])
def test_nobody_accepts_at_a_level_that_may_not(tmp_path: Path, gpuburn: Any, level: str, decision: str) -> None:  # noqa: F811
    tried(tmp_path, FIRST, {"a": "pass"}, level=level)
    status, _, err = decide(gpuburn, tmp_path, "--as", decision, "--condition", "", "--owner", "")
    assert status == 3 and f"--as {decision}: a hardware run at level {level} may reject, never accept" in err
    assert decide(gpuburn, tmp_path, "--as", "rejected")[0] == 0


@pytest.mark.parametrize("kind", ["rehearsal", "simulated"])
def test_nobody_accepts_what_was_only_rehearsed(kind: str) -> None:
    from gpuburn import policy
    from gpuburn.controller.run import Expected

    one = Expected("a", kind, "standard", "bare_metal", ["training"])
    assert not people.acceptable(one, policy.load())
    assert people.acceptable(Expected("a", "hardware", "soak", "vm", ["training"]), policy.load())


def test_a_cause_is_of_a_failure(tmp_path: Path, gpuburn: Any) -> None:  # noqa: F811
    run = tried(tmp_path, FIRST, {"a": "fail", "b": "pass", "c": "away"})
    where = ("--run", FIRST, "--by", "V. Endor", "--reason", "riser", "--reports", tmp_path / "reports")
    status, _, err = gpuburn("cause", "b", *where)
    assert status == 3 and f"host b passed in run {FIRST}" in err
    for host in ("a", "c"):  # failed; or came to no decision
        assert gpuburn("cause", host, *where)[0] == 0
    told = [(entry.event, entry.host, entry.details["reason"]) for entry in run.entries()[1:]]
    assert told == [("cause", "a", "riser"), ("cause", "c", "riser")]
    assert gpuburn("cause", "z", *where)[0] == 3


def test_the_journal_still_chains_and_the_last_cause_counts(tmp_path: Path, gpuburn: Any) -> None:  # noqa: F811
    run = tried(tmp_path, FIRST, {"a": "fail"})
    for reason in ("riser", "the riser's screw"):
        gpuburn("cause", "a", "--run", FIRST, "--by", "V", "--reason", reason, "--reports", tmp_path / "reports")
    assert str(people.cause(run.entries())) == "the riser's screw (V)"
    assert Run.of(tmp_path / "reports", FIRST).entries()[-1].number == 3
