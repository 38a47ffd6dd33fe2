"""A run of three hosts that came home and were collected, as the tests of hostile files find it."""

from __future__ import annotations

import contextlib
import dataclasses
import io
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import runs

from caught import hosts
from gpuburn.controller import report
from gpuburn.controller.__main__ import main
from gpuburn.controller.run import Run


@dataclasses.dataclass
class Fleet:
    """run: the copy that one test spoils. told: what the report says of every host where nothing is spoilt."""

    run: Run
    told: dict[str, Any]

    def report(self) -> dict[str, Any]:
        """{host: what the report says of it}, after the pages were written."""
        report.make(self.run, hosts.NOW)
        document = json.loads((self.run.folder / "report.json").read_bytes())
        return {one["host"]: one for one in document["hosts"]}

    def others_stand(self) -> dict[str, Any]:
        """Report; the other hosts are judged as if nothing had happened. Returns what is said of the host `bad`."""
        said = self.report()
        bad = said.pop("bad")
        assert said == {name: one for name, one in self.told.items() if name != "bad"}
        return bad  # type: ignore[no-any-return]

    def refused(self, file: str, says: str) -> None:
        """The host is undecided, by one line that names the file and the reason, and the others stand."""
        bad = self.others_stand()
        assert (bad["decision"], bad["reached"]) == ("undecided", "refused"), bad["reason"]
        reason = bad["reason"]
        assert file in reason and says in reason and "\n" not in reason and len(reason) < 700, reason


@pytest.fixture(scope="session")
def collected(tmp_path_factory: pytest.TempPathFactory) -> Fleet:
    reports = tmp_path_factory.mktemp("collected")
    plan = hosts.plan(count=1)
    run = hosts.fleet(reports, plan, 2)
    hosts.sent(run, plan, hosts.changed(plan, "gemm", "wrong", 1.0))
    with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):
        main(["collect", "--run", runs.RUN, "--reports", str(reports)])
    one = Fleet(run, {})
    one.told = one.report()
    assert {name: host["decision"] for name, host in one.told.items()} == {
        "bad": "rejected", "good0": "accepted", "good1": "accepted",
    }  # fmt: skip
    return one


@pytest.fixture
def fleet(collected: Fleet, tmp_path: Path) -> Fleet:
    """A copy of the run, to be spoilt."""
    shutil.copytree(collected.run.folder, tmp_path / collected.run.id)
    return Fleet(Run.of(tmp_path, collected.run.id), collected.told)
