"""A run with BMCs, from the look at the start to the page: kept, vouched for, judged, and no word of the password."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import fleets
import pytest
import runs

from gpuburn import strict
from gpuburn.bmc import Look
from gpuburn.controller import account, reach, report
from gpuburn.controller.bmc import fleet, kept
from gpuburn.controller.run import Run
from tests.controller.bmc import tree
from tests.controller.bmc.server import PASSWORD, USER, Bmc

SEL = "Systems/System_0/LogServices/SEL/Entries"


def variables(bmc: Bmc, **changed: Any) -> dict[str, dict[str, Any]]:
    mine = {"gpuburn_bmc_address": bmc.address, "gpuburn_bmc_user": USER, "gpuburn_bmc_password": PASSWORD,
            "gpuburn_bmc_fingerprint": bmc.fingerprint, **changed}  # fmt: skip
    return {"node0": mine}


@pytest.fixture
def run(tmp_path: Path, bmc: Bmc) -> Run:
    """A host that says the serial number that its BMC says."""
    bmc.tree["Systems/System_0"]["SerialNumber"] = "product_serial of node0"
    return fleets.run(tmp_path / "reports", 1, bmc="fingerprint")


def found(run: Run) -> dict[str, str]:
    """{code: verdict} of what the BMC adds to the host, without what agrees or is listed."""
    [one] = account.give(run, runs.ISSUED)
    return {f.code: str(f.verdict) for f in one.fleet if f.code.startswith("bmc.") and (f.marginal or str(f.verdict) in
            ("fail", "incomplete"))}  # fmt: skip


def both(run: Run, bmc: Bmc, between: Any = None) -> dict[str, str]:
    told = fleet.ask(run, "start", variables(bmc), 10.0)
    if between:
        between()
    return told | fleet.ask(run, "end", variables(bmc), 20.0)


def test_two_looks_are_kept_and_vouched_for(run: Run, bmc: Bmc) -> None:
    assert both(run, bmc) == {"node0": ""}
    looks = kept.looks(run, "node0", run.by_host()["node0"])
    assert [(one.moment, one.at, one.verified) for one in looks] == [("start", 10.0, "fingerprint"),
                                                                     ("end", 20.0, "fingerprint")]  # fmt: skip
    last = run.entries()[-1]
    digest = strict.digest(kept.path(run, "node0").read_bytes())
    assert (last.event, last.details["sha256"], last.details["moment"]) == ("bmc.look", digest, "end")
    # It counts 8 GPUs where this host's rehearsal has 3 processes.
    assert found(run) == {"bmc.gpu_count": "fail"}


def test_a_critical_line_during_the_run_fails_the_host_and_stands_on_its_page(run: Run, bmc: Bmc) -> None:
    line = tree.entry(9, "Critical", "<b>PSU1</b> lost AC")
    both(run, bmc, lambda: bmc.tree[SEL]["Members"].append(line))
    assert found(run)["bmc.event_critical"] == "fail"
    report.make(run, runs.ISSUED)
    page = (run.host("node0") / "index.html").read_text()
    assert "&lt;b&gt;PSU1&lt;/b&gt; lost AC" in page and "as pinned by the site" in page
    assert 'href="run/../bmc.json"' in page and "inlet 23.5 C" in page
    [one] = json.loads((run.folder / "report.json").read_bytes())["hosts"]
    assert "bmc.event_critical" in [f["code"] for f in one["findings"]]


def test_the_bmc_of_another_machine_is_told(run: Run, bmc: Bmc) -> None:
    bmc.tree["Systems/System_0"]["SerialNumber"] = "product_serial of node7"
    both(run, bmc)
    assert found(run)["bmc.differs"] == "fail"


def test_a_supply_that_failed_is_marginal(run: Run, bmc: Bmc) -> None:
    bmc.tree["Chassis/Chassis_0/PowerSubsystem/PowerSupplies/PSU1"]["Status"] = {
        "State": "Enabled",
        "Health": "Critical",
    }
    both(run, bmc)
    assert found(run)["bmc.supply"] == "pass"


def test_a_bmc_that_is_named_and_silent_is_incomplete(run: Run, bmc: Bmc) -> None:
    told = fleet.ask(run, "start", variables(bmc, gpuburn_bmc_password="other"), 10.0)
    assert "refused the account" in told["node0"]
    assert found(run) == {"bmc.silent": "incomplete"}
    [one] = account.give(run, runs.ISSUED)
    assert str(account.verdict(one.way, one.fleet, "training")) == "incomplete"


def test_a_host_whose_bmc_was_never_asked_is_incomplete(run: Run) -> None:
    assert found(run) == {"bmc.silent": "incomplete"}


def test_a_host_that_names_none_owes_nothing(tmp_path: Path) -> None:
    run = fleets.run(tmp_path / "reports", 1)
    assert found(run) == {} and fleet.ask(run, "start", {}, 1.0) == {}
    assert not kept.path(run, "node0").exists()


def test_a_look_that_was_changed_afterwards_says_nothing(run: Run, bmc: Bmc) -> None:
    both(run, bmc)
    runs.edit(kept.path(run, "node0"), lambda looks: looks[1].update(gpus=3))
    assert found(run) == {"bmc.unread": "incomplete"}


def test_a_look_that_was_removed_is_missed(run: Run, bmc: Bmc) -> None:
    both(run, bmc)
    kept.path(run, "node0").unlink()
    assert found(run) == {"bmc.unread": "incomplete"}


def test_the_start_is_looked_at_once_and_never_after_the_host_was_at_work(run: Run, bmc: Bmc) -> None:
    fleet.ask(run, "start", variables(bmc), 10.0)
    assert fleet.ask(run, "start", variables(bmc), 11.0) == {}
    run.note(12.0, "started", "node0")
    kept.path(run, "node0").unlink()
    run.journal.unlink()
    run.note(12.0, "started", "node0")
    assert fleet.ask(run, "start", variables(bmc), 13.0) == {}


def test_the_first_finding_is_looked_at_once_while_the_host_is_at_work(run: Run, bmc: Bmc) -> None:
    fleet.ask(run, "start", variables(bmc), 10.0)
    assert fleet.ask(run, "finding", variables(bmc), 11.0) == {}, "nothing was started"
    run.note(12.0, "started", "node0")
    bmc.tree[SEL]["Members"].append(tree.entry(9, "Critical", "GPU3 fell off the bus"))
    assert fleet.ask(run, "finding", variables(bmc), 13.0) == {"node0": ""}
    assert fleet.ask(run, "finding", variables(bmc), 14.0) == {}
    bmc.tree[SEL]["Members"].pop()
    fleet.ask(run, "end", variables(bmc), 20.0)
    looks = kept.looks(run, "node0", run.by_host()["node0"])
    assert [(one.moment, one.at) for one in looks] == [("start", 10.0), ("finding", 13.0), ("end", 20.0)]
    assert found(run)["bmc.event_critical"] == "fail"
    report.make(run, runs.ISSUED)
    assert "first hardware finding" in (run.host("node0") / "index.html").read_text()


def test_the_end_is_looked_at_until_the_result_was_home(run: Run, bmc: Bmc) -> None:
    both(run, bmc)
    assert fleet.ask(run, "end", variables(bmc), 21.0) == {"node0": ""}
    reach.collect(run, 22.0)
    assert fleet.ask(run, "end", variables(bmc), 23.0) == {}


def test_the_password_stands_nowhere(run: Run, bmc: Bmc, capsys: pytest.CaptureFixture[str]) -> None:
    both(run, bmc, lambda: bmc.tree[SEL]["Members"].append(tree.entry(5, "Warning", f"user sent {PASSWORD}")))
    reach.collect(run, 22.0)
    report.make(run, runs.ISSUED)
    word = PASSWORD.split()[0]  # however often its quotation marks are escaped
    files = [path for path in run.folder.parent.rglob("*") if path.is_file()]
    assert len(files) > 5
    assert [path for path in files if word.encode() in path.read_bytes()] == []
    out = capsys.readouterr()
    assert word not in out.out + out.err


def test_a_look_that_never_ends_holds_up_nobody() -> None:
    free = threading.Event()
    ready = Look("start", 1.0, "ca")

    def stuck() -> Look:
        free.wait(60)
        return ready

    wanted = {"a": stuck, **{f"h{one}": (lambda: ready) for one in range(5)}}
    try:
        assert dict(fleet.every(wanted, 0.2, at_once=2)) == {"a": None, **{f"h{one}": ready for one in range(5)}}
    finally:
        free.set()
