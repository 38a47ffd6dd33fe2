"""Policy and waivers hold for a whole run: checked before anything runs, kept, and not changed by coming back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import runs
import yaml

from gpuburn import policy, waiver
from gpuburn.controller import preflight, whole_run
from gpuburn.controller.run import POLICY, WAIVERS, Run
from gpuburn.strict import Refused
from tests.controller.test_main import LOOK, TRIAL, gpuburn  # noqa: F401  (a fixture)
from tests.controller.test_waived import SLOW, other

OTHER = policy.FILE.read_text().replace("peers: warn", "peers: inform", 1)


@pytest.fixture
def files(tmp_path: Path) -> dict[str, str]:
    """A site's own policy and waivers."""
    strict_policy = yaml.safe_load(policy.FILE.read_text()) | {"peers": "fail"}
    (tmp_path / "our-policy.yml").write_text(yaml.safe_dump(strict_policy))
    (tmp_path / "our-waivers.yml").write_text(waiver.dump([SLOW]))
    return {
        "gpuburn_policy": str(tmp_path / "our-policy.yml"), "gpuburn_waivers": str(tmp_path / "our-waivers.yml"),
    }  # fmt: skip


def expect(call: Any, tmp_path: Path, *more: str, **variables: Any) -> Any:
    stdin = {"node1": {"variables": {**TRIAL, **variables}}}
    return call("expect", "--run", runs.RUN, "--reports", tmp_path / "reports", *more, stdin=stdin)


def test_the_run_keeps_both_and_its_journal_names_their_digests(
    gpuburn: Any, tmp_path: Path, files: dict[str, str]  # noqa: F811
) -> None:  # fmt: skip
    assert expect(gpuburn, tmp_path, **files).status == 0
    run = Run.of(tmp_path / "reports", runs.RUN)
    assert run.waivers() == [SLOW] and run.policy().peers == "fail"
    [entry] = run.entries()
    assert entry.details["policy"] == run.policy().digest != policy.load().digest
    assert entry.details["waivers"] == waiver.digest([SLOW])
    assert expect(gpuburn, tmp_path, "--back", **files).status == 0


def test_a_run_that_names_none_keeps_our_policy_and_no_waiver(gpuburn: Any, tmp_path: Path) -> None:  # noqa: F811
    assert expect(gpuburn, tmp_path).status == 0
    run = Run.of(tmp_path / "reports", runs.RUN)
    assert (run.folder / POLICY).read_bytes() == policy.FILE.read_bytes()
    assert not (run.folder / WAIVERS).exists()
    assert expect(gpuburn, tmp_path, "--back").status == 0


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"gpuburn_policy": ""}, "a changed policy is a new run"),
        ({"gpuburn_waivers": ""}, "a changed set of waivers is a new run"),
        ({"waivers": waiver.dump([SLOW, other(id="W-2")])}, "a changed set of waivers is a new run"),
        ({"policy": OTHER}, "a changed policy is a new run"),
    ],
)
def test_coming_back_with_other_rules_is_refused(
    gpuburn: Any, tmp_path: Path, files: dict[str, str], change: dict[str, str], says: str  # noqa: F811
) -> None:  # fmt: skip
    assert expect(gpuburn, tmp_path, **files).status == 0
    for name in ("policy", "waivers"):
        if name in change:
            Path(files[f"gpuburn_{name}"]).write_text(change[name])
    given = {**files, **{key: value for key, value in change.items() if key.startswith("gpuburn_")}}
    done = expect(gpuburn, tmp_path, "--back", **given)
    assert done.status == 3 and says in done.err and done.err.count("\n") == 1
    assert len(Run.of(tmp_path / "reports", runs.RUN).entries()) == 1


def test_what_says_the_same_in_another_layout_is_not_changed(
    gpuburn: Any, tmp_path: Path, files: dict[str, str]  # noqa: F811
) -> None:  # fmt: skip
    assert expect(gpuburn, tmp_path, **files).status == 0
    for path in files.values():
        Path(path).write_text("# a remark\n" + Path(path).read_text())
    assert expect(gpuburn, tmp_path, "--back", **files).status == 0


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("waivers", waiver.dump([SLOW]).replace("A. Person", "' '"), "'person' is empty"),
        ("waivers", waiver.dump([SLOW]).replace("gemm.tflops", "gemm.tflop"), "did you mean 'gemm.tflops'"),
        ("waivers", None, "no such file"),
        ("policy", "rows: [{decision: acceptd, because: x}]", "'acceptd' is not one of"),
        ("policy", None, "no such file"),
    ],
)
@pytest.mark.parametrize("more", [(), ("--check",)])
def test_rules_that_cannot_be_read_are_refused_before_anything_runs(
    gpuburn: Any, tmp_path: Path, files: dict[str, str], name: str, text: str | None, says: str,  # noqa: F811
    more: tuple[str, ...],
) -> None:  # fmt: skip
    path = Path(files[f"gpuburn_{name}"])
    path.write_text(text) if text is not None else path.unlink()
    done = expect(gpuburn, tmp_path, *more, **files)
    assert done.status == 3 and says in done.err
    assert not (tmp_path / "reports").exists()


def test_two_hosts_of_a_run_name_the_same_rules(tmp_path: Path, files: dict[str, str]) -> None:
    hosts = preflight.expect({"a": {**TRIAL, **files}, "b": TRIAL})
    with pytest.raises(Refused, match=r"gpuburn_policy is '.*' for host a and '' for host b; it is for the whole run"):
        whole_run.given([(host.name, host.site) for host in hosts], "hosts.yml")


def test_the_plan_carries_the_digest_of_the_runs_policy(
    gpuburn: Any, tmp_path: Path, files: dict[str, str], monkeypatch: pytest.MonkeyPatch  # noqa: F811
) -> None:  # fmt: skip
    monkeypatch.setattr("time.time", lambda: runs.ISSUED)
    assert expect(gpuburn, tmp_path, **files).status == 0
    Path(files["gpuburn_policy"]).write_text(OTHER)  # after the start: the run's own counts
    policy.load.cache_clear()  # as in another process
    stdin = {"node1": {"variables": {**TRIAL, **files}, "look": json.dumps({**LOOK, "time": runs.ISSUED})}}
    done = gpuburn("plan", "--run", runs.RUN, "--reports", tmp_path / "reports", stdin=stdin)
    assert done.err == ""
    assert "plan" in json.loads(done.out)["node1"]
    run = Run.of(tmp_path / "reports", runs.RUN)
    plan = run.plan("node1")
    assert plan and plan.policy == run.policy().digest != policy.load().digest


def test_a_delivery_is_a_plain_name() -> None:
    with pytest.raises(Refused, match=r"gpuburn_delivery is '\.\./lot'; wanted are letters"):
        preflight.expect({"a": {**TRIAL, "gpuburn_delivery": "../lot"}})
