"""Files of a run on the controller that were changed, or replaced: nothing is better for it, and one line says what."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import runs
import yaml

from caught import hostile, hosts
from caught.conftest import Fleet
from caught.hostile import TEXTS, THINGS, Bytes
from gpuburn import policy as policies
from gpuburn.controller import status
from gpuburn.controller.__main__ import main

each_text = pytest.mark.parametrize("change", [change for change, _ in TEXTS.values()], ids=TEXTS)
each_thing = pytest.mark.parametrize("put", THINGS.values(), ids=THINGS)


def stands(fleet: Fleet) -> None:
    assert fleet.others_stand() == fleet.told["bad"]


@pytest.mark.parametrize("change", [TEXTS[name][0] for name in ("half of it", "a key twice", "nothing")])
def test_what_is_kept_of_a_host_is_made_anew(fleet: Fleet, change: Bytes) -> None:
    kept = fleet.run.host("bad") / "judged.json"
    kept.write_bytes(change(kept.read_bytes()))
    stands(fleet)


def test_what_is_kept_of_a_host_cannot_be_bettered(fleet: Fleet) -> None:
    kept = fleet.run.host("bad") / "judged.json"
    better = json.loads(kept.read_bytes())
    better.update(findings=[], verdicts={"training": "pass"}, met=["training"])
    kept.write_text(json.dumps(better))
    stands(fleet)


@pytest.mark.parametrize("put", [hostile.sparse, hostile.link, hostile.pipe, hostile.device])
def test_what_is_kept_of_a_host_is_no_file(fleet: Fleet, put: Any) -> None:
    put(fleet.run.host("bad") / "judged.json")
    stands(fleet)


def test_a_folder_stands_where_a_judgement_is_kept(fleet: Fleet) -> None:
    hostile.folder(fleet.run.host("bad") / "judged.json")
    bad = fleet.others_stand()
    assert bad["decision"] == "undecided" and "judged.json: is a folder" in bad["reason"]


@pytest.mark.parametrize("put", [hostile.link, hostile.pipe, hostile.folder, hostile.device])
def test_an_unpacked_copy_that_is_no_file_is_not_read(fleet: Fleet, put: Any) -> None:
    put(fleet.run.host("bad") / "run" / "steps/gemm/readings.gpu0.jsonl")
    stands(fleet)


def test_an_unpacked_copy_that_was_changed_is_not_what_is_shown(fleet: Fleet) -> None:
    with (fleet.run.host("bad") / "run" / "steps/gemm/readings.gpu0.jsonl").open("ab") as file:
        file.write(b"\n")
    stands(fleet)


@each_text
def test_a_line_of_the_journal(fleet: Fleet, change: Bytes) -> None:
    """What follows it is not believed; what came home is judged from its evidence."""
    lines = fleet.run.journal.read_bytes().splitlines(keepends=True)
    fleet.run.journal.write_bytes(b"".join([change(lines[0]), *lines[1:]]))
    stands(fleet)
    assert "broken: " in (fleet.run.folder / "index.html").read_text()


def test_a_line_of_the_journal_that_says_something_else(fleet: Fleet) -> None:
    whole = fleet.run.journal.read_bytes()
    assert b'"host":"good0"' in whole
    fleet.run.journal.write_bytes(whole.replace(b'"host":"good0"', b'"host":"good9"', 1))
    stands(fleet)
    assert "a line before it is missing or changed" in (fleet.run.folder / "index.html").read_text()


@each_thing
def test_a_journal_that_is_no_file(fleet: Fleet, put: Any) -> None:
    put(fleet.run.journal)
    stands(fleet)


def one_line(fleet: Fleet, capfd: pytest.CaptureFixture[str], file: str) -> str:
    """The report is refused as a whole, in one line that names the file; nothing is decided about any host."""
    with pytest.raises(SystemExit) as ended:
        main(["report", "--run", runs.RUN, "--reports", str(fleet.run.folder.parent), "--json"])
    said = capfd.readouterr()
    assert ended.value.code == status.USAGE, said.err
    assert said.out == "" and said.err.count("\n") == 1 and len(said.err) < 1000, said.err
    assert said.err.startswith("gpuburn: ") and file in said.err and "Traceback" not in said.err
    return said.err


@each_text
def test_the_list_of_expected_hosts(fleet: Fleet, change: Bytes, capfd: pytest.CaptureFixture[str]) -> None:
    file = fleet.run.folder / "expected.json"
    file.write_bytes(change(file.read_bytes()))
    one_line(fleet, capfd, "expected.json")


@each_thing
def test_the_list_of_expected_hosts_is_no_file(fleet: Fleet, put: Any, capfd: pytest.CaptureFixture[str]) -> None:
    put(fleet.run.folder / "expected.json")
    one_line(fleet, capfd, "expected.json")


YAML = {
    "half of it": b"rows:\n  - {decision: accepted, because: [",
    "a key twice": b"rows: []\nrows: []\n",
    "NaN": b"rows: []\ndecay: {share: .nan}\n",
    "infinity": b"rows: []\ndecay: {share: .inf}\n",
    "a depth of 100,000": b"rows: " + b"[" * 100_000,
    "an integer of 5,000 digits": b"rows: []\nbreaker: {hosts: " + b"9" * 5000 + b"}\n",
    "a date that no calendar has": b"rows: []\npeers: 2026-02-31\n",
    "NUL": b"rows: []\npeers: \"\0\"\n",
    "other bytes than UTF-8": b"\xff\xfe\x00\x00",
    "nothing": b"",
    "a list": b"- 1\n",
    "a program": b"rows: !!python/object/apply:os.system [id]\n",
    "another word": b"rows: []\nrwos: []\n",
    "a billion laughs": b"".join(
        [b'a0: &a0 ["ha", "ha"]\n', *(b"a%d: &a%d [*a%d, *a%d]\n" % (i, i, i - 1, i - 1) for i in range(1, 40)),
         b"rows: [*a39]\n"]
    ),
}  # fmt: skip


@pytest.mark.parametrize("data", YAML.values(), ids=YAML)
def test_the_policy_that_the_run_keeps(fleet: Fleet, data: bytes, capfd: pytest.CaptureFixture[str]) -> None:
    (fleet.run.folder / "policy.yml").write_bytes(data)
    one_line(fleet, capfd, "policy.yml")


@each_thing
def test_the_policy_that_the_run_keeps_is_no_file(fleet: Fleet, put: Any, capfd: pytest.CaptureFixture[str]) -> None:
    """A link is followed, as a site may keep its own files so; here it leads to the same policy."""
    policy = fleet.run.folder / "policy.yml"
    policy.write_bytes(policies.FILE.read_bytes())
    put(policy)
    if put is hostile.link:
        stands(fleet)
    else:
        one_line(fleet, capfd, "dev/zero" if put is hostile.device else "policy.yml")


@pytest.mark.parametrize("kept", [True, False], ids=["changed", "taken away"])
def test_a_laxer_policy_than_the_run_began_with(fleet: Fleet, kept: bool, capfd: pytest.CaptureFixture[str]) -> None:
    """What was rejected is not accepted by writing that it is."""
    strictest = yaml.safe_load(policies.FILE.read_text())
    strictest["peers"] = "fail"
    began = fleet.run.folder / "policy.yml"
    began.write_text(yaml.safe_dump(strictest))
    digest = policies.read(began).digest
    fleet.run.journal.unlink()
    fleet.run.note(1.0, "expected", hosts=3, policy=digest)
    stands(fleet)
    lax = {**strictest, "peers": "inform"}
    if kept:
        (fleet.run.folder / "policy.yml").write_text(yaml.safe_dump(lax))
        policies.load.cache_clear()
    else:
        began.unlink()
    assert f"was {digest[:12]} when run {runs.RUN} began" in one_line(fleet, capfd, "policy.yml")


@pytest.mark.parametrize("data", YAML.values(), ids=YAML)
def test_the_waivers_that_the_run_keeps(fleet: Fleet, data: bytes) -> None:
    """Waivers that cannot be read waive nothing; every host is judged without them, and the report says why."""
    (fleet.run.folder / "waivers.yml").write_bytes(data)
    stands(fleet)
    assert "no waiver is applied" in (fleet.run.folder / "index.html").read_text()


@pytest.mark.parametrize("put", [hostile.sparse, hostile.pipe, hostile.folder, hostile.device])
def test_the_waivers_that_the_run_keeps_are_no_file(fleet: Fleet, put: Any) -> None:
    (fleet.run.folder / "waivers.yml").write_bytes(b"[]")
    put(fleet.run.folder / "waivers.yml")
    stands(fleet)
    assert "no waiver is applied" in (fleet.run.folder / "index.html").read_text()


BOUNDED = """
import json, resource, sys
from pathlib import Path
from gpuburn.controller import account, collect, report
from gpuburn.controller.run import Run

run = Run.of(Path(sys.argv[1]), sys.argv[2])
used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + 256 * 2**20,) * 2)
report.make(run, float(sys.argv[3]))
print(account.told(account.give(run, float(sys.argv[3]))))
"""


def test_gigabytes_are_not_read_into_memory(fleet: Fleet) -> None:
    """Sealed file, plan, journal and what is kept, 2 GiB each, on three hosts: 256 MiB are enough to refuse them."""
    run = fleet.run
    hostile.sparse(run.host("good0") / "plan.json")
    hostile.sparse(run.incoming("good1"))
    hostile.sparse(run.journal)
    hostile.sparse(run.host("bad") / "judged.json")
    hostile.sparse(run.folder / "waivers.yml")
    argv = [sys.executable, "-c", BOUNDED, str(run.folder.parent), run.id, str(hosts.NOW)]
    env = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "PYTHONPATH": str(Path(__file__).parents[2])}
    done = subprocess.run(argv, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    said = {name: one["decision"] for name, one in json.loads(done.stdout).items()}
    assert said == {"bad": "rejected", "good0": "undecided", "good1": "undecided"}


def test_a_result_that_unpacks_to_gigabytes_is_not_read_into_memory(fleet: Fleet) -> None:
    for name in ("good0", "good1"):
        hostile.bomb(fleet.run.incoming(name), hostile.HUGE if name == "good0" else 400 * 2**20)
    argv = [sys.executable, "-c", BOUNDED, str(fleet.run.folder.parent), fleet.run.id, str(hosts.NOW)]
    env = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "PYTHONPATH": str(Path(__file__).parents[2])}
    done = subprocess.run(argv, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    said = {name: one["decision"] for name, one in json.loads(done.stdout).items()}
    assert said == {"bad": "rejected", "good0": "undecided", "good1": "undecided"}
