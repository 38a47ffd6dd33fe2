"""How each subject fared, from exit statuses and from what workers said of their own failure."""

from __future__ import annotations

import dataclasses
import json
from types import SimpleNamespace

import pytest

from gpuburn.agent import launch
from gpuburn.agent.launch import Processes, overall
from gpuburn.agent.user import Account
from gpuburn.outcome import Status, SubjectOutcome
from gpuburn.plan import Device
from gpuburn.strict import Refused
from tests.agent.test_run import make, step

COMPLETED, ERRORED, TIMED_OUT, ABORTED, UNKILLABLE = (
    Status.COMPLETED, Status.ERRORED, Status.TIMED_OUT, Status.ABORTED, Status.UNKILLABLE,
)  # fmt: skip


@pytest.fixture
def ended(tmp_path):
    """The processes of a step that have ended with these statuses, and left these failures."""

    def made(probe: str, statuses: dict[str, int | None], **failures: object) -> Processes:
        one = step(probe)
        them = Processes(make([one]), one, tmp_path, Account())
        them.workers = {name: SimpleNamespace(returncode=status, pid=0) for name, status in statuses.items()}  # type: ignore[misc]
        (tmp_path / "log").mkdir(exist_ok=True)
        for who, said in failures.items():
            (tmp_path / f"error.{who.lstrip('_')}.json").write_text(json.dumps(said))
        return them

    return made


def fared(them: Processes, cut: Status | None = None, why: str = "") -> list[tuple[str, Status, str]]:
    return [(one.subject, one.status, one.why) for one in them.subjects(cut, why)]


def failure(why: str, at: float = 1.0) -> dict[str, object]:
    return {"at": at, "why": why, "trace": "..."}


def test_each_device_answers_for_itself(ended, tmp_path):
    them = ended("gemm", {"cpu0": 0, "cpu1": -11, "cpu2": 1}, cpu2=failure("RuntimeError: out of memory"))
    (tmp_path / "log" / "cpu1.log").write_text("last\nwords")
    assert fared(them) == [
        ("cpu0", COMPLETED, ""),
        ("cpu1", ERRORED, "ended with signal 11: last words"),
        ("cpu2", ERRORED, "RuntimeError: out of memory"),
    ]


def test_a_process_that_said_nothing_is_said_to_have(ended):
    assert fared(ended("idle", {"host": 3})) == [("host", ERRORED, "ended with exit status 3: it said nothing")]


@pytest.mark.parametrize("cut", [TIMED_OUT, ABORTED, UNKILLABLE])
def test_what_ends_a_step_is_the_cause_for_those_who_had_not_ended(ended, cut):
    them = ended("gemm", {"cpu0": 0, "cpu1": None, "cpu2": -15}, cpu2=failure("RuntimeError: its own fault"))
    assert fared(them, cut, "cut") == [
        ("cpu0", COMPLETED, ""), ("cpu1", cut, "cut"), ("cpu2", ERRORED, "RuntimeError: its own fault"),
    ]  # fmt: skip


def test_the_first_rank_to_fail_is_the_cause_of_all_others_whatever_they_say(ended):
    them = ended("allreduce", {"ranks": 1}, _0=failure("connection closed", 9.0), _2=failure("its own fault", 2.0))
    assert fared(them) == [
        ("cpu0", ERRORED, "ended after cpu2 failed: its own fault; then connection closed"),
        ("cpu1", ERRORED, "ended after cpu2 failed: its own fault"),
        ("cpu2", ERRORED, "its own fault"),
    ]


LOG = """
Failures:
[1]:
  time      : 2026-12-01_08:27:57
  host      : localhost
  rank      : 0 (local_rank: 0)
  exitcode  : -15 (pid: 7737)  (SIGTERM)
  error_file: <N/A>
------------------------------------------------------
Root Cause (first observed failure):
[0]:
  time      : 2026-12-01_08:27:57
  host      : localhost
  rank      : {rank} (local_rank: {rank})
  exitcode  : {code} (pid: 7738)  (SIGSEGV)
  error_file: <N/A>
"""


def test_a_rank_that_died_of_a_signal_is_the_first_although_it_said_nothing(ended, tmp_path):
    them = ended("allreduce", {"ranks": 1}, _0=failure("connection closed", 9.0))
    (tmp_path / "log" / "ranks.log").write_text(LOG.format(rank=1, code=-11))
    assert fared(them) == [
        ("cpu0", ERRORED, "ended after cpu1 failed: ended with signal 11; then connection closed"),
        ("cpu1", ERRORED, "ended with signal 11"), ("cpu2", ERRORED, "ended after cpu1 failed: ended with signal 11"),
    ]  # fmt: skip


@pytest.mark.parametrize(("rank", "code"), [(1, -15), (1, 1), (7, -11)])
def test_a_rank_that_the_launcher_ended_or_that_raised_or_that_is_none_is_not_taken_for_the_first(
    ended, tmp_path, rank, code
):
    them = ended("allreduce", {"ranks": 1}, _0=failure("its own fault", 9.0))
    (tmp_path / "log" / "ranks.log").write_text(LOG.format(rank=rank, code=code))
    wanted = "its own fault" if rank == 1 else ""
    assert wanted in fared(them)[1][2] and "signal" not in fared(them)[1][2]


@pytest.mark.parametrize(("rank", "code"), [(1, -6), (1, -9), (2, -6)], ids=["spoke", "spoke_killed", "abort"])
def test_a_signal_after_a_word_is_not_the_cause(ended, tmp_path, rank, code):
    them = ended("allreduce", {"ranks": 1}, _1=failure("OSError: no space left"))
    (tmp_path / "log" / "ranks.log").write_text(LOG.format(rank=rank, code=code))
    assert fared(them)[1] == ("cpu1", ERRORED, "OSError: no space left")
    assert fared(them)[0][2] == "ended after cpu1 failed: OSError: no space left"


def test_an_abort_of_which_nobody_spoke_is_the_cause(ended, tmp_path):
    them = ended("allreduce", {"ranks": 1})
    (tmp_path / "log" / "ranks.log").write_text(LOG.format(rank=2, code=-6))
    assert fared(them)[2] == ("cpu2", ERRORED, "ended with signal 6")


def test_ranks_that_are_ended_together_are_cut_together(ended):
    them = ended("allreduce", {"ranks": -15}, _1=failure("SignalException: 15"))
    assert fared(them, TIMED_OUT, "longer than 5 s") == [
        ("cpu0", TIMED_OUT, "longer than 5 s"), ("cpu1", TIMED_OUT, "SignalException: 15"),
        ("cpu2", TIMED_OUT, "longer than 5 s"),
    ]  # fmt: skip


@pytest.mark.parametrize("said", [
    {}, [], 5, None, {"at": 1.0}, {"why": "x"}, {"at": "soon", "why": "x"}, {"at": 1.0, "why": ["x"]},
    {"at": 1.0, "why": "x", "more": 1},
])  # fmt: skip
def test_a_failure_of_another_form_is_refused_in_a_sentence(ended, said):
    with pytest.raises(Refused, match=r"error\.host\.json"):
        ended("idle", {"host": 1}, host=said).subjects(None, "")


@pytest.mark.parametrize(("probe", "who"), [
    ("allreduce", "_3"), ("allreduce", "cpu0"), ("allreduce", "_-1"), ("gemm", "cpu9"), ("gemm", "_0"), ("idle", "a.b"),
])  # fmt: skip
def test_a_failure_of_nobody_in_the_step_is_refused(ended, probe, who):
    workers = {"allreduce": {"ranks": 1}, "gemm": {f"cpu{n}": 1 for n in range(3)}, "idle": {"host": 1}}[probe]
    with pytest.raises(Refused, match="unknown"):
        ended(probe, workers, **{who: failure("x")}).subjects(None, "")


def test_a_failure_that_is_a_link_or_endless_is_refused(ended, tmp_path):
    (tmp_path / "error.host.json").symlink_to("/dev/zero")
    with pytest.raises(Refused, match="not a regular file"):
        ended("idle", {"host": 1}).subjects(None, "")


def test_a_long_reason_is_bounded(ended):
    [(_, _, why)] = fared(ended("idle", {"host": 1}, host=failure("x" * 10_000)))
    assert len(why) == launch.WHY


@pytest.mark.parametrize(("statuses", "whole"), [
    ([COMPLETED, COMPLETED], COMPLETED), ([COMPLETED, ERRORED], ERRORED), ([ERRORED, TIMED_OUT], TIMED_OUT),
    ([TIMED_OUT, ABORTED], ABORTED), ([ABORTED, UNKILLABLE], UNKILLABLE), ([], COMPLETED),
])  # fmt: skip
def test_a_step_as_a_whole_is_the_worst_of_its_subjects(statuses, whole):
    them = [SubjectOutcome(f"gpu{index}", status, f"why {index}") for index, status in enumerate(statuses)]
    status, why = overall(them)
    assert status is whole and bool(why) == (whole is not COMPLETED)


def test_every_scope_starts_the_processes_that_it_names(tmp_path):
    def commands(probe):
        return Processes(make([step(probe)]), step(probe), tmp_path, Account())._commands()

    assert list(commands("gemm")) == ["cpu0", "cpu1", "cpu2"] and commands("gemm")["cpu1"][-1] == "cpu1"
    assert list(commands("idle")) == ["host"]
    [ranks] = commands("allreduce").values()
    assert "--nproc-per-node=3" in ranks and "--max-restarts=0" in ranks


def test_go_is_said_when_all_that_still_run_are_ready(tmp_path):
    one = step("gemm")
    plan = make([one], devices=[Device(f"cpu{n}", "cpu") for n in range(2)])
    them = Processes(plan, one, tmp_path, Account())
    status: dict[str, int | None] = {"cpu0": None, "cpu1": None}
    them.workers = {name: SimpleNamespace(poll=lambda name=name: status[name]) for name in status}  # type: ignore[misc]
    (tmp_path / "ready.cpu0").touch()
    assert not them.advance() and not (tmp_path / "go").exists()
    status["cpu1"] = 1  # it died before it was ready, and holds nobody up
    assert not them.advance() and (tmp_path / "go").exists()
    status["cpu0"] = 0
    assert them.advance()


def test_go_does_not_lead_elsewhere(tmp_path):
    one = step("gemm")
    them = Processes(make([one]), one, tmp_path, Account())
    them.workers = {"cpu0": SimpleNamespace(poll=lambda: None)}  # type: ignore[dict-item]
    (tmp_path / "ready.cpu0").touch()
    (tmp_path / "go").symlink_to(tmp_path / "elsewhere")
    them.advance()
    assert not (tmp_path / "elsewhere").exists()


def test_an_account_of_ones_own_changes_nothing():
    assert Account.named("") == Account() == dataclasses.replace(Account(), uid=None)
